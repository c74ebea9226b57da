"""A test token: the same way, the same checks, demo data, and nothing is charged."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta

import pytest

from tests.support.changes import assert_seen
from tests.support.gateway import Gateway
from tests.support.ledger import CALLS, RUNTIME, Caller, calls_left, new_caller
from tests.support.rates import at_once
from tests.support.stores import Store
from tollway.ledger.entries import newest_entries
from tollway.ledger.permissions import Permission, add_permission
from tollway.ledger.tokens import issue_token
from tollway.operations.product_analysis.demo import product_ids
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.operations.product_analysis.records import ProductRecord
from tollway.operations.product_analysis.storage import FigureLoader, row_of
from tollway.store.database import Database


@pytest.fixture
def tester(store: Store) -> Caller:
    return new_caller(store, kind="test", rate_limit=100_000)


def test_it_sees_demo_data_and_nothing_is_charged(
    gateway: Gateway, store: Store, tester: Caller, today: date
) -> None:
    assert tester.token.startswith("tw_test_")
    for product_id in product_ids(3):
        for back in (0, 1, 59):
            day = (today - timedelta(days=back)).isoformat()
            query = {"product_id": product_id, "query_date": day}
            reply = gateway.get(token=tester.token, query=query)
            assert reply.code == 0
            assert reply.data["itemId"] == product_id
            assert ("itemCartCnt" in reply.data) == (back == 0)
    assert calls_left(store, tester) == 100
    entries = store.do(lambda database: newest_entries(database, tester.account_id, CALLS, 10))
    assert [entry.kind for entry in entries] == ["top_up"]


def test_it_needs_no_balance(gateway: Gateway, store: Store, question: dict[str, str]) -> None:
    tester = new_caller(store, kind="test", calls=0, price=1000)
    assert gateway.get(token=tester.token, query=question).code == 0


def test_it_never_sees_real_data(
    gateway: Gateway, store: Store, tester: Caller, question: dict[str, str]
) -> None:
    real = ProductRecord(question["product_id"], "a real title", "a real shop")
    only_real = ProductRecord("only-real", "a real title", "a real shop")

    async def save(database: Database, *records: ProductRecord) -> None:
        await database.write(lambda tx: FigureLoader().store(tx, list(map(row_of, records))))

    def shop_seen_by(caller: Caller) -> str | None:
        return gateway.get(token=caller.token, query=question).data.get("shopName")

    live = new_caller(store)
    before = gateway.get(token=live.token, query=question).data
    store.do(lambda database: save(database, real, only_real))
    assert_seen(store, lambda: shop_seen_by(live), "a real shop")
    reply = gateway.get(token=tester.token, query=question)
    assert "real" not in reply.data["shopName"] + reply.data["itemName"]
    query = {**question, "product_id": "only-real"}
    assert "product_id" in gateway.get(token=tester.token, query=query).msg
    put_back = ProductRecord(
        question["product_id"], before["itemName"], before["shopName"], before["pic"]
    )
    store.do(lambda database: save(database, put_back))


def test_it_needs_the_same_permission(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    tester = new_caller(store, kind="test", granted=False)
    reply = gateway.get(token=tester.token, query=question)
    assert reply.code == 204 and "permission" in reply.msg
    given = Permission(PRODUCT_ANALYSIS.name, None, None)
    store.do(lambda database: add_permission(database, tester.account_id, given))
    assert_seen(store, lambda: gateway.get(token=tester.token, query=question).code, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"product_id": ""},
        {"product_id": "x" * 65},
        {"product_id": "a\0b"},
        {"product_id": "unknown"},
        {"query_date": "2026-02-30"},
        {"query_date": "2001-01-01"},
        {"query_date": "9999-12-31"},
    ],
)
def test_it_gets_the_same_refusals_as_a_live_token(
    gateway: Gateway,
    tester: Caller,
    caller: Caller,
    question: dict[str, str],
    change: dict[str, str],
) -> None:
    query = {**question, **change}
    tested = gateway.get(token=tester.token, query=query)
    live = gateway.get(token=caller.token, query=query)
    assert (tested.code, tested.msg) == (live.code, live.msg) == (100, live.msg)


def test_it_shares_the_accounts_limit(
    gateway: Gateway, store: Store, tester: Caller, question: dict[str, str]
) -> None:
    def both() -> tuple[Caller, str]:
        live = new_caller(store, rate_limit=2)
        account_id = live.account_id
        issued = store.do(lambda database: issue_token(database, RUNTIME, account_id, kind="test"))
        return live, issued.text

    def call(both: tuple[Caller, str]) -> list[int]:
        live, test_token = both
        tokens = (live.token, test_token, live.token, test_token)
        return [gateway.get(token=token, query=question).code for token in tokens]

    # The first call of all fills the sandbox, which takes its time.
    assert gateway.get(token=tester.token, query=question).code == 0
    (live, _), codes = at_once(both, call)
    assert codes == [0, 0, 202, 202]
    assert calls_left(store, live) == 99


def test_the_first_calls_of_all_wait_for_one_filling(
    own_store: Store, question: dict[str, str]
) -> None:
    tester = new_caller(own_store, kind="test", rate_limit=100_000)
    gateway = Gateway(own_store)
    try:
        with ThreadPoolExecutor(8) as callers:
            asked = [
                callers.submit(gateway.get, token=tester.token, query=question) for _ in range(8)
            ]
            replies = [each.result() for each in asked]
        assert [reply.code for reply in replies] == [0] * 8
        assert len({str(reply.data) for reply in replies}) == 1
    finally:
        assert gateway.stop() == 0
