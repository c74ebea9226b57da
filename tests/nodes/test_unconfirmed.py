"""Rows that the primary has committed and its synchronous standby does not have: no answer depends
on them before the standby has them too, since a failover would lose them."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.support.figures import store_with_figures
from tests.support.gateway import Gateway, Reply
from tests.support.ledger import RUNTIME, calls_left, new_caller
from tests.support.orders import order, sealer_of
from tests.support.pair import Pair
from tests.support.postgresql import run_on
from tests.support.pushes import EVERYONE, SOURCE, push
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.intake.sources import add_source

pytestmark = pytest.mark.postgresql

CALLS = 100
# How long a commit waits for the standby.
PATIENCE_S = 2
CANCEL = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair(is_synchronous=True)
    yield made
    made.remove()


@pytest.fixture
def store(pair: Pair, tmp_path: Path, today: date) -> Store:
    return store_with_figures(tmp_path / "tollway.db", today, pair.url)


@pytest.fixture
def gateway(store: Store) -> Iterator[Gateway]:
    with Gateway(store, call_timeout_s=PATIENCE_S) as started:
        yield started


def until_on_the_primary(pair: Pair, question: str) -> None:
    """Until something that waits for the standby is committed without it, as after a crash."""

    def found() -> list[tuple[object, ...]]:
        run_on(pair.primary.url, CANCEL)
        return run_on(pair.primary.url, question)

    eventually(found, lambda rows: rows == [(1,)])


def test_a_kept_answer_is_not_repeated_before_the_standby_has_it(
    pair: Pair, store: Store, gateway: Gateway, question: dict[str, str]
) -> None:
    caller = new_caller(store, calls=CALLS)

    def call() -> Reply:
        headers = {"Idempotency-Key": "once"}
        return gateway.get(token=caller.token, query=question, headers=headers)

    assert gateway.get(token=caller.token, query=question).code == 0
    with pair.standby.held():
        assert call().code == 202
        until_on_the_primary(pair, "SELECT count(*) FROM idempotency_key")
        for _ in range(2):
            # The second may find that the first is still held up.
            assert call().code in (101, 202)
    replay = eventually(call, lambda reply: reply.code == 0)
    assert replay.headers["x-replay-of"]
    assert calls_left(store, caller) == CALLS - 2


@pytest.mark.parametrize(
    ("record", "table"),
    [(order("sn-1"), "shop_order"), ({"order_sn": "wrong"}, "rejected_record")],
    ids=["good", "wrong"],
)
def test_a_push_is_not_acknowledged_before_the_standby_has_it(
    pair: Pair, store: Store, gateway: Gateway, record: dict[str, Any], table: str
) -> None:
    secret = store.do(
        lambda database: add_source(database, sealer_of(store), SOURCE, EVERYONE, RUNTIME)
    ).secret
    body = msgspec.json.encode(record)

    def pushed() -> httpx.Response:
        return push(gateway, secret, body)

    # So that its month is there.
    assert push(gateway, secret, msgspec.json.encode(order("sn-0"))).status_code == 200
    with pair.standby.held():
        assert pushed().status_code == 503
        new = "WHERE order_sn = 'sn-1'" if table == "shop_order" else ""
        until_on_the_primary(pair, f"SELECT count(*) FROM {table} {new}")
        for _ in range(2):
            assert pushed().status_code == 503
    answer = eventually(pushed, lambda response: response.status_code == 200)
    assert answer.json()["stored"] == 0
    pair.fail_over()
    ((kept,),) = run_on(pair.standby.url, f"SELECT count(*) FROM {table} {new}")
    assert kept == 1
