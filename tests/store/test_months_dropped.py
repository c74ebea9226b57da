"""Old months of a shared database are dropped as a whole, with all that counts them."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

import asyncpg
import pytest
from msgspec.structs import replace

from tests.support.coupons import claim, load_claims
from tests.support.months import NOW_MS, OLD, OLD_MS, make_month, months_of, put_entries, put_reads
from tests.support.orders import miscounted, order, put_orders, sealer_of, store_orders
from tests.support.stores import Store
from tollway.gateway import retention as dropping
from tollway.gateway.retention import Dropped, Retention
from tollway.operations.orders import SUBJECT as ORDERS_SUBJECT
from tollway.operations.orders import storage as orders
from tollway.operations.orders.storage import RETAINED_ORDERS
from tollway.settings import Settings
from tollway.store.database import Database, Transaction
from tollway.store.months import Month
from tollway.store.open import open_database
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.postgresql


def retention_of(database: Database, **days: int) -> Retention:
    return Retention(database, Settings(**days))


def test_whole_months_go_with_what_counts_them(store: Store) -> None:
    put_orders(store, [order(f"sn{n}", confirm_time=OLD_MS + n) for n in range(5)])
    put_orders(store, [order("new", confirm_time=NOW_MS), order("far", confirm_time=10**12)])
    load_claims(store, [claim("old", OLD_MS // 1000), claim("new", NOW_MS // 1000)])
    make_month(store, "entry", OLD_MS)
    put_entries(store, [OLD_MS, OLD_MS + 1, NOW_MS])
    make_month(store, "consent_use", OLD_MS)
    put_reads(store, [OLD_MS, NOW_MS])

    async def apply(database: Database) -> dict[str, int]:
        retention = retention_of(
            database, keep_orders_days=30, keep_claims_days=30, keep_entries_days=30
        )
        planned, dropped = await retention.plan(NOW_MS), await retention.apply(NOW_MS)
        assert planned == dropped
        return {each.kind: each.rows for each in dropped}

    assert store.do(apply) == {
        "orders": 6,
        "claims": 1,
        "entries": 2,
        "reads": 1,
        "receipts": 0,
    }
    for table in ("shop_order", "coupon_claim", "entry", "consent_use"):
        assert OLD.name not in months_of(store, table)
        assert len(store.run(f"SELECT FROM {table}")) == 1
    assert store.do(miscounted) == {}
    assert store.run("SELECT sum(claims) FROM coupon_claim_hour") == [(1,)]
    archived_balance = store.run(
        "SELECT number, balance_after, top_up, charge FROM archived_balance"
    )
    assert archived_balance == [(2, 2, 2, 0)]


def test_a_clock_that_goes_ahead_drops_nothing(store: Store) -> None:
    put_orders(store, [order("new", confirm_time=NOW_MS)])

    async def apply(database: Database) -> int:
        in_ten_years = NOW_MS + 3650 * 86_400_000
        applied = await retention_of(database, keep_orders_days=30).apply(in_ten_years)
        of_orders = _of("orders", applied)
        return of_orders.rows

    assert store.do(apply) == 0


def _of(kind: str, dropped: Iterable[Dropped]) -> Dropped:
    return next(each for each in dropped if each.kind == kind)


async def _must_not(*_: object, **__: object) -> int:
    raise AssertionError("dropped in pieces what could go as a whole")


def test_nodes_that_drop_at_once_do_so_once_and_by_whole_months(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "remove_old", _must_not)
    for days in range(60, 400, 30):
        at_ms = OLD_MS - days * 86_400_000
        put_orders(store, [order(f"{days} {n}", confirm_time=at_ms) for n in range(20)])

    async def apply(database: Database) -> int:
        nodes = [retention_of(database, keep_orders_days=30) for _ in range(4)]
        runs = await asyncio.gather(*(node.apply(NOW_MS) for node in nodes))
        return sum(_of("orders", dropped).rows for dropped in runs)

    ((rows,),) = store.run("SELECT count(*) FROM shop_order")
    dropped = 0
    # The second node leaves the rest of its run to the first, until the next time.
    while store.run("SELECT FROM shop_order LIMIT 1"):
        more = store.do(apply)
        assert more, "what is left is not dropped"
        dropped += more
    assert dropped == rows


def test_a_month_with_the_entry_before_it_elsewhere_waits(store: Store) -> None:
    """Entry 1 is from a clock that went ahead, so entry 2 is not the next one to go."""
    for table in ("entry", "consent_use"):
        make_month(store, table, OLD_MS)
    put_entries(store, [NOW_MS, OLD_MS])
    store.run("UPDATE entry SET request_id = at_ms, kind = 'charge'")
    put_reads(store, [OLD_MS])

    async def apply(database: Database) -> tuple[int, int]:
        dropped = await retention_of(database, keep_entries_days=30).apply(NOW_MS)
        rows = {each.kind: each.rows for each in dropped}
        return rows["entries"], rows["reads"]

    # So the read that the entry was charged for waits as well.
    assert store.do(apply) == (0, 0)
    assert len(store.run("SELECT FROM entry")) == 2
    store.run(f"UPDATE entry SET at_ms = {OLD_MS - 1}")
    assert store.do(apply) == (2, 1)
    assert store.run("SELECT number, charge FROM archived_balance") == [(2, 2)]


def test_who_has_been_reading_for_long_is_not_disturbed(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    put_orders(store, [order("old", confirm_time=OLD_MS)])

    async def work(database: Database) -> None:
        reader = await asyncpg.connect(store.url)
        retention = retention_of(database, keep_orders_days=30)
        try:
            async with reader.transaction():
                await reader.fetch("SELECT FROM shop_order")
                of_orders = _of("orders", await retention.apply(NOW_MS))
                # Neither the month nor its counts, and not in pieces either.
                assert (of_orders.rows, await miscounted(database)) == (0, {})
                assert "dropped later" in caplog.text
        finally:
            await reader.close()
        of_orders = _of("orders", await retention.apply(NOW_MS))
        assert of_orders.rows == 1

    store.do(work)


def test_a_month_may_take_longer_than_a_call_would_wait(store: Store) -> None:
    put_orders(store, [order("old", confirm_time=OLD_MS)])
    # Forgetting its counts now takes its time.
    store.run(
        "CREATE FUNCTION dally() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$"
    )
    store.run(
        "CREATE TRIGGER slowly BEFORE DELETE ON order_count "
        "FOR EACH STATEMENT EXECUTE FUNCTION dally()"
    )

    async def work() -> None:
        hurried = open_database(store.url, Metrics(), 1)
        of_orders = _of("orders", await retention_of(hurried, keep_orders_days=30).apply(NOW_MS))
        await hurried.close()
        assert of_orders.rows == 1

    asyncio.run(work())
    assert store.run("SELECT FROM shop_order") == []


@pytest.mark.parametrize("is_closed", [True, False])
def test_what_is_stored_while_its_month_is_dropped_is_counted_and_the_control(
    store: Store, monkeypatch: pytest.MonkeyPatch, is_closed: bool
) -> None:
    put_orders(store, [order("old", confirm_time=OLD_MS)])
    if not is_closed:
        monkeypatch.setattr(dropping, "close_month", _leave_open)
    forgotten, stored = asyncio.Event(), asyncio.Event()

    async def see_to_and_dally(transaction: Transaction, month: Month) -> int | None:
        rows = await RETAINED_ORDERS.forget_month(transaction, month)
        forgotten.set()
        # Storing an order now either waits for the end of this, or is done meanwhile.
        with suppress(TimeoutError):
            await asyncio.wait_for(stored.wait(), 0.5 if is_closed else 20)
        return rows

    slow = replace(RETAINED_ORDERS, forget_month=see_to_and_dally)
    subjects = [replace(ORDERS_SUBJECT, retained=slow)]
    monkeypatch.setattr(dropping, "SUBJECTS", subjects)

    async def work(database: Database) -> None:
        async def store_late() -> None:
            await forgotten.wait()
            # On a day that has no count yet, so that no write waits for one.
            late = order("late", confirm_time=OLD_MS + 3 * 86_400_000)
            await store_orders(database, sealer_of(store), [late])
            stored.set()

        retention = retention_of(database, keep_orders_days=30)
        await asyncio.gather(retention.apply(NOW_MS), store_late())
        assert (await miscounted(database) == {}) == is_closed

    store.do(work)


async def _leave_open(*_: object) -> None:
    """The sabotage."""
