"""Reads of records go on at the moment of the first one while only charges are committed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import apsw
import pytest
from sqlalchemy import select

from tests.support.stores import Store
from tollway.ledger.charge_transaction import post_charges
from tollway.ledger.charges import ActResult, Charge, JointAct
from tollway.store.cache_versions import Versions, figures_changed, write_nothing_new
from tollway.store.database import Transaction
from tollway.store.query import RecordQuery
from tollway.store.schema.database import version
from tollway.store.sqlite import database as sqlite_database
from tollway.store.sqlite.database import SqliteDatabase

pytestmark = pytest.mark.sqlite

FIGURES = RecordQuery(select(version.c.figures))
CHANGE = "UPDATE version SET figures = figures + 1"


async def pay(transaction: Transaction) -> None:
    await write_nothing_new(transaction)
    transaction.keeps_records = True


async def figures(database: SqliteDatabase) -> int:
    row = await database.fetch_one(FIGURES)
    assert row is not None
    return int(row[0])


async def test_a_commit_that_keeps_records_is_no_change_of_them(database: SqliteDatabase) -> None:
    versions = Versions(database)
    await versions.refresh()
    change = database.change_mark()
    for _ in range(3):
        await database.write(pay)
        assert versions.is_fresh()
    assert database.change_mark() != change
    await database.write(write_nothing_new)
    assert not versions.is_fresh()


def by_ourselves(database: SqliteDatabase, _: apsw.Connection) -> Awaitable[object]:
    return database.write(figures_changed)


async def by_another(_: SqliteDatabase, other: apsw.Connection) -> None:
    other.execute(CHANGE)


@pytest.mark.parametrize("change", [by_ourselves, by_another])
async def test_a_change_between_charges_is_read_at_once(
    database: SqliteDatabase,
    store: Store,
    change: Callable[[SqliteDatabase, apsw.Connection], Awaitable[object]],
) -> None:
    other = apsw.Connection(str(store.path))
    known = await figures(database)
    for _ in range(20):
        await database.write(pay)
        await change(database, other)
        # A charge after it must not hide it.
        await database.write(pay)
        before, known = known, await figures(database)
        assert known != before
        await database.write(pay)
        assert await figures(database) == known


async def test_a_change_right_after_the_commit_of_a_charge_is_no_charge(
    database: SqliteDatabase, store: Store
) -> None:
    other = apsw.Connection(str(store.path))
    known, mark = await figures(database), database.record_mark()
    changes = database._changes
    assert changes is not None
    before = changes.mark()
    # As if another process had committed before the writer's thread runs again.
    other.execute("UPDATE version SET id = id")
    other.execute(CHANGE)
    changes.kept_records(before)
    assert database.record_mark() != mark
    assert await figures(database) == known + 1


def is_held(database: SqliteDatabase) -> bool:
    assert database._records is not None
    return database._records.opened().is_in_transaction


async def test_without_further_reads_the_log_is_let_go(database: SqliteDatabase) -> None:
    before = await figures(database)
    assert is_held(database)
    async with asyncio.timeout(60):
        while is_held(database):  # noqa: ASYNC110 - it can only be polled
            await asyncio.sleep(0.01)
    await database.write(figures_changed)
    assert await figures(database) != before


async def test_a_long_log_is_not_held(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_database, "_LOG_MAX_FRAMES", 0)
    seen = {await figures(database)}
    for _ in range(3):
        await database.write(figures_changed)
        seen.add(await figures(database))
    assert len(seen) == 4
    assert not is_held(database)


async def test_an_act_in_a_charge_may_change_records(database: SqliteDatabase) -> None:
    async def act(transaction: Transaction, _: Charge) -> ActResult:
        await figures_changed(transaction)
        return ActResult(b"{}", is_paid=False)

    known = await figures(database)
    charge = Charge("acc_x", "credits", 1, "product_analysis", "r", "tok_x", 1, act)
    await database.write(lambda transaction: post_charges(transaction, [charge]))
    assert await figures(database) != known


@pytest.mark.parametrize("leaves_out", [False, True])
def test_acts_that_are_done_together_keep_records_and_one_alone_may_not(
    store: Store, *, leaves_out: bool
) -> None:
    done = None if leaves_out else ActResult(b"{}", is_paid=False)

    async def alone(transaction: Transaction, _: Charge) -> ActResult:
        await figures_changed(transaction)
        return ActResult(b"{}", is_paid=False)

    async def together(_: Transaction, charges: Sequence[Charge]) -> list[ActResult | None]:
        return [done for _ in charges]

    async def work(database: SqliteDatabase) -> None:
        versions = Versions(database)
        await versions.refresh()
        act = JointAct(alone, together, None)
        charge = Charge("acc_x", "credits", 1, "waybills", "r", "tok_x", 1, act)
        await database.write(lambda transaction: post_charges(transaction, [charge]))
        assert versions.is_fresh() is not leaves_out

    store.do(work)
