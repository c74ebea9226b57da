"""The holds that wait for a carrier: which are open, which are overdue, and what ending one locks.

All tests have a database of their own, because open holds are those of all accounts.
"""

import asyncio
from pathlib import Path

import pytest

from tests.support.postgresql import run_on
from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.charges import Charge
from tollway.ledger.entries import top_up
from tollway.ledger.holds import (
    OpenHolds,
    capture,
    count_open_holds,
    lock_balance_of,
    open_holds,
    release,
    reserve,
)
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database, Transaction

RUNTIME = Runtime()


@pytest.fixture
def own_store(tmp_path: Path) -> Store:
    return Store(tmp_path / "holds.db")


async def new_account(database: Database, name: str) -> str:
    account = (await open_account(database, RUNTIME, name)).id
    for unit in ("credits", "calls:waybills"):
        await top_up(database, RUNTIME, account, unit, 10)
    return account


async def hold(
    database: Database, account: str, hold_id: str, deadline_at_ms: int, unit: str = "credits"
) -> None:
    call = Charge(account, unit, 1, "waybills", f"{account}.{hold_id}", "tok_x", 0)
    await database.write(lambda tx: reserve(tx, call, hold_id, deadline_at_ms))


async def test_open_holds_are_listed_by_deadline_until_they_are_ended(
    own_database: Database,
) -> None:
    assert await open_holds(own_database, 10) == []
    one, other = await new_account(own_database, "one"), await new_account(own_database, "other")
    await hold(own_database, one, "1", 3000)
    await hold(own_database, other, "1", 1000)
    await hold(own_database, one, "2", 4000)
    await hold(own_database, one, "3", 2000, "calls:waybills")
    listed = await open_holds(own_database, 3)
    assert [(each.account_id, each.id) for each in listed] == [(other, "1"), (one, "3"), (one, "1")]
    assert {each.state for each in listed} == {"held"}
    await own_database.write(lambda tx: capture(tx, other, "1", 9))
    await own_database.write(lambda tx: release(tx, one, "1", 9))
    listed = await open_holds(own_database, 10)
    assert [(each.unit, each.deadline_at_ms) for each in listed] == [
        ("calls:waybills", 2000),
        ("credits", 4000),
    ]


async def test_a_hold_is_overdue_once_its_deadline_is_past_and_stays_open(
    own_database: Database,
) -> None:
    assert await count_open_holds(own_database, 9999) == OpenHolds(open=0, overdue=0)
    account = await new_account(own_database, "one")
    for number, deadline_at_ms in enumerate((1000, 2000, 2000, 3000)):
        await hold(own_database, account, str(number), deadline_at_ms)
    assert await count_open_holds(own_database, 2000) == OpenHolds(open=4, overdue=1)
    assert await count_open_holds(own_database, 2001) == OpenHolds(open=4, overdue=3)
    await own_database.write(lambda tx: capture(tx, account, "1", 2500))
    assert await count_open_holds(own_database, 2500) == OpenHolds(open=3, overdue=2)


@pytest.mark.postgresql
async def test_the_balance_of_a_hold_is_locked_and_no_other(
    own_database: Database, own_store: Store
) -> None:
    free = "SELECT account_id, unit FROM balance FOR UPDATE SKIP LOCKED"
    one, other = await new_account(own_database, "one"), await new_account(own_database, "other")
    await hold(own_database, one, "1", 1000)
    await hold(own_database, one, "2", 1000, "calls:waybills")
    await hold(own_database, other, "1", 1000, "calls:waybills")

    async def lock(transaction: Transaction) -> list[tuple[object, ...]]:
        await lock_balance_of(transaction, one, "1")
        return await asyncio.to_thread(run_on, own_store.url, free)

    assert sorted(await own_database.write(lock)) == sorted(
        [(one, "calls:waybills"), (other, "calls:waybills"), (other, "credits")]
    )
