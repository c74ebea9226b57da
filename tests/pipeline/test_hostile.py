"""Requests that no proper client sends: each has one meaning or none, and the gateway goes on."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest

from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import Caller, calls_left, new_caller
from tests.support.raw import request, talk
from tests.support.stores import Store

HOST = "Host: 127.0.0.1"
CLOSE = "Connection: close"
# Less than the default time limits of a gateway.
IN_TIME_S = 9


@pytest.fixture(scope="module")
def target(its_store: Store) -> Iterator[Gateway]:
    with Gateway(its_store, header_timeout_s=1) as started:
        yield started


@pytest.fixture
def hostile(target: Gateway, its_store: Store, question: dict[str, str]) -> Iterator[Caller]:
    """A caller; after the test the gateway still serves, and only successes were paid for."""
    caller = new_caller(its_store, rate_limit=100_000)
    yield caller
    witness = new_caller(its_store)
    assert target.get(token=witness.token, query=question).code == 0
    assert target.client.get("/healthz").status_code == 200


@pytest.fixture
def path(question: dict[str, str]) -> str:
    return f"{ANALYSIS}?{urlencode(question)}"


def bearer(caller: Caller) -> str:
    return f"Authorization: Bearer {caller.token}"


def test_half_sent_headers_end_the_connection_in_time(target: Gateway, hostile: Caller) -> None:
    halves = [
        "G",
        "GET / HTTP/1.1",
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n",
        f"GET / HTTP/1.1\r\nHost: x\r\n{bearer(hostile)}",
    ]
    with ThreadPoolExecutor(len(halves)) as pool:
        for spoken in pool.map(lambda half: talk(target.port, half.encode()), halves):
            assert spoken.is_closed and spoken.codes == []
            assert spoken.elapsed_s < IN_TIME_S


@pytest.mark.parametrize(
    "large",
    [
        ["X-Large: " + "x" * 40_000],
        [f"X-{number}: x" for number in range(5000)],
        ["X" * 40_000 + ": x"],
    ],
    ids=["value", "count", "name"],
)
def test_headers_that_are_too_large_are_refused(
    target: Gateway, its_store: Store, hostile: Caller, path: str, large: list[str]
) -> None:
    spoken = talk(target.port, request(path, HOST, bearer(hostile), *large, CLOSE))
    assert spoken.is_closed
    assert [reply.status for reply in spoken.replies] in ([431], [400], [])
    assert calls_left(its_store, hostile) == 100


def test_a_target_that_is_too_long_is_refused(
    target: Gateway, its_store: Store, hostile: Caller, path: str
) -> None:
    spoken = talk(target.port, request(f"{path}&x={'x' * 100_000}", HOST, bearer(hostile), CLOSE))
    assert spoken.is_closed and spoken.codes in ([], [100])
    assert calls_left(its_store, hostile) == 100


@pytest.mark.parametrize(
    ("version", "headers", "codes"),
    [
        ("HTTP/1.1", [HOST, "Host: elsewhere.example"], ([100],)),
        ("HTTP/1.1", ["Host: elsewhere.example"], ([0],)),
        ("HTTP/1.1", [], ([100],)),
        ("HTTP/1.0", [], ([0],)),
        ("HTTP/0.9", [HOST], ([],)),
        ("HTTP/3.0", [HOST], ([],)),
        ("", [HOST], ([],)),
        ("HTTP/1.1", [HOST, "Authorization : Basic x"], ([],)),
        ("HTTP/1.1", [HOST, "Bad Name: x"], ([],)),
        ("HTTP/1.1", [HOST, "X: a\r\n folded"], ([],)),
        ("HTTP/1.1", [HOST, "X: a\0b"], ([],)),
        ("HTTP/1.1", [HOST, "no colon"], ([],)),
    ],
)
def test_odd_requests_have_one_meaning_or_are_refused(
    target: Gateway,
    its_store: Store,
    hostile: Caller,
    path: str,
    version: str,
    headers: list[str],
    codes: tuple[list[int], ...],
) -> None:
    sent = request(path, *headers, bearer(hostile), CLOSE, version=version)
    spoken = talk(target.port, sent)
    assert spoken.is_closed and spoken.codes in codes
    assert calls_left(its_store, hostile) == 100 - spoken.codes.count(0)


def test_a_target_in_absolute_form_means_its_path(
    target: Gateway, its_store: Store, hostile: Caller, path: str
) -> None:
    for absolute, codes in (
        (f"http://elsewhere.example{path}", [0]),
        ("http://elsewhere.example/nowhere", [404]),
        (f"http://elsewhere.example/x{path}", [404]),
    ):
        assert talk(target.port, request(absolute, HOST, bearer(hostile), CLOSE)).codes == codes
    assert calls_left(its_store, hostile) == 99


def test_two_different_credentials_are_none(
    target: Gateway, its_store: Store, hostile: Caller, path: str
) -> None:
    other = new_caller(its_store)
    for pair in (
        (bearer(hostile), bearer(other)),
        (bearer(other), bearer(hostile)),
        (bearer(hostile), "Authorization: Basic eDp5"),
        ("Authorization:", bearer(hostile)),
        (bearer(hostile), "AUTHORIZATION: Bearer"),
    ):
        assert talk(target.port, request(path, HOST, *pair, CLOSE)).codes == [401]
    assert (calls_left(its_store, hostile), calls_left(its_store, other)) == (100, 100)


def test_pipelined_requests_each_get_their_envelope_in_order(
    target: Gateway, its_store: Store, hostile: Caller, path: str
) -> None:
    good = request(path, HOST, bearer(hostile))
    lost = request("/nowhere", HOST)
    outsider = request(path, HOST)
    spoken = talk(target.port, (good + lost + outsider) * 5, expected=15)
    assert spoken.codes == [0, 404, 401] * 5
    assert calls_left(its_store, hostile) == 95


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0" * 1000,
        bytes(range(256)) * 4,
        b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + b"\0" * 200,
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1 HTTP/1.1\r\n\r\n",
        b"\r\n" * 1000 + b"\0",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /路径 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode(),
    ],
    ids=lambda garbage: repr(garbage[:16]),
)
def test_garbage_ends_the_connection(target: Gateway, hostile: Caller, garbage: bytes) -> None:
    assert hostile.token
    spoken = talk(target.port, garbage)
    assert spoken.is_closed and spoken.elapsed_s < IN_TIME_S
    assert set(spoken.codes) <= {404}


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (request("gateway:443", "Host: gateway:443", method="CONNECT"), 404, 404),
        (request("/healthz", HOST, method="CONNECT"), 404, 404),
        (request("/healthz"), 400, 100),
        (request("/nowhere"), 400, 100),
        (request(ANALYSIS), 400, 100),
        (request(ANALYSIS, HOST, HOST), 400, 100),
        (request("/nowhere", HOST, HOST), 400, 100),
        (request("/healthz", HOST, "Host: other"), 400, 100),
    ],
    ids=[
        *("connect", "connect to a path", "no host", "no host of an unknown path"),
        *("no host of an operation", "twice of an operation", "twice", "two hosts"),
    ],
)
def test_what_http_does_not_allow_is_refused_with_its_own_status(
    target: Gateway, hostile: Caller, sent: bytes, status: int, code: int
) -> None:
    assert hostile.token
    spoken = talk(target.port, sent + request("/nowhere", HOST))
    assert [(each.status, each.envelope["code"]) for each in spoken.replies] == [(status, code)]
    assert spoken.is_closed, "what follows is no request"


def test_http_1_0_needs_no_host(target: Gateway, hostile: Caller) -> None:
    assert hostile.token
    (reply,) = talk(target.port, request("/healthz", version="HTTP/1.0")).replies
    assert reply.status == 200
