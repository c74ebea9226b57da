"""Usage by minute, hour and day: sums of the charges in the ledger, made after their commit.

The entries of a balance are numbered without a gap, and a cursor says up to which number they are
in the sums: each is counted once, whatever is interrupted. No call waits for this. The audit
compares the sums with the entries.

A sum by day is stored under its date, as if that were a day in UTC. So days keep their dates if the
time zone is changed later.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import BigInteger, Integer, and_, bindparam, func, literal, or_, select, union_all

from tollway.ledger.entry_days import EntryDays, EntryGroup
from tollway.store.database import Database, Row, Transaction
from tollway.store.many_rows import adds
from tollway.store.query import Query, insert_row
from tollway.store.schema.ledger import archived_balance, balance, entry, usage, usage_cursor

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
_KEPT_S = {MINUTE_S: 2 * DAY_S, HOUR_S: 92 * DAY_S}
_BALANCES_MAX, _BALANCES_AT_ONCE = 2000, 200
ENTRIES_AT_ONCE = 2000
_LOCK = 7_402


class UsageSum(msgspec.Struct, frozen=True):
    """The charges of one account for one operation within one span of time."""

    account_id: str
    operation: str
    start_s: int
    unit: str
    calls: int
    amount: int


# What joins a balance with its cursor, and with its archive.
ON_CURSOR = and_(
    usage_cursor.c.account_id == balance.c.account_id, usage_cursor.c.unit == balance.c.unit
)
ON_ARCHIVE = and_(
    archived_balance.c.account_id == balance.c.account_id, archived_balance.c.unit == balance.c.unit
)
_reached = func.coalesce(usage_cursor.c.number, 0)
# Those that are furthest behind come first: otherwise a few hundred balances that are charged all
# the time would keep the others from ever being counted.
_BEHIND = Query(
    lambda: (
        select(balance.c.account_id, balance.c.unit)
        .select_from(balance.outerjoin(usage_cursor, ON_CURSOR))
        .where(balance.c.entries > _reached)
        .order_by((balance.c.entries - _reached).desc(), balance.c.account_id, balance.c.unit)
        .limit(bindparam("most", type_=Integer))
    )
)
_STATE = Query(
    lambda: (
        select(
            balance.c.account_id,
            balance.c.unit,
            _reached,
            func.coalesce(usage_cursor.c.skipped, 0),
            func.coalesce(archived_balance.c.number, 0),
            func.coalesce(archived_balance.c.charge, 0),
        )
        .select_from(
            balance.outerjoin(usage_cursor, ON_CURSOR).outerjoin(archived_balance, ON_ARCHIVE)
        )
        .where(
            balance.c.account_id == bindparam("of_account"), balance.c.unit == bindparam("of_unit")
        )
    )
)
_minute = entry.c.at_ms // (MINUTE_S * 1000)
# Entries are grouped by the database: one by one, they would take a tenth of the time of a call.
_BY_MINUTE = Query(
    lambda: (
        select(
            _minute,
            entry.c.kind,
            entry.c.operation,
            func.count(),
            func.sum(entry.c.amount),
            func.min(entry.c.number),
            func.max(entry.c.number),
        )
        .where(
            entry.c.account_id == bindparam("of_account"),
            entry.c.unit == bindparam("of_unit"),
            entry.c.number > bindparam("after"),
            entry.c.number <= bindparam("up_to"),
        )
        .group_by(_minute, entry.c.kind, entry.c.operation)
    )
)
_SUMMED = Query(
    lambda: select(func.coalesce(func.sum(usage.c.amount), 0)).where(
        usage.c.account_id == bindparam("of_account"),
        usage.c.unit == bindparam("of_unit"),
        usage.c.span_s == DAY_S,
    )
)
_ADD = adds(usage, "calls", "amount")
_cursor = insert_row(usage_cursor)
_MOVE = Query(
    lambda: _cursor.on_conflict_do_update(
        index_elements=list(usage_cursor.primary_key.columns),
        set_={"number": _cursor.excluded.number, "skipped": _cursor.excluded.skipped},
    )
)
_ARCHIVED = Query(
    lambda: select(archived_balance.c.number).where(
        archived_balance.c.account_id == bindparam("of_account"),
        archived_balance.c.unit == bindparam("of_unit"),
    )
)
_DROP = Query(
    lambda: usage.delete().where(
        or_(
            *(
                and_(usage.c.span_s == span_s, usage.c.start_s < bindparam(f"before_{span_s}"))
                for span_s in _KEPT_S
            )
        )
    )
)


async def roll_up(database: Database, zone: ZoneInfo, now_s: int) -> int:
    """Adds new charges to the sums; returns how many entries it got past. Where that is fewer than
    `ENTRIES_AT_ONCE`, it left none but those of the meantime."""
    # One search for many commits: it reads all balances.
    behind = await database.fetch_long(_BEHIND, "usage", most=_BALANCES_MAX)
    passed = 0
    for first in range(0, len(behind), _BALANCES_AT_ONCE):
        some = behind[first : first + _BALANCES_AT_ONCE]
        passed += await database.write(partial(_add_balances, some, zone, now_s))
    return passed


async def _add_balances(
    behind: Sequence[Row], zone: ZoneInfo, now_s: int, transaction: Transaction
) -> int:
    if not await transaction.is_alone(_LOCK):
        return 0
    sums, passed = _Sums(), 0
    for account_id, unit in behind:
        # Read here: another node may have moved the cursor meanwhile.
        state = await transaction.fetch_one(_STATE, of_account=account_id, of_unit=unit)
        assert state is not None
        # Finds nothing for a balance whose entries are missing: the audit reports that.
        passed += await _add_balance(transaction, zone, state, sums)
    rows = [(*key, *value) for key, value in sorted(sums.usage.items())]
    await transaction.put_rows(_ADD, rows)
    await sums.days.put(transaction)
    before = {f"before_{span_s}": now_s - kept_s for span_s, kept_s in _KEPT_S.items()}
    await transaction.execute(_DROP, **before)
    return passed


class _Sums:
    """What to add: charges by span, start, account, unit and operation, and all entries by day."""

    def __init__(self) -> None:
        self.usage: defaultdict[tuple[int, int, str, str, str], list[int]]
        self.usage = defaultdict(lambda: [0, 0])
        self.days = EntryDays()


async def _add_balance(transaction: Transaction, zone: ZoneInfo, state: Row, sums: _Sums) -> int:
    """Adds the next entries of a balance; returns how far its cursor has moved."""
    account_id, unit, summed_to, skipped, archived_number, archived_charge = state
    number = summed_to
    of = {"of_account": account_id, "of_unit": unit}
    if number < archived_number:
        # Entries were dropped before they were counted: their charges have no time any more.
        ((summed,),) = await transaction.fetch_all(_SUMMED, **of)
        number, skipped = archived_number, -archived_charge - int(summed)
    rows = await transaction.fetch_all(
        _BY_MINUTE, after=number, up_to=number + ENTRIES_AT_ONCE, **of
    )
    groups = [EntryGroup(*row) for row in rows]
    if groups and min([each.first_number for each in groups]) > number + 1:
        archived = await transaction.fetch_one(_ARCHIVED, **of)
        if archived is not None and archived[0] > number:
            # Another node dropped entries after the archive was read: retry in the next run.
            return 0
    sums.days.count(account_id, unit, groups)
    for each in groups:
        number = max(number, each.last_number)
        if each.kind == "charge":
            # No time zone has a day that begins within a minute.
            for span_s, start_s in starts(each.minute * MINUTE_S, zone):
                counted = sums.usage[span_s, start_s, account_id, unit, each.operation or ""]
                counted[0] += each.entries
                counted[1] -= int(each.amount)
    await transaction.execute(
        _MOVE, account_id=account_id, unit=unit, number=number, skipped=skipped
    )
    return int(number - summed_to)


def starts(at_s: int, zone: ZoneInfo) -> tuple[tuple[int, int], ...]:
    """The minute, hour and day that a time is in; the day is its date in the zone."""
    return (
        (MINUTE_S, at_s - at_s % MINUTE_S),
        (HOUR_S, at_s - at_s % HOUR_S),
        (DAY_S, date_s(datetime.fromtimestamp(at_s, zone).date())),
    )


def date_s(day: date) -> int:
    return (day.toordinal() - _EPOCH) * DAY_S


_EPOCH = date(1970, 1, 1).toordinal()


def midnight_s(at_s: float, zone: ZoneInfo) -> int:
    moment = datetime.fromtimestamp(at_s, zone)
    # If midnight occurs twice (a clock change), the day begins with the earlier one.
    return int(moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0).timestamp())


_of_span = (usage.c.span_s == bindparam("of_span"), usage.c.start_s >= bindparam("since_s"))
_BY_TIME = Query(
    lambda: (
        select(
            usage.c.start_s, usage.c.operation, func.sum(usage.c.calls), func.sum(usage.c.amount)
        )
        .where(*_of_span, usage.c.start_s < bindparam("until_s", type_=BigInteger))
        .group_by(usage.c.start_s, usage.c.operation)
        .order_by(usage.c.start_s)
    )
)
_TOP = Query(
    lambda: (
        select(usage.c.account_id, func.sum(usage.c.calls).label("calls"), func.sum(usage.c.amount))
        .where(*_of_span, usage.c.start_s <= bindparam("last_s", type_=BigInteger))
        .group_by(usage.c.account_id)
        .order_by(func.sum(usage.c.calls).desc())
        .limit(bindparam("most", type_=Integer))
    )
)


# Charges in no sum yet are grouped by quarter of an hour: every time zone begins its days at one.
_QUARTER_S = 900
_span_start, _span_end, _first, _last = (
    bindparam(name, type_=BigInteger) for name in ("start_s", "end_s", "first_s", "last_s")
)
_quarter = (entry.c.at_ms // (_QUARTER_S * 1000) * _QUARTER_S).label("start_s")
# Outer joins force the join order: otherwise SQLite would read all entries of the account first.
_late = (
    select(_quarter, entry.c.unit, entry.c.operation, entry.c.amount)
    .select_from(
        balance.outerjoin(usage_cursor, ON_CURSOR).outerjoin(
            entry,
            and_(
                entry.c.account_id == balance.c.account_id,
                entry.c.unit == balance.c.unit,
                entry.c.number > _reached,
                entry.c.kind == "charge",
                entry.c.at_ms >= _span_start * 1000,
                entry.c.at_ms < _span_end * 1000,
            ),
        )
    )
    .where(balance.c.account_id == bindparam("of_account"))
    .subquery()
)
# One statement, so that no charge is counted twice or missed.
_BY_DAY = Query(
    lambda: union_all(
        select(
            literal(0),
            usage.c.start_s,
            usage.c.unit,
            usage.c.operation,
            usage.c.calls,
            usage.c.amount,
        ).where(
            usage.c.account_id == bindparam("of_account"),
            usage.c.span_s == DAY_S,
            usage.c.start_s.between(_first, _last),
        ),
        select(
            literal(1),
            _late.c.start_s,
            _late.c.unit,
            _late.c.operation,
            func.count(),
            -func.sum(_late.c.amount),
        )
        .group_by(_late.c.start_s, _late.c.unit, _late.c.operation)
        .having(func.count(_late.c.start_s) > 0),
    )
)


async def charged_by_day(
    database: Database, account_id: str, first: date, last: date, zone: ZoneInfo
) -> dict[tuple[date, str, str], tuple[int, int]]:
    """The calls and the amount that an account was charged, by day, unit and operation, up to this
    moment. The cost does not grow with the calls."""
    rows = await database.fetch_long(
        _BY_DAY,
        account_id,
        of_account=account_id,
        start_s=day_start_s(first, zone),
        end_s=day_end_s(last, zone),
        first_s=date_s(first),
        last_s=date_s(last),
    )
    sums: defaultdict[tuple[date, str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for is_late, start_s, unit, operation, calls, amount in rows:
        day = datetime.fromtimestamp(start_s, zone if is_late else UTC).date()
        before = sums[day, unit, operation or ""]
        sums[day, unit, operation or ""] = before[0] + calls, before[1] + int(amount)
    return sums


_A_DAY = timedelta(days=1)


def day_start_s(day: date, zone: ZoneInfo) -> int:
    return int(datetime.combine(day, datetime.min.time(), zone).timestamp())


def day_end_s(day: date, zone: ZoneInfo) -> int:
    """When the next day begins; the last day of the calendar has none."""
    if day == date.max:
        return day_start_s(day, zone) + DAY_S
    return day_start_s(day + _A_DAY, zone)


async def usage_by_time(
    database: Database, span_s: int, since_s: int, until_s: int
) -> Sequence[Row]:
    """Rows of (start, operation, calls, amount) of all accounts."""
    return await database.fetch_long(
        _BY_TIME, "usage", of_span=span_s, since_s=since_s, until_s=until_s
    )


async def top_accounts(database: Database, first: date, last: date, most: int) -> Sequence[Row]:
    """Rows of (account id, calls, amount) of some days, the most calls first."""
    span = {"since_s": date_s(first), "last_s": date_s(last)}
    return await database.fetch_long(_TOP, "usage", of_span=DAY_S, most=most, **span)


async def usage_of_account(
    database: Database, account_id: str, first: date, last: date, zone: ZoneInfo
) -> list[UsageSum]:
    """What an account was charged on each of these days up to this moment, for each operation and
    unit; a day begins at midnight in the zone."""
    sums = await charged_by_day(database, account_id, first, last, zone)
    return [
        UsageSum(account_id, operation, day_start_s(day, zone), unit, calls, amount)
        for (day, unit, operation), (calls, amount) in sorted(sums.items())
    ]
