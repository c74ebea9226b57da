"""Dropping old entries: their sums stay as an archived balance, so the ledger still adds up.

Entries are dropped oldest first and without a gap. The audit then checks a balance against the
archived balance and the remaining entries.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    and_,
    bindparam,
    case,
    cast,
    exists,
    func,
    literal_column,
    or_,
    select,
)

from tollway.ledger.usage import ON_ARCHIVE
from tollway.store.database import Row, StoreError, Transaction
from tollway.store.query import Insert, Query, alike, equals, insert, insert_row
from tollway.store.schema.ledger import IS_HELD, archived_balance, balance, entry, hold

# With this as now, no date is in the future.
NO_END_MS = 2**62
_KINDS = ("top_up", "correction", "charge", "hold", "release")
_SUMS = (*_KINDS, "waybills")
_before_ms, _now_ms = (bindparam(name, type_=BigInteger) for name in ("before_ms", "now_ms"))

OLD_ENTRIES = Query(
    lambda: select(func.count()).select_from(entry).where(entry.c.at_ms < _before_ms)
)
_following = entry.alias("following")
# The first after it that is not dated in the future. Read only where the oldest is.
_following_ms = (
    select(_following.c.at_ms)
    .where(alike(_following, balance, "account_id", "unit"), _following.c.at_ms <= _now_ms)
    .order_by(_following.c.number)
    .limit(1)
    .scalar_subquery()
)
# The balances whose oldest entry is old.
OLD_BALANCES = Query(
    lambda: (
        select(balance.c.account_id, balance.c.unit)
        .select_from(
            balance.outerjoin(archived_balance, ON_ARCHIVE).join(
                entry,
                and_(
                    alike(entry, balance, "account_id", "unit"),
                    entry.c.number == func.coalesce(archived_balance.c.number, 0) + 1,
                ),
            )
        )
        .where(
            or_(
                entry.c.at_ms < _before_ms,
                and_(entry.c.at_ms > _now_ms, _following_ms < _before_ms),
            )
        )
        .order_by(balance.c.account_id, balance.c.unit)
    )
)
_of_balance = equals(entry, account_id="of_account", unit="of_unit")
# An entry with an open hold stays.
_is_open = exists().where(hold.c.request_id == entry.c.request_id, literal_column(IS_HELD))
_OLDEST = Query(
    lambda: (
        select(
            entry.c.number,
            entry.c.kind,
            entry.c.amount,
            entry.c.balance_after,
            entry.c.at_ms,
            entry.c.operation,
            _is_open,
        )
        .where(_of_balance)
        .order_by(entry.c.number)
        .limit(bindparam("most", type_=Integer))
    )
)
_NEXT_MS = Query(
    lambda: (
        select(entry.c.at_ms)
        .where(
            _of_balance,
            entry.c.number > bindparam("after", type_=BigInteger),
            entry.c.at_ms <= _now_ms,
        )
        .order_by(entry.c.number)
        .limit(1)
    )
)
_DROP = Query(lambda: entry.delete().where(_of_balance, entry.c.number <= bindparam("last_number")))


def _added_up(statement: Insert) -> Insert:
    """The archived balance grows by the new sums."""
    new, at_ms = statement.excluded, archived_balance.c.at_ms
    return statement.on_conflict_do_update(
        index_elements=["account_id", "unit"],
        set_={
            **{name: new[name] for name in ("number", "balance_after")},
            # Numbers follow the commits, so a higher number may have an earlier time.
            "at_ms": case((at_ms > new.at_ms, at_ms), else_=new.at_ms),
            **{name: archived_balance.c[name] + new[name] for name in _SUMS},
        },
    )


_CARRY = Query(lambda: _added_up(insert_row(archived_balance)))

_from_ms, _to_ms = (bindparam(name, type_=BigInteger) for name in ("from_ms", "to_ms"))
_in_month = and_(entry.c.at_ms >= _from_ms, entry.c.at_ms < _to_ms)
_is_open_in_month = exists().where(
    hold.c.request_id == entry.c.request_id, literal_column(IS_HELD), _in_month
)
_runs = (
    select(
        entry.c.account_id,
        entry.c.unit,
        func.min(entry.c.number).label("first"),
        func.max(entry.c.number).label("last"),
        func.count().label("entries"),
    )
    .where(_in_month)
    .group_by(entry.c.account_id, entry.c.unit)
    .cte("run")
)
# A month may be dropped as a whole if its entries are the next ones of every balance, without a
# gap, and none of them has an open hold.
_MONTH = Query(
    lambda: select(
        func.coalesce(func.sum(_runs.c.entries), 0),
        func.bool_and(
            (_runs.c.first == func.coalesce(archived_balance.c.number, 0) + 1)
            & (_runs.c.last - _runs.c.first + 1 == _runs.c.entries)
        ),
        select(_is_open_in_month).scalar_subquery(),
    ).select_from(
        _runs.outerjoin(archived_balance, alike(archived_balance, _runs, "account_id", "unit"))
    )
)


def _sum_of(kind: str) -> ColumnElement[int]:
    is_counted = entry.c.kind == kind
    if kind == "waybills":
        is_counted = and_(entry.c.kind == "charge", entry.c.operation == "waybills")
    return cast(func.coalesce(func.sum(entry.c.amount).filter(is_counted), 0), BigInteger)


_month_sums = (
    select(
        entry.c.account_id,
        entry.c.unit,
        func.max(entry.c.number),
        func.max(entry.c.balance_after).filter(entry.c.number == _runs.c.last),
        func.max(entry.c.at_ms),
        *(_sum_of(name) for name in _SUMS),
    )
    .join(_runs, alike(_runs, entry, "account_id", "unit"))
    .where(_in_month)
    .group_by(entry.c.account_id, entry.c.unit)
)
_CARRY_MONTH = Query(
    lambda: _added_up(insert(archived_balance).from_select(list(archived_balance.c), _month_sums))
)


async def archive_month(transaction: Transaction, from_ms: int, to_ms: int) -> int | None:
    """Archives the sums of a month's entries; returns how many there are, or None if the month may
    not be dropped as a whole. The caller drops it in the same transaction."""
    month = await transaction.fetch_one(_MONTH, from_ms=from_ms, to_ms=to_ms)
    assert month is not None
    entries, is_next, is_open = month
    if is_open or is_next is False:
        return None
    await transaction.execute(_CARRY_MONTH, from_ms=from_ms, to_ms=to_ms)
    return int(entries)


async def archive_entries(
    transaction: Transaction,
    most: int,
    *,
    account_id: str,
    unit: str,
    before_ms: int,
    now_ms: int = NO_END_MS,
) -> int:
    """Drops some of the oldest entries of a balance and archives their sums; returns how many."""
    its = {"of_account": account_id, "of_unit": unit}
    rows = await transaction.fetch_all(_OLDEST, **its, most=most)
    old, ahead = old_rows(rows, 4, before_ms, now_ms, is_kept=lambda row: bool(row[6]))
    # Without dates in the future: otherwise the statements until then would have to be refused.
    times_ms = [row[4] for row in old if row[4] <= now_ms]
    if ahead:
        following = await transaction.fetch_one(_NEXT_MS, **its, after=ahead[-1][0], now_ms=now_ms)
        if following is not None and following[0] < before_ms:
            old += ahead
            times_ms.append(following[0])
    if not old:
        return 0
    sums = Counter(dict.fromkeys(_SUMS, 0))
    for _, kind, amount, _, _, operation, _ in old:
        sums[kind] += amount
        if kind == "charge" and operation == "waybills":
            sums["waybills"] += amount
    number, _, _, balance_after, *_ = old[-1]
    dropped = await transaction.execute(_DROP, **its, last_number=number)
    if dropped != len(old):
        raise StoreError("Another process dropped entries at the same moment.")
    await transaction.execute(
        _CARRY,
        account_id=account_id,
        unit=unit,
        number=number,
        balance_after=balance_after,
        at_ms=max(times_ms),
        **sums,
    )
    return dropped


def old_rows(
    rows: Sequence[Row],
    column: int,
    before_ms: int,
    now_ms: int,
    is_kept: Callable[[Row], bool],
) -> tuple[list[Row], list[Row]]:
    """The rows that are old, from the first on, and those after them that are old if the next row
    is. `column` has their dates.

    Rows are dropped in the order of their numbers, so one that is dated in ten years, by a clock
    that was ahead, would keep all later ones until then. But it is as old as the row after it. This
    holds for dates in the future alone: a clock that was behind for a moment must not make all rows
    before it old.
    """

    def may_go(row: Row) -> bool:
        return not before_ms <= row[column] <= now_ms and not is_kept(row)

    old, ahead = list(takewhile(may_go, rows)), list[Row]()
    while old and old[-1][column] > now_ms:
        ahead.insert(0, old.pop())
    return old, ahead
