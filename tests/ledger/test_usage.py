"""Usage by day keeps its dates, whatever time zone is set later."""

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import bindparam

from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import top_up
from tollway.ledger.runtime import Runtime
from tollway.ledger.usage import roll_up, usage_by_day, usage_of_account
from tollway.store.database import Database
from tollway.store.query import Query
from tollway.store.schema.ledger import balance

SHANGHAI = ZoneInfo("Asia/Shanghai")
_CLAIM_AN_ENTRY = Query(
    balance.update()
    .values(entries=balance.c.entries + 1)
    .where(balance.c.account_id == bindparam("of_account"))
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
        late = await usage_by_day(database, account_id, day, day, SHANGHAI)
        while await roll_up(database, SHANGHAI, int(midnight.timestamp())):
            pass
        found = await usage_by_day(database, account_id, day, day, now)
        assert found == late == {(day, "orders"): (2, 2)}
        sums = await usage_of_account(database, account_id, 0, now)
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
