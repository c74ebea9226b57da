"""Refused requests fill no disk: of those without a known token, or of what an account may not do,
some of a second have a line in the log, and the others are counted. All others of known accounts
have theirs."""

import asyncio
import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import RUNTIME, new_caller
from tests.support.load import fire
from tests.support.orders import sealer_of
from tests.support.postgresql import locked
from tests.support.pushes import EVERYONE, SOURCE, push
from tests.support.raw import request, talk
from tests.support.remote import eventually
from tests.support.stores import Store
from tests.support.wire import Wire
from tollway.contract.receipt import RECEIPTS_PATH
from tollway.gateway.oauth import GRANT_TYPE, TOKEN_PATH
from tollway.intake.sources import add_source
from tollway.ledger.token_format import SECRET, mint
from tollway.operations.waybills.more_calls import WAYBILL_BATCH, WAYBILLS_MAX
from tollway.operations.waybills.operation import WAYBILLS

MANY = 300
# More than have a line if they are of outsiders.
FAILURES = 200
# A kind in the line that counts, and how many of it.
KIND = re.compile(r"([\w.]+) (\d+)(?=[,)])")
# Of a second.
_LINES_MAX = 20
_FORM = "Content-Type: application/x-www-form-urlencoded"


@pytest.fixture
def served(own_store: Store) -> Iterator[Gateway]:
    gateway = Gateway(own_store)
    yield gateway
    gateway.stop()


def _lines(gateway: Gateway) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gateway.log().splitlines() if line.startswith("{")]


@pytest.mark.sqlite
@pytest.mark.parametrize("path", [ANALYSIS, "/nowhere", "/oauth/token", "/push/orders"])
def test_of_many_outsiders_some_are_logged_and_all_are_counted(served: Gateway, path: str) -> None:
    began_s = time.monotonic()
    _flood(served, path)
    took_s = time.monotonic() - began_s
    # No other one comes.
    eventually(lambda: _counted(served), lambda number: number == MANY)
    lines = [each for each in _lines(served) if each.get("request_id")]
    # The flood may begin and end within a second of the clock.
    assert len(lines) <= _LINES_MAX * (took_s + 2)


@pytest.mark.sqlite
def test_of_many_calls_that_an_account_may_not_make_some_are_logged_and_all_are_counted(
    served: Gateway,
) -> None:
    """They do not count against its limit, so it can make any number of them."""
    caller = new_caller(served.store, granted=False)
    began_s = time.monotonic()
    _flood(served, ANALYSIS, caller.token)
    took_s = time.monotonic() - began_s
    eventually(lambda: _counted(served), lambda number: number == MANY)
    lines = [each for each in _lines(served) if each.get("request_id")]
    assert {each["account"] for each in lines} == {caller.account_id}
    assert len(lines) <= _LINES_MAX * (took_s + 2)
    kind = f"PERMISSION_MISSING of {caller.account_id}"
    assert all(kind in each["message"] for each in _left_out(served))


@pytest.mark.sqlite
def test_of_the_many_refused_requests_of_batches_some_are_logged_and_all_are_counted(
    served: Gateway,
) -> None:
    """A batch counts once against the limit of its account, and has a hundred of them."""
    caller = new_caller(served.store, operations=(WAYBILLS,), kind="test")
    began_s = time.monotonic()
    for _ in range(MANY // WAYBILLS_MAX):
        sent = {"waybills": [{}] * WAYBILLS_MAX}
        assert served.post_json(WAYBILL_BATCH.path, sent, token=caller.token).code == 0
    took_s = time.monotonic() - began_s
    eventually(lambda: _counted(served), lambda number: number == MANY)
    lines = [each for each in _lines(served) if each.get("request_id")]
    assert {each["account"] for each in lines} == {caller.account_id}
    assert len(lines) <= _LINES_MAX * (took_s + 2)


@pytest.mark.sqlite
def test_those_before_a_stop_are_counted_by_kind(own_store: Store) -> None:
    gateway = Gateway(own_store)
    _flood(gateway, "/nowhere")
    _flood(gateway, ANALYSIS)
    assert gateway.stop() == 0
    assert _counted(gateway) == 2 * MANY
    named = [KIND.findall(each["message"]) for each in _left_out(gateway)]
    by_kind = Counter(each["reason"] for each in _lines(gateway) if each.get("request_id"))
    for kind, number in chain.from_iterable(named):
        by_kind[kind] += int(number)
    assert by_kind == {"PATH_UNKNOWN": MANY, "CREDENTIAL_INVALID": MANY}


def _flood(gateway: Gateway, path: str, token: str = "x") -> None:
    method = "GET" if path == ANALYSIS else "POST"
    headers = ("Host: 127.0.0.1", f"Authorization: Bearer {token}", "Content-Length: 0")
    sent = MANY * request(path, *headers, method=method)
    assert len(talk(gateway.port, sent, expected=MANY).replies) == MANY


def _left_out(gateway: Gateway) -> list[dict[str, Any]]:
    return [each for each in _lines(gateway) if "have no line" in each.get("message", "")]


def _counted(gateway: Gateway) -> int:
    """How many have a line, and how many are said to have none."""
    lines = [each for each in _lines(gateway) if each.get("request_id")]
    return len(lines) + sum(int(each["message"].split()[0]) for each in _left_out(gateway))


def _invented_client() -> dict[str, str]:
    return {
        "grant_type": GRANT_TYPE,
        "client_id": RUNTIME.new_id("cli_"),
        "client_secret": mint(SECRET, secrets.choice),
    }


def _invented(path: str) -> bytes:
    """What must be looked up before it is refused."""
    if path == ANALYSIS:
        return _request(path, f"Authorization: Bearer {mint('live', secrets.choice)}", method="GET")
    if path == TOKEN_PATH:
        return _request(path, _FORM, body=urlencode(_invented_client()).encode())
    signed = ("webhook-source: unknown", "webhook-id: 1", "webhook-signature: v1,eA==")
    return _request(path, *signed, f"webhook-timestamp: {int(time.time())}", body=b"{}")


def _request(path: str, *headers: str, method: str = "POST", body: bytes = b"") -> bytes:
    length = f"Content-Length: {len(body)}"
    return request(path, "Host: 127.0.0.1", length, *headers, method=method, body=body)


async def _ask(port: int, sent: bytes, statuses: list[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    statuses.append(int((await reader.readuntil(b"\r\n\r\n")).split()[1]))
    writer.close()


async def _ask_all(port: int, path: str, statuses: list[int]) -> None:
    async with asyncio.timeout(60):
        await asyncio.gather(*[_ask(port, _invented(path), statuses) for _ in range(FAILURES)])


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("path", "table"),
    [(ANALYSIS, "token"), (TOKEN_PATH, "client"), ("/push/orders", "push_source")],
)
def test_outsiders_who_are_not_looked_up_in_time_are_counted_too(
    served: Gateway, path: str, table: str
) -> None:
    statuses: list[int] = []
    with ThreadPoolExecutor(1) as executor:
        with locked(served.store.url, table, mode="ACCESS EXCLUSIVE"):
            asked = executor.submit(asyncio.run, _ask_all(served.port, path, statuses))
            # The others are being looked up.
            late = eventually(lambda: list(statuses), lambda found: len(found) >= FAILURES - 2)
        assert set(late) == {200 if path == ANALYSIS else 503}
        asked.result()
    assert len(statuses) == FAILURES
    eventually(lambda: _counted(served), lambda number: number == FAILURES)
    assert len([each for each in _lines(served) if each.get("request_id")]) < FAILURES - 2


def test_who_names_a_source_without_its_signature_counts_as_unauthenticated(
    served: Gateway,
) -> None:
    store, statuses = served.store, list[int]()
    store.do(lambda database: add_source(database, sealer_of(store), SOURCE, EVERYONE, RUNTIME))
    signed = (f"webhook-source: {SOURCE}", "webhook-id: 1", "webhook-signature: v1,eA==")
    headers = (*signed, f"webhook-timestamp: {int(time.time())}", "Content-Length: 999999999")
    sent = request("/push/orders", "Host: 127.0.0.1", *headers, method="POST")

    async def ask_all() -> None:
        async with asyncio.timeout(60):
            await asyncio.gather(*[_ask(served.port, sent, statuses) for _ in range(FAILURES)])

    asyncio.run(ask_all())
    assert statuses == [413] * FAILURES
    eventually(lambda: _counted(served), lambda number: number == FAILURES)
    lines = [each for each in _lines(served) if each.get("request_id")]
    assert {each["source"] for each in lines} == {None}
    assert len(lines) < FAILURES


@pytest.mark.sqlite
def test_of_many_refused_free_requests_some_are_logged_and_all_are_counted(
    own_store: Store,
) -> None:
    """Each kind of them has a limit of its own, and there are dozens."""
    caller = new_caller(own_store)
    headers = ("Host: 127.0.0.1", f"Authorization: Bearer {caller.token}")
    sent = MANY * request(f"{RECEIPTS_PATH}none", *headers)
    with Gateway(own_store, rate_limit=1000) as gateway:
        began_s = time.monotonic()
        assert talk(gateway.port, sent, expected=MANY).codes == [404] * MANY
        took_s = time.monotonic() - began_s
        eventually(lambda: _counted(gateway), lambda number: number == MANY)
        lines = [each for each in _lines(gateway) if each.get("request_id")]
        assert {each["account"] for each in lines} == {caller.account_id}
        assert len(lines) <= _LINES_MAX * (took_s + 2)


@pytest.mark.sqlite
def test_of_the_many_wrong_pushes_of_a_source_some_are_logged_and_all_are_counted(
    served: Gateway,
) -> None:
    store = served.store
    secret = store.do(
        lambda database: add_source(database, sealer_of(store), SOURCE, EVERYONE, RUNTIME)
    ).secret
    began_s = time.monotonic()
    for _ in range(MANY):
        assert push(served, secret, b"[]").status_code == 400
    took_s = time.monotonic() - began_s
    eventually(lambda: _counted(served), lambda number: number == MANY)
    lines = [each for each in _lines(served) if each.get("request_id")]
    assert {each["source"] for each in lines} == {SOURCE}
    assert len(lines) <= _LINES_MAX * (took_s + 2)
    # So many come in less than a second.
    assert len(lines) < MANY


@pytest.mark.sqlite
def test_every_failure_of_a_known_account_is_logged(served: Gateway) -> None:
    caller = new_caller(served.store, rate_limit=1000)
    assert asyncio.run(fire(served, caller.token, {"product_id": "x"}, 1, MANY)) == {100: MANY}
    eventually(
        lambda: Counter(each.get("account") for each in _lines(served)),
        lambda found: found[caller.account_id] == MANY,
    )


@pytest.mark.postgresql
def test_failures_of_the_gateway_are_none_of_outsiders(own_store: Store) -> None:
    caller = new_caller(own_store, rate_limit=1000)
    wire, direct = Wire(own_store.url), own_store.url
    own_store.url = wire.url
    gateway = Gateway(own_store)
    own_store.url = direct
    call = _request(ANALYSIS, f"Authorization: Bearer {caller.token}", method="GET")
    form = _request(TOKEN_PATH, _FORM, body=urlencode(_invented_client()).encode())
    wire.close()
    assert talk(gateway.port, FAILURES * call, expected=FAILURES).codes == [202] * FAILURES
    asked = talk(gateway.port, FAILURES * form, expected=FAILURES).replies
    assert [each.status for each in asked] == [503] * FAILURES
    gateway.stop()
    # One that a stage logged for a call has no time that it took.
    events = Counter(each["event"] for each in _lines(gateway) if "msec" in each)
    assert (events["tollway.call"], events["tollway.token"]) == (FAILURES, FAILURES)
    assert _left_out(gateway) == []
