"""When a balance runs out, at the pace of the last seven days, and what an alert says about it."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import bindparam, func, select

from tollway.ledger.usage import DAY_S, date_s, midnight_s
from tollway.store.database import Database, Row
from tollway.store.query import Query, alike, listed, pieces
from tollway.store.schema.ledger import account, balance, usage
from tollway.store.schema.webhooks import balance_alert

# With fewer days left, a balance runs out soon.
SOON_DAYS = 3
_PACE_DAYS = 7
# The most accounts whose balances are read at once; unused parameters are empty.
ACCOUNTS_MAX = 200


class BalancePace(NamedTuple):
    """A balance of an open account: what is left, what was taken in the days of the pace, and the
    line of the account's own alert."""

    account_id: str
    account_name: str
    opened_at_s: int
    unit: str
    amount: int
    taken: int
    below: int | None


def pace_start_s(now_s: float, zone: ZoneInfo) -> int:
    """When the days of the pace begin: at a midnight, because usage is summed by day."""
    return midnight_s(now_s - _PACE_DAYS * DAY_S, zone)


def days_left(
    amount: int, taken: int, opened_at_s: int, now_s: float, zone: ZoneInfo
) -> int | None:
    """For how many whole days a balance lasts; None if nothing was taken from it. The pace of a new
    account begins when it was opened."""
    if not taken:
        return None
    # At least a day: what is tried out in a first hour is no pace.
    began_s = max(pace_start_s(now_s, zone), opened_at_s)
    return int(amount * max(1.0, (now_s - began_s) / DAY_S) / taken)


_listed = listed(ACCOUNTS_MAX)
_taken = (
    select(func.sum(usage.c.amount))
    .where(
        usage.c.account_id == balance.c.account_id,
        usage.c.span_s == DAY_S,
        # No day that a clock which was ahead has dated.
        usage.c.start_s.between(bindparam("since_s"), bindparam("until_s")),
        usage.c.unit == balance.c.unit,
    )
    .scalar_subquery()
)
_its_alert = alike(balance_alert, balance, "account_id", "unit")
_PACES = Query(
    lambda: (
        select(
            account.c.id,
            account.c.name,
            account.c.opened_at_s,
            balance.c.unit,
            balance.c.amount,
            func.coalesce(_taken, 0),
            balance_alert.c.below,
        )
        .select_from(
            account.join(balance, balance.c.account_id == account.c.id).outerjoin(
                balance_alert, _its_alert
            )
        )
        .where(account.c.id.in_(_listed), account.c.closed_at_s.is_(None))
    )
)


async def balance_paces(
    database: Database, account_ids: Sequence[str], now_s: float, zone: ZoneInfo
) -> list[BalancePace]:
    """The balances of these accounts, at most `ACCOUNTS_MAX`, without those that are closed. The
    cost does not grow with the number of other accounts, nor with calls."""
    first, today = (
        date_s(datetime.fromtimestamp(at_s, zone).date())
        for at_s in (pace_start_s(now_s, zone), now_s)
    )
    rows: list[Row] = []
    for ids in pieces(account_ids, _listed):
        rows += await database.fetch_long(_PACES, "overview", since_s=first, until_s=today, **ids)
    # PostgreSQL adds up to a decimal.
    return [BalancePace._make((*row[:5], int(row[5]), row[6])) for row in rows]
