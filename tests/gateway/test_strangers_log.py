"""Requests without a known token fill no disk: of a second, some have a line in the log, and the
others are counted. Those of known accounts all have theirs."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import new_caller
from tests.support.remote import eventually
from tests.support.stores import Store

MANY = 300
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
    for _ in range(MANY):
        served.client.post(path, headers={"Authorization": "Bearer x"})

    def counted() -> int:
        # The next one tells how many of the second before have no line.
        served.client.post(path)
        lines = [each for each in _lines(served) if each.get("request_id")]
        assert len(lines) < _LINES_MAX + 20
        left_out = [each for each in _lines(served) if "have no line" in each.get("message", "")]
        return len(lines) + sum(int(each["message"].split()[0]) for each in left_out)

    eventually(counted, lambda number: number >= MANY)


@pytest.mark.sqlite
def test_every_failure_of_a_known_account_is_logged(served: Gateway) -> None:
    caller = new_caller(served.store, rate_limit=1000)
    for _ in range(MANY):
        served.get(token=caller.token, query={"product_id": "x"})
    eventually(
        lambda: Counter(each.get("account") for each in _lines(served)),
        lambda found: found[caller.account_id] == MANY,
    )
