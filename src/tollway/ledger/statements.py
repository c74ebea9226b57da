"""What an account had, was given and spent within a span of time, from its entries alone.

The balances are reckoned backwards from the present ones, in one statement: so they agree with each
other while calls go on being charged, and also after older entries were deleted.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    and_,
    bindparam,
    cast,
    func,
    null,
    select,
)

from tollway.store.database import Database, Reader, Row
from tollway.store.query import Query
from tollway.store.schema.ledger import archived_balance, balance, entry


class UnitStatement(msgspec.Struct, frozen=True):
    """One balance: what was available before and after, and what came between the two.

    `held` is what holds set aside, less what became available again.
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
_of_account = balance.c.account_id == bindparam("of_account")
_of_balance = and_(entry.c.account_id == balance.c.account_id, entry.c.unit == balance.c.unit)
_on_archive = and_(
    archived_balance.c.account_id == balance.c.account_id, archived_balance.c.unit == balance.c.unit
)


def _sum(amounts: ColumnElement[int]) -> ColumnElement[int]:
    return cast(func.coalesce(func.sum(amounts), 0), BigInteger)


def _statement() -> CompoundSelect[Any]:
    """For each balance a row with what it was at the end, and the time of the newest deleted entry;
    then the sums of the time between. What came later is added up without sorting it."""
    later = select(_sum(entry.c.amount)).where(_of_balance, entry.c.at_ms >= _end_ms)
    balances = (
        select(
            balance.c.unit,
            null(),
            null(),
            archived_balance.c.at_ms,
            (balance.c.amount - later.scalar_subquery()).label("amount"),
        )
        .select_from(balance.outerjoin(archived_balance, _on_archive))
        .where(_of_account)
    )
    between = (
        select(entry.c.unit, entry.c.kind, entry.c.operation, func.count(), _sum(entry.c.amount))
        .select_from(balance.join(entry, _of_balance))
        .where(_of_account, entry.c.at_ms >= _start_ms, entry.c.at_ms < _end_ms)
        .group_by(entry.c.unit, entry.c.kind, entry.c.operation)
    )
    return balances.union_all(between)


_STATEMENT = Query(_statement)
_DELETED = Query(
    lambda: select(archived_balance.c.at_ms).where(
        archived_balance.c.account_id == bindparam("of_account")
    )
)


def month_span_ms(month: str, zone: ZoneInfo) -> range:
    """The milliseconds of a month, such as 2026-01, in a time zone; ValueError if it is none."""
    start = datetime.strptime(month, "%Y-%m").replace(tzinfo=zone)
    if start.year > _LAST_YEAR or f"{start:%Y-%m}" != month:
        raise ValueError(month)
    end = (start.replace(day=28) + timedelta(days=4)).replace(day=1)
    return range(round(start.timestamp() * 1000), round(end.timestamp() * 1000))


async def statement_of(
    database: Database, account_id: str, span_ms: range, caller: str | None = None
) -> Statement:
    """The statement of an account for a span of time; `caller` is who reads it."""
    # It may read all entries of an account, and calls must not wait for that.
    rows = await database.fetch_long(
        _STATEMENT, caller, of_account=account_id, start_ms=span_ms.start, end_ms=span_ms.stop
    )
    rows = sorted(rows, key=lambda row: (row[0], row[1] or "", row[2] or ""))
    balances = [row for row in rows if row[1] is None]
    sums = [row for row in rows if row[1] is not None]
    return Statement(
        [_of_unit(unit, after, sums) for unit, _, _, _, after in balances],
        [
            OperationStatement(operation, unit, calls, -amount)
            for unit, kind, operation, calls, amount in sums
            if kind == "charge"
        ],
        not any(row[3] is not None and row[3] >= span_ms.start for row in balances),
    )


async def has_deleted(reader: Reader, account_id: str, span_ms: range) -> bool:
    """Whether entries of a span of time may have been deleted."""
    found = await reader.fetch_all(_DELETED, of_account=account_id)
    return any(deleted_ms >= span_ms.start for (deleted_ms,) in found)


def _of_unit(unit: str, after: int, rows: Sequence[Row]) -> UnitStatement:
    sums: Counter[str] = Counter()
    for of_unit, kind, _, _, amount in rows:
        if of_unit == unit:
            sums[kind] += amount
    return UnitStatement(
        unit=unit,
        before=after - sum(sums.values()),
        topped_up=sums["top_up"],
        corrected=sums["correction"],
        charged=-sums["charge"],
        held=-(sums["hold"] + sums["release"]),
        after=after,
    )
