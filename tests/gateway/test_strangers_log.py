"""Requests without a known token fill no disk: of a second, some have a line in the log, and the
others are counted. Those of known accounts all have theirs."""

import asyncio
import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import chain
from typing import Any

import httpx
import pytest

from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import RUNTIME, new_caller
from tests.support.load import fire
from tests.support.postgresql import locked
from tests.support.raw import request, talk
from tests.support.remote import eventually
from tests.support.stores import Store
from tests.support.wire import Wire
from tollway.gateway.token_request import GRANT_TYPE, TOKEN_PATH
from tollway.ledger.token_format import SECRET, mint

MANY = 300
# More than have a line if they are of strangers.
FAILURES = 200
# A kind in the line that counts, and how many of it.
KIND = re.compile(r"([\w.]+) (\d+)(?=[,)])")
# Of a second; how long this takes is not known.
_SECONDS_MAX = 8
_LINES_MAX = 20 * _SECONDS_MAX


@pytest.fixture
def served(own_store: Store) -> Iterator[Gateway]:
    gateway = Gateway(own_store)
    yield gateway
    gateway.stop()


def _lines(gateway: Gateway) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gateway.log().splitlines() if line.startswith("{")]


@pytest.mark.sqlite
@pytest.mark.parametrize("path", [ANALYSIS, "/nowhere", "/oauth/token", "/push/orders"])
def test_of_many_strangers_some_are_logged_and_all_are_counted(served: Gateway, path: str) -> None:
    _flood(served, path)
    # No other one comes.
    eventually(lambda: _counted(served), lambda number: number == MANY)
    lines = [each for each in _lines(served) if each.get("request_id")]
    assert len(lines) <= _LINES_MAX


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


def _flood(gateway: Gateway, path: str) -> None:
    method = "GET" if path == ANALYSIS else "POST"
    headers = ("Host: 127.0.0.1", "Authorization: Bearer x", "Content-Length: 0")
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


def _invented(path: str) -> dict[str, Any]:
    """What must be looked up before it is refused."""
    if path == ANALYSIS:
        return {"headers": {"Authorization": f"Bearer {mint('live', secrets.choice)}"}}
    if path == TOKEN_PATH:
        return {"data": _invented_client()}
    signed = {"webhook-source": "unknown", "webhook-id": "1", "webhook-signature": "v1,eA=="}
    return {"headers": {**signed, "webhook-timestamp": str(int(time.time()))}, "content": b"{}"}


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("path", "table"),
    [(ANALYSIS, "token"), (TOKEN_PATH, "client"), ("/push/orders", "push_source")],
)
def test_strangers_who_are_not_looked_up_in_time_are_counted_too(
    served: Gateway, path: str, table: str
) -> None:
    method = "GET" if path == ANALYSIS else "POST"
    limits = httpx.Limits(max_connections=None)
    with (
        httpx.Client(base_url=served.base_url, timeout=60, limits=limits) as client,
        ThreadPoolExecutor(FAILURES) as pool,
    ):
        with locked(served.store.url, table, mode="ACCESS EXCLUSIVE"):
            sent = [
                pool.submit(client.request, method, path, **_invented(path))
                for _ in range(FAILURES)
            ]
            # The others are being looked up.
            late = eventually(
                lambda: [each.result() for each in sent if each.done()],
                lambda found: len(found) >= FAILURES - 2,
            )
        assert {each.status_code for each in late} == {200 if path == ANALYSIS else 503}
        wait(sent)
    eventually(lambda: _counted(served), lambda number: number == FAILURES)
    assert len([each for each in _lines(served) if each.get("request_id")]) < FAILURES - 2


@pytest.mark.sqlite
def test_every_failure_of_a_known_account_is_logged(served: Gateway) -> None:
    caller = new_caller(served.store, rate_limit=1000)
    assert asyncio.run(fire(served, caller.token, {"product_id": "x"}, 1, MANY)) == {100: MANY}
    eventually(
        lambda: Counter(each.get("account") for each in _lines(served)),
        lambda found: found[caller.account_id] == MANY,
    )


@pytest.mark.postgresql
def test_failures_of_the_gateway_are_none_of_strangers(own_store: Store) -> None:
    caller = new_caller(own_store, rate_limit=1000)
    wire, direct = Wire(own_store.url), own_store.url
    own_store.url = wire.url
    gateway = Gateway(own_store)
    own_store.url = direct
    form = _invented_client()
    wire.close()
    for _ in range(FAILURES):
        assert gateway.get(token=caller.token).code == 202
        assert gateway.client.post(TOKEN_PATH, data=form).status_code == 503
    gateway.stop()
    # One that a stage logged for a call has no time that it took.
    events = Counter(each["event"] for each in _lines(gateway) if "msec" in each)
    assert (events["tollway.call"], events["tollway.token"]) == (FAILURES, FAILURES)
    assert _left_out(gateway) == []
