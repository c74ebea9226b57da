"""Requests whose length can be understood in two ways, and lengths that cannot be meant."""

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import Caller, calls_left, new_caller
from tests.support.raw import request, talk
from tests.support.stores import Store

HOST = "Host: 127.0.0.1"
CHUNKED = "Transfer-Encoding: chunked"
# Less than the gateway itself waits for what does not come.
IN_TIME_S = 9


@pytest.fixture
def path(question: dict[str, str]) -> str:
    return f"{ANALYSIS}?{urlencode(question)}"


@pytest.fixture
def honest(gateway: Gateway, store: Store, path: str) -> Iterator[Caller]:
    """A caller; the next connection is answered as if nothing had been."""
    caller = new_caller(store, rate_limit=100_000)
    yield caller
    left = calls_left(store, caller)
    bearer = f"Authorization: Bearer {caller.token}"
    assert talk(gateway.port, request(path, HOST, bearer, "Connection: close")).codes == [0]
    assert calls_left(store, caller) == left - 1


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (["Content-Length: 5", CHUNKED], b"0\r\n\r\n"),
        ([CHUNKED, "Content-Length: 5"], b"0\r\n\r\n"),
        ([CHUNKED, "Content-Length: 500"], b"0\r\n\r\n"),
        (["Content-Length: 0", CHUNKED], b"0\r\n\r\n"),
        (["Content-Length: 5", "Content-Length: 6"], b"hello!"),
        (["Content-Length: 0", "Content-Length: 5"], b"hello"),
        (["Content-Length: 5, 6"], b"hello!"),
        (["Content-Length: +5"], b"hello"),
        (["Content-Length: 0x5"], b"hello"),
        (["Content-Length: -1"], b""),
        ([f"Content-Length: {10**30}"], b""),
        (["Transfer-Encoding: xchunked"], b"0\r\n\r\n"),
        (["Transfer-Encoding: chunked, identity"], b"0\r\n\r\n"),
        (["Transfer-Encoding: identity", "Content-Length: 5"], b"hello"),
        ([CHUNKED], b"5\nhello\r\n0\r\n\r\n"),
        ([CHUNKED], b"zz\r\nhello\r\n0\r\n\r\n"),
        ([CHUNKED], b"ffffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    ],
)
def test_what_stands_behind_a_doubtful_body_is_never_a_second_request(
    gateway: Gateway, store: Store, honest: Caller, path: str, headers: list[str], body: bytes
) -> None:
    victim = new_caller(store)
    hidden = request(path, HOST, f"Authorization: Bearer {victim.token}", "Connection: close")
    sent = request(path, HOST, f"Authorization: Bearer {honest.token}", *headers, body=body)
    spoken = talk(gateway.port, sent + hidden)
    assert spoken.codes in ([], [0])
    assert calls_left(store, victim) == 100
    assert calls_left(store, honest) == 100 - spoken.codes.count(0)


@pytest.mark.parametrize("headers", [["Content-Length: 5", "Content-Length: 5"], [CHUNKED]])
def test_a_body_of_one_certain_length_is_read_over(
    gateway: Gateway, store: Store, honest: Caller, path: str, headers: list[str]
) -> None:
    bearer = f"Authorization: Bearer {honest.token}"
    body = b"hello" if "5" in headers[0] else b"5\r\nhello\r\n0\r\n\r\n"
    first = request(path, HOST, bearer, *headers, body=body)
    second = request("/nowhere", HOST, "Connection: close")
    assert talk(gateway.port, first + second).codes in ([0, 404], [0])
    assert calls_left(store, honest) == 99


@pytest.mark.parametrize("ends", ["all", "every second", "the last"])
def test_a_line_that_ends_with_lf_alone_means_what_it_means_with_crlf(
    gateway: Gateway, store: Store, honest: Caller, path: str, ends: str
) -> None:
    """Lengths, credentials and the end of the head are the same: no request is hidden by it."""
    victim = new_caller(store)
    bearers = [f"Authorization: Bearer {each.token}" for each in (honest, victim)]
    end = b"\r\nConnection: close\r\n\r\n"

    def mixed(sent: bytes) -> bytes:
        head, _, body = sent.partition(b"\r\n\r\n")
        lines = [*head.split(b"\r\n"), b""]
        are_short = {
            "all": lambda _: True,
            "every second": lambda n: n % 2,
            "the last": lambda _: 0,
        }
        ended = [
            line + (b"\n" if are_short[ends](number) or number == len(lines) - 1 else b"\r\n")
            for number, line in enumerate(lines)
        ]
        return b"".join(ended) + body

    first = mixed(request(path, HOST, bearers[0], "Content-Length: 5", body=b"hello"))
    second = mixed(request("/nowhere", HOST, "Connection: close"))
    assert talk(gateway.port, first + second).codes == [0, 404]
    assert calls_left(store, honest) == 99
    # What comes after a value's LF is a line of its own: the two tokens are none.
    twice = request(path, HOST, f"{bearers[0]}\n{bearers[1]}").replace(b"\r\n\r\n", end)
    assert talk(gateway.port, twice).codes == [401]
    # CR alone ends no line, and is in no value.
    hidden = request(path, HOST, f"X-Note: a\r{bearers[0]}").replace(b"\r\n\r\n", end)
    assert talk(gateway.port, hidden).codes == []
    assert (calls_left(store, honest), calls_left(store, victim)) == (99, 100)


def test_ten_gibibytes_announced_on_a_get_are_not_waited_for(
    gateway: Gateway, store: Store, honest: Caller, path: str
) -> None:
    bearer = f"Authorization: Bearer {honest.token}"
    sent = request(path, HOST, bearer, f"Content-Length: {10 * 2**30}", body=b"x" * 100_000)
    spoken = talk(gateway.port, sent, expected=1)
    assert spoken.codes == [0] and spoken.elapsed_s < IN_TIME_S
    assert calls_left(store, honest) == 99


def test_a_body_that_never_ends_is_not_read(gateway: Gateway, honest: Caller) -> None:
    bearer = f"Authorization: Bearer {honest.token}"
    endless = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    sent = request(ANALYSIS, HOST, bearer, CHUNKED, method="POST", body=endless * 200)
    spoken = talk(gateway.port, sent)
    assert spoken.codes in ([404], []) and spoken.elapsed_s < IN_TIME_S
