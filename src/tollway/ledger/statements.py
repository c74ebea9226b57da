"""What an account had, was given and spent within a span of time, from its entries alone.

The balances are reckoned backwards from the present ones, in one statement: so they agree with each
other while calls go on being charged, and also after older entries were deleted.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import BigInteger, and_, bindparam, case, cast, func, select

from tollway.store.database import Database, Row
from tollway.store.query import Query
from tollway.store.schema.ledger import archived_balance, balance, entry


class UnitStatement(msgspec.Struct, frozen=True):
    """One balance: what was available before and after, and what came between the two.

    `held` is what became available again of holds, less what was set aside.
    """

    unit: str
    before: int
    topped_up: int
    corrected: int
    charged: int
    held: int
    after: int


class OperationStatement(msgspec.Struct, frozen=True):
    """What the calls of one operation were charged."""

    operation: str
    unit: str
    calls: int
    charged: int


class Statement(msgspec.Struct, frozen=True):
    """All balances and operations of an account. One that is incomplete lacks deleted entries."""

    units: list[UnitStatement]
    operations: list[OperationStatement]
    is_complete: bool


_LAST_YEAR = 9998
_start_ms = bindparam("start_ms", type_=BigInteger)
_end_ms = bindparam("end_ms", type_=BigInteger)
_is_within = case((entry.c.at_ms < _end_ms, 1), else_=0)
_key = (balance.c.unit, balance.c.amount, archived_balance.c.at_ms)
_SUMS = Query(
    lambda: (
        select(
            *_key,
            entry.c.kind,
            entry.c.operation,
            _is_within.label("is_within"),
            func.count(),
            cast(func.coalesce(func.sum(entry.c.amount), 0), BigInteger),
        )
        .select_from(
            balance.outerjoin(
                entry,
                and_(
                    entry.c.account_id == balance.c.account_id,
                    entry.c.unit == balance.c.unit,
                    entry.c.at_ms >= _start_ms,
                ),
            ).outerjoin(
                archived_balance,
                and_(
                    archived_balance.c.account_id == balance.c.account_id,
                    archived_balance.c.unit == balance.c.unit,
                ),
            )
        )
        .where(balance.c.account_id == bindparam("of_account"))
        .group_by(*_key, entry.c.kind, entry.c.operation, "is_within")
        .order_by(balance.c.unit, entry.c.operation)
    )
)


def month_span_ms(month: str, zone: ZoneInfo) -> range:
    """The milliseconds of a month, such as 2026-01, in a time zone; ValueError if it is none."""
    start = datetime.strptime(month, "%Y-%m").replace(tzinfo=zone)
    if start.year > _LAST_YEAR:
        raise ValueError(month)
    end = (start.replace(day=28) + timedelta(days=4)).replace(day=1)
    return range(round(start.timestamp() * 1000), round(end.timestamp() * 1000))


async def statement_of(
    database: Database, account_id: str, span_ms: range, caller: str | None = None
) -> Statement:
    """The statement of an account for a span of time; `caller` is who reads it."""
    start_ms = span_ms.start
    # It may read all entries of an account, and calls must not wait for that.
    rows = await database.fetch_long(
        _SUMS, caller, of_account=account_id, start_ms=start_ms, end_ms=span_ms.stop
    )
    units = list(dict.fromkeys(row[0] for row in rows))
    operations = [
        OperationStatement(operation, unit, calls, -amount)
        for unit, _, _, kind, operation, is_within, calls, amount in rows
        if kind == "charge" and is_within
    ]
    last_deleted_ms = max((row[2] or -1 for row in rows), default=-1)
    return Statement(
        [_of_unit(unit, [row for row in rows if row[0] == unit]) for unit in units],
        operations,
        last_deleted_ms < start_ms,
    )


def _of_unit(unit: str, rows: Sequence[Row]) -> UnitStatement:
    sums: Counter[str] = Counter()
    after = rows[0][1]
    for _, _, _, kind, _, is_within, _, amount in rows:
        if is_within:
            sums[kind] += amount
        else:
            after -= amount
    return UnitStatement(
        unit=unit,
        before=after - sum(sums.values()),
        topped_up=sums["top_up"],
        corrected=sums["correction"],
        charged=-sums["charge"],
        held=sums["hold"] + sums["release"],
        after=after,
    )
