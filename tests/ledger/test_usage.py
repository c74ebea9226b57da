"""Usage by day keeps its dates, whatever time zone is set later."""

from datetime import date, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import apsw
import pytest
from sqlalchemy import bindparam, select

from tests.support.stores import Store
from tollway.ledger import usage
from tollway.ledger.accounts import open_account
from tollway.ledger.archiving import archive_entries
from tollway.ledger.charge_transaction import post_charges
from tollway.ledger.charges import Charge
from tollway.ledger.entries import top_up
from tollway.ledger.runtime import Runtime
from tollway.ledger.usage import (
    _BY_DAY,
    _LOCK,
    _SUMMED,
    charged_by_day,
    midnight_s,
    roll_up,
    usage_of_account,
)
from tollway.store.database import Database, Row, Transaction
from tollway.store.query import Query
from tollway.store.schema.ledger import balance, usage_cursor

SHANGHAI = ZoneInfo("Asia/Shanghai")
_CLAIM_AN_ENTRY = Query(
    balance.update()
    .values(entries=balance.c.entries + 1)
    .where(balance.c.account_id == bindparam("of_account"))
)

_PASSED_OVER = Query(
    select(usage_cursor.c.skipped).where(usage_cursor.c.account_id == bindparam("of_account"))
)


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "UTC", "Asia/Kolkata", "America/New_York"])
def test_days_keep_their_dates_when_the_time_zone_changes(store: Store, zone: str) -> None:
    day, now = date(2026, 3, 7), ZoneInfo(zone)
    # Two on this day in Shanghai, the third on the next.
    hours = (1, 23, 24)
    midnight = datetime(2026, 3, 7, tzinfo=SHANGHAI)

    async def open_one(database: Database) -> str:
        account = await open_account(database, Runtime(), zone)
        await top_up(database, Runtime(), account.id, "credits", 9)
        return account.id

    account_id = store.do(open_one)
    for number, hour in enumerate(hours, start=2):
        at_ms = int((midnight + timedelta(hours=hour)).timestamp()) * 1000
        store.run(
            "INSERT INTO entry (account_id, unit, number, kind, amount, balance_after, at_ms, "
            f"operation, request_id, token_id) VALUES ('{account_id}', 'credits', {number}, "
            f"'charge', -1, {10 - number}, {at_ms}, 'orders', '{zone}{hour}', 'tok_x')"
        )
    store.run(
        "UPDATE balance SET amount = 6, posted = 3, entries = 4 "
        f"WHERE account_id = '{account_id}' AND unit = 'credits'"
    )

    async def work(database: Database) -> None:
        late = await charged_by_day(database, account_id, day, day, SHANGHAI)
        while await roll_up(database, SHANGHAI, int(midnight.timestamp())):
            pass
        found = await charged_by_day(database, account_id, day, day, now)
        assert found == late == {(day, "credits", "orders"): (2, 2)}
        sums = await usage_of_account(database, account_id, day, day + timedelta(1), now)
        dates = [datetime.fromtimestamp(each.start_s, now).date() for each in sums]
        assert dates == [day, day + timedelta(1)]

    store.do(work)


def test_a_balance_whose_entries_are_missing_is_not_tried_without_end(store: Store) -> None:
    async def work(database: Database) -> int:
        account = await open_account(database, Runtime(), "entries missing")
        await top_up(database, Runtime(), account.id, "credits", 9)
        while await roll_up(database, SHANGHAI, Runtime().at_s()):
            pass
        await database.write(
            lambda transaction: transaction.execute(_CLAIM_AN_ENTRY, of_account=account.id)
        )
        return await roll_up(database, SHANGHAI, Runtime().at_s())

    assert store.do(work) == 0


# The day of what `_charged` charges.
_CHARGED_ON = date(1970, 1, 1)


async def _summed(database: Database, account: str) -> int:
    """What the sums of an account have, without what is not in them yet."""
    ((summed,),) = await database.fetch_all(_SUMMED, of_account=account, of_unit="credits")
    return int(summed)


async def _charged(database: Database, name: str, amount: int) -> str:
    """An account with one charge."""
    account = (await open_account(database, Runtime(), name)).id
    await top_up(database, Runtime(), account, "credits", 9)
    charge = Charge(account, "credits", amount, "orders", f"{name} {amount}", "tok_x", 1000)
    await database.write(lambda transaction: post_charges(transaction, [charge]))
    return account


async def test_charges_that_were_dropped_before_they_were_counted_are_passed_over(
    database: Database,
) -> None:
    account = await _charged(database, "dropped before", 2)
    forever_ms = 2**60
    await database.write(
        lambda tx: archive_entries(
            tx, 100, account_id=account, unit="credits", before_ms=forever_ms
        )
    )
    later = Charge(account, "credits", 3, "orders", "dropped before 3", "tok_x", 1000)
    await database.write(lambda transaction: post_charges(transaction, [later]))
    while await roll_up(database, SHANGHAI, Runtime().at_s()):
        pass
    # Without a time nothing can be counted; what came later is.
    (found,) = await usage_of_account(database, account, _CHARGED_ON, _CHARGED_ON, SHANGHAI)
    assert (found.calls, found.amount) == (1, 3)


async def test_balances_that_are_charged_all_the_time_keep_no_other_from_being_counted(
    own_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "_BALANCES_MAX", 2)
    monkeypatch.setattr(usage, "_BALANCES_AT_ONCE", 1)
    accounts = sorted([await _charged(own_database, f"busy {n}", 1) for n in range(5)])
    # What the two balances that are furthest behind have gained.
    for turn, gained in enumerate((3 + 3, 2 + 2, 2 + 2, 2 + 1)):
        for account in accounts[:2]:
            charge = Charge(account, "credits", 1, "orders", f"{account} {turn}", "tok_x", 1000)
            await own_database.write(partial(post_charges, charges=[charge]))
        assert await roll_up(own_database, SHANGHAI, Runtime().at_s()) == gained
    assert all([await _summed(own_database, account) for account in accounts])


@pytest.mark.postgresql
async def test_while_another_node_counts_nothing_is_counted_here(database: Database) -> None:
    account = await _charged(database, "counted elsewhere", 1)
    async with database._session() as other:  # type: ignore[attr-defined]
        await other.execute(f"SELECT pg_advisory_lock({_LOCK})")
        try:
            assert await roll_up(database, SHANGHAI, Runtime().at_s()) == 0
            assert await _summed(database, account) == 0
        finally:
            await other.execute(f"SELECT pg_advisory_unlock({_LOCK})")
    while await roll_up(database, SHANGHAI, Runtime().at_s()):
        pass
    assert await _summed(database, account) == 1


@pytest.mark.postgresql
async def test_charges_that_another_node_drops_while_they_are_counted_are_passed_over(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = await _charged(database, "dropped meanwhile", 2)
    later = Charge(account, "credits", 3, "orders", "dropped meanwhile 3", "tok_x", 2000)
    await database.write(lambda transaction: post_charges(transaction, [later]))
    add = usage._add_balance

    async def add_after_a_drop(tx: Transaction, zone: ZoneInfo, behind: Row, sums: Any) -> bool:
        if behind[0] == account:
            await database.write(
                lambda tx: archive_entries(
                    tx, 2, account_id=account, unit="credits", before_ms=2**60
                )
            )
        return await add(tx, zone, behind, sums)

    monkeypatch.setattr(usage, "_add_balance", add_after_a_drop)
    await roll_up(database, SHANGHAI, Runtime().at_s())
    monkeypatch.undo()
    while await roll_up(database, SHANGHAI, Runtime().at_s()):
        pass
    passed_over = await database.fetch_all(_PASSED_OVER, of_account=account)
    assert (await _summed(database, account), passed_over) == (3, [(2,)])


async def test_what_is_not_summed_yet_is_in_the_usage_of_an_account_once(
    database: Database,
) -> None:
    account = await _charged(database, "not summed yet", 2)
    days = (_CHARGED_ON, _CHARGED_ON)
    for _ in range(2):
        (found,) = await usage_of_account(database, account, *days, SHANGHAI)
        assert (found.unit, found.operation, found.calls, found.amount) == (
            "credits",
            "orders",
            1,
            2,
        )
        while await roll_up(database, SHANGHAI, Runtime().at_s()):
            pass
        assert await _summed(database, account) == 2


@pytest.mark.sqlite
def test_usage_reads_no_entry_that_is_in_the_sums(own_store: Store) -> None:
    text = _BY_DAY.sqlite.text
    with apsw.Connection(str(own_store.path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {text}", [None] * text.count("?"))
        steps = [row[3] for row in plan if row[3].startswith(("SEARCH entry", "SCAN"))]
    read = "SEARCH entry USING PRIMARY KEY (account_id=? AND unit=? AND number>?)"
    assert steps == [f"{read} LEFT-JOIN"]


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        # The first hour comes twice, and is left out.
        ("America/Havana", date(2026, 11, 1)),
        ("America/Santiago", date(2026, 9, 6)),
        ("Asia/Shanghai", date(2026, 2, 28)),
    ],
)
def test_a_day_begins_once(zone: str, day: date) -> None:
    its_zone = ZoneInfo(zone)
    begins_s, ends_s = (
        int(datetime(each.year, each.month, each.day, tzinfo=its_zone).timestamp())
        for each in (day, day + timedelta(days=1))
    )
    found = {midnight_s(at_s, its_zone) for at_s in range(begins_s, ends_s, 600)}
    assert found == {begins_s}
