"""What an account had, received and spent within a span of time, from its entries alone.

One statement computes the balances backwards from the present ones: so they are consistent while
calls are being charged, and after older entries were deleted. For whole days it reads the sums, so
that the cost does not grow with the calls.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    FromClause,
    Select,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal,
    null,
    or_,
    select,
    union_all,
)

from tollway.ledger.entry_days import DAY_MS
from tollway.ledger.usage import ON_ARCHIVE, ON_CURSOR
from tollway.store.database import Database, Reader
from tollway.store.query import Query, alike
from tollway.store.schema.ledger import archived_balance, balance, entry, entry_day, usage_cursor

_Sum = tuple[str, str, str]  # unit, kind, operation


class UnitStatement(msgspec.Struct, frozen=True):
    """One balance: what was available before and after, and what came between the two.

    A refund is no top-up: the account did not pay for it. `held` is what holds set aside, less
    what became available again.
    """

    unit: str
    before: int
    topped_up: int
    refunded: int
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
    """All balances and operations of an account; incomplete if entries of the span were deleted."""

    units: list[UnitStatement]
    operations: list[OperationStatement]
    is_complete: bool


_LAST_YEAR = 9998
_start_ms = bindparam("start_ms", type_=BigInteger)
_end_ms = bindparam("end_ms", type_=BigInteger)
_of_account = balance.c.account_id == bindparam("of_account")


# The parts of a statement: a balance as it is now, entries within the span, and later entries.
_BALANCE, _WITHIN, _LATER = 0, 1, 2
_of_account_days = entry_day.c.account_id == bindparam("of_account")
_first_day, _end_day, _later_day, _cut_first, _cut_last = (
    bindparam(name, type_=BigInteger)
    for name in ("first_day", "end_day", "later_day", "cut_first", "cut_last")
)


def _sum(amounts: ColumnElement[int]) -> ColumnElement[int]:
    return cast(func.coalesce(func.sum(amounts), 0), BigInteger)


def _of_entries(source: FromClause) -> Select[Any]:
    """Sums of entries that are read one by one."""
    part = case((entry.c.at_ms < _end_ms, literal(_WITHIN)), else_=literal(_LATER)).label("part")
    some = (
        select(part, entry.c.unit, entry.c.kind, entry.c.operation, entry.c.amount)
        .select_from(source)
        .subquery()
    )
    by = (some.c.part, some.c.unit, some.c.kind, some.c.operation)
    # The outer join yields a row without a unit for a balance without such entries.
    found = func.count(some.c.unit)
    return select(*by, found, _sum(some.c.amount)).group_by(*by).having(found > 0)


def _of_days(part: int, *which: ColumnElement[bool]) -> Select[Any]:
    by = (entry_day.c.unit, entry_day.c.kind, entry_day.c.operation)
    counted = cast(func.sum(entry_day.c.entries), BigInteger)
    return (
        select(literal(part), *by, counted, _sum(entry_day.c.amount))
        .where(_of_account_days, *which)
        .group_by(*by)
    )


def _not_summed() -> FromClause:
    """Entries that are in no sum yet. The outer joins, here and below, force the join order:
    otherwise SQLite would read all entries of the account first."""
    own = (
        select(balance.c.account_id, balance.c.unit, usage_cursor.c.number)
        .select_from(balance.outerjoin(usage_cursor, ON_CURSOR))
        .where(_of_account)
        .subquery("own")
    )
    return own.outerjoin(
        entry,
        and_(
            alike(entry, own, "account_id", "unit"),
            entry.c.number > func.coalesce(own.c.number, 0),
            entry.c.at_ms >= _start_ms,
        ),
    )


def _of_cut_days() -> FromClause:
    """Summed entries of the days that the span cuts in two."""
    cut = (
        select(
            entry_day.c.account_id,
            entry_day.c.unit,
            entry_day.c.day,
            func.min(entry_day.c.first_number).label("first"),
            func.max(entry_day.c.last_number).label("last"),
        )
        .where(_of_account_days, or_(entry_day.c.day == _cut_first, entry_day.c.day == _cut_last))
        .group_by(entry_day.c.account_id, entry_day.c.unit, entry_day.c.day)
        .subquery("cut")
    )
    return cut.outerjoin(
        entry,
        and_(
            alike(entry, cut, "account_id", "unit"),
            entry.c.number.between(cut.c.first, cut.c.last),
            entry.c.at_ms >= _start_ms,
            entry.c.at_ms >= cut.c.day * DAY_MS,
            entry.c.at_ms < (cut.c.day + 1) * DAY_MS,
        ),
    )


def _statement() -> CompoundSelect[Any]:
    """Each balance with the time of its newest deleted entry; then sums. One statement, so that no
    entry is counted twice or missed."""
    balances = (
        select(
            literal(_BALANCE),
            balance.c.unit,
            null(),
            null(),
            archived_balance.c.at_ms,
            balance.c.amount,
        )
        .select_from(balance.outerjoin(archived_balance, ON_ARCHIVE))
        .where(_of_account)
    )
    day = entry_day.c.day
    return union_all(
        balances,
        _of_days(_WITHIN, day >= _first_day, day < _end_day),
        _of_days(_LATER, day >= _later_day),
        _of_entries(_not_summed()),
        _of_entries(_of_cut_days()),
    )


_STATEMENT = Query(_statement)
_DELETED = Query(
    lambda: select(
        archived_balance.c.unit, archived_balance.c.number, archived_balance.c.at_ms
    ).where(archived_balance.c.account_id == bindparam("of_account"))
)


def month_span_ms(month: str, zone: ZoneInfo) -> range:
    """The milliseconds of a month, such as 2026-01, in a time zone; ValueError if it is invalid."""
    start = datetime.strptime(month, "%Y-%m").replace(tzinfo=zone)
    if start.year > _LAST_YEAR or f"{start:%Y-%m}" != month:
        raise ValueError(month)
    end = (start.replace(day=28) + timedelta(days=4)).replace(day=1)
    return range(round(start.timestamp() * 1000), round(end.timestamp() * 1000))


async def statement_of(
    database: Database, account_id: str, span_ms: range, caller: str | None = None
) -> Statement:
    """The statement of an account for a span of time; `caller` is who reads it."""
    start_ms, end_ms = span_ms.start, span_ms.stop
    # A long read: the entries that are in no sum yet may be many.
    rows = await database.fetch_long(
        _STATEMENT,
        caller,
        of_account=account_id,
        start_ms=start_ms,
        end_ms=end_ms,
        first_day=-(-start_ms // DAY_MS),
        end_day=end_ms // DAY_MS,
        later_day=-(-end_ms // DAY_MS),
        # -1 if the span begins or ends at midnight: then that day is a whole one.
        cut_first=start_ms // DAY_MS if start_ms % DAY_MS else -1,
        cut_last=end_ms // DAY_MS if end_ms % DAY_MS else -1,
    )
    later: Counter[str] = Counter()
    within: defaultdict[_Sum, list[int]] = defaultdict(lambda: [0, 0])
    for part, unit, kind, operation, count, amount in rows:
        if part == _LATER:
            later[unit] += amount
        elif part == _WITHIN:
            summed = within[unit, kind, operation or ""]
            summed[0] += count
            summed[1] += amount
    balances = sorted((row[1], row[4], row[5]) for row in rows if row[0] == _BALANCE)
    return Statement(
        [_of_unit(unit, now - later[unit], within) for unit, _, now in balances],
        [
            OperationStatement(operation, unit, calls, -amount)
            for (unit, kind, operation), (calls, amount) in sorted(within.items())
            if kind == "charge"
        ],
        not any(at_ms is not None and at_ms >= start_ms for _, at_ms, _ in balances),
    )


async def has_deleted(reader: Reader, account_id: str, span_ms: range) -> bool:
    """Whether entries of a span of time may have been deleted."""
    found = await reader.fetch_all(_DELETED, of_account=account_id)
    return any(deleted_ms >= span_ms.start for *_, deleted_ms in found)


async def last_deleted(reader: Reader, account_id: str, unit: str) -> int:
    """The number up to which the entries of a balance were deleted; 0 if none was."""
    found = await reader.fetch_all(_DELETED, of_account=account_id)
    return max((number for of_unit, number, _ in found if of_unit == unit), default=0)


def _of_unit(unit: str, after: int, within: Mapping[_Sum, Sequence[int]]) -> UnitStatement:
    sums: Counter[str] = Counter()
    for (of_unit, kind, operation), (_, amount) in within.items():
        if of_unit == unit:
            sums["refund" if kind == "top_up" and operation else kind] += amount
    return UnitStatement(
        unit=unit,
        before=after - sum(sums.values()),
        topped_up=sums["top_up"],
        refunded=sums["refund"],
        corrected=sums["correction"],
        charged=-sums["charge"],
        held=-(sums["hold"] + sums["release"]),
        after=after,
    )
