"""Usage against entries: are the sums by day what the counted entries took? And the sums behind
statements: do they include every counted entry once? Both must have the same calls.

Entries that the cursor of a balance has not reached are not counted yet, and are left out; so is a
balance whose entries were dropped before they were counted, until the cursor has passed them. The
sums by minute and by hour are not checked: they are dropped after a while, and until then the same
statement writes them.
"""

from collections.abc import Iterator

from sqlalchemy import BigInteger, and_, cast, exists, func, literal, null, or_, select, union_all

from tollway.audit.check import Breach, Check, check_each
from tollway.store.database import Row
from tollway.store.query import alike
from tollway.store.schema.ledger import archived_balance, entry, entry_day, usage, usage_cursor

_DAY_S = 86_400

# Whether an entry is in the sums.
_is_summed = and_(
    alike(usage_cursor, entry, "account_id", "unit"), entry.c.number <= usage_cursor.c.number
)
# A summed union instead of a join, because any side may be missing.
_parts = union_all(
    select(
        usage.c.account_id, usage.c.unit, usage.c.amount.label("summed"), literal(0).label("taken")
    ).where(usage.c.span_s == _DAY_S),
    select(usage_cursor.c.account_id, usage_cursor.c.unit, usage_cursor.c.skipped, literal(0)),
    select(entry.c.account_id, entry.c.unit, literal(0), -entry.c.amount)
    .join(usage_cursor, _is_summed)
    .where(entry.c.kind == "charge"),
    select(
        archived_balance.c.account_id,
        archived_balance.c.unit,
        literal(0),
        -archived_balance.c.charge,
    ).join(
        usage_cursor,
        and_(
            alike(usage_cursor, archived_balance, "account_id", "unit"),
            archived_balance.c.number <= usage_cursor.c.number,
        ),
    ),
).subquery("parts")
_is_behind = exists().where(
    alike(archived_balance, _parts, "account_id", "unit"),
    alike(usage_cursor, _parts, "account_id", "unit"),
    archived_balance.c.number > usage_cursor.c.number,
)
_summed, _taken = func.sum(_parts.c.summed), func.sum(_parts.c.taken)
_wrong = (
    select(_parts.c.account_id, _parts.c.unit, _summed.label("summed"), _taken.label("taken"))
    .where(~_is_behind)
    .group_by(_parts.c.account_id, _parts.c.unit)
    .having(_summed != _taken)
)
USAGE = check_each(
    "usage",
    "the sums by day are what the entries took",
    usage,
    _wrong,
    "usage",
    "the days add up to {summed}, the entries to {taken}",
)

# Both are made from the same entries, and neither is ever dropped. By operation, not by day: a day
# of usage begins at midnight in a time zone, which may have changed since.
_none = literal(0)
_of_operation = union_all(
    select(
        usage.c.account_id,
        usage.c.unit,
        usage.c.operation,
        usage.c.calls,
        usage.c.amount,
        _none.label("entries"),
        _none.label("charged"),
    ).where(usage.c.span_s == _DAY_S),
    select(
        entry_day.c.account_id,
        entry_day.c.unit,
        entry_day.c.operation,
        _none,
        _none,
        entry_day.c.entries,
        -entry_day.c.amount,
    ).where(entry_day.c.kind == "charge"),
).subquery("of_operation")
_by = (_of_operation.c.account_id, _of_operation.c.unit, _of_operation.c.operation)
_calls, _amount = func.sum(_of_operation.c.calls), func.sum(_of_operation.c.amount)
_entries, _charged = func.sum(_of_operation.c.entries), func.sum(_of_operation.c.charged)
USAGE_CALLS = check_each(
    "usage_calls",
    "the sums by day have the calls of every operation",
    usage,
    select(
        *_by,
        _calls.label("calls"),
        _amount.label("amount"),
        _entries.label("entries"),
        _charged.label("charged"),
    )
    .group_by(*_by)
    .having(or_(_calls != _entries, _amount != _charged)),
    "usage_calls",
    "{operation}: the days have {calls} calls for {amount}, the entries {entries} for {charged}",
)

_DAY_MS = 1000 * _DAY_S
_BEYOND = 2**62
_no_number = cast(null(), BigInteger)
_counted = union_all(
    select(
        entry_day.c.account_id,
        entry_day.c.unit,
        entry_day.c.day,
        entry_day.c.kind,
        entry_day.c.operation,
        entry_day.c.entries,
        entry_day.c.amount,
        entry_day.c.first_number,
        entry_day.c.last_number,
        _no_number.label("number"),
    ),
    select(
        entry.c.account_id,
        entry.c.unit,
        entry.c.at_ms // _DAY_MS,
        entry.c.kind,
        func.coalesce(entry.c.operation, ""),
        literal(-1),
        -entry.c.amount,
        _no_number,
        _no_number,
        entry.c.number,
    ).join(usage_cursor, _is_summed),
).subquery("counted")
_bucket = [_counted.c[name] for name in ("account_id", "unit", "day", "kind", "operation")]
_first, _last = func.min(_counted.c.first_number), func.max(_counted.c.last_number)
_differs = or_(
    func.sum(_counted.c.entries) != 0,
    func.sum(_counted.c.amount) != 0,
    func.min(_counted.c.number).is_distinct_from(_first),
    func.max(_counted.c.number).is_distinct_from(_last),
)
_days = (
    select(
        *_bucket,
        func.sum(_counted.c.entries).label("more_entries"),
        func.sum(_counted.c.amount).label("more"),
        func.coalesce(_first, _BEYOND).label("first"),
    )
    .group_by(*_bucket)
    .having(_differs)
    .subquery("days")
)
# Leaves out days with dropped entries: the entries that are left say nothing about the sum.
_wrong_days = select(*_days.c).where(
    ~exists().where(
        alike(archived_balance, _days, "account_id", "unit"),
        archived_balance.c.number >= _days.c.first,
    )
)


def _describe_day(row: Row) -> Iterator[Breach]:
    account_id, unit, day, kind, operation, entries, more, _ = row
    which = f"day {day}, {kind} {operation}".rstrip()
    differs = f"{entries} entries and {more} too many, or other numbers"
    yield Breach("entry_days", account_id, unit, f"{which}: the sum has {differs}")


ENTRY_DAYS = Check(
    "entry_days", "statements have sums of the entries", entry_day, _wrong_days, _describe_day
)
