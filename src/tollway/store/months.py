"""Tables that a shared database divides by month, so that an old month is dropped as a whole.

Months are in UTC. They are created ahead of time, and when older or newer rows are stored.
Rows without a month of their own go to the default partition ("the rest"), where queries find them
like any other; only dropping them takes longer. An embedded database is one file, and is not
divided.
"""

import calendar
import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from sqlalchemy import ARRAY, Table, bindparam, func, select, text
from sqlalchemy.types import BigInteger, String

from tollway.store.database import (
    Database,
    Reader,
    Row,
    StoreBusyError,
    StoreUnavailableError,
    Transaction,
)
from tollway.store.query import Query
from tollway.store.schema import MONTHS, DividedBy, metadata

DAY_S = 86_400
# How many months are created ahead of time, including the current one.
_AHEAD = 3
_FORMAT = "%Y%m"

logger = logging.getLogger("tollway.store")


def divided_tables() -> list[Table]:
    """The tables that a shared database divides by month."""
    return [table for table in metadata.sorted_tables if MONTHS in table.info]


class Month(NamedTuple):
    """One month: its name in the database, its first second, and the next month's first second."""

    name: str
    start_s: int
    end_s: int


def _text(name: str) -> object:
    return bindparam(name, type_=String)


_MAKE = Query(
    lambda: select(
        func.tollway_make_months(
            _text("parent"),
            _text("key"),
            bindparam("per_s", type_=BigInteger),
            bindparam("moments_s", type_=ARRAY(BigInteger)),
        )
    )
)
_MISSING = Query(
    lambda: text(
        "SELECT name FROM unnest(:names) AS name WHERE to_regclass(name) IS NULL"
    ).bindparams(bindparam("names", type_=ARRAY(String)))
)
_LOCK = Query(lambda: select(func.tollway_lock_month(_text("parent"), _text("month"))))
_DROP = Query(lambda: select(func.tollway_drop_month(_text("parent"), _text("month"))))
_MONTHS = Query(
    lambda: text(
        "SELECT substr(relname, length(:parent) + 2) FROM pg_inherits "
        "JOIN pg_class ON pg_class.oid = inhrelid WHERE inhparent = to_regclass(:parent) "
        "ORDER BY 1"
    ).bindparams(bindparam("parent", type_=String))
)


def month_of(at_s: int) -> Month:
    at = datetime.fromtimestamp(at_s, UTC)
    start = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    start_s = int(start.timestamp())
    days = calendar.monthrange(at.year, at.month)[1]
    return Month(start.strftime(_FORMAT), start_s, start_s + days * DAY_S)


async def make_months_ahead(database: Database, now_s: int) -> None:
    """Creates the coming months of every table; if all exist, that is one read."""
    if not database.is_shared:
        return
    moments_s = list(_coming(now_s))
    months = [month_of(moment_s).name for moment_s in moments_s]
    names = {table: {f"{table.name}_{month}" for month in months} for table in divided_tables()}
    rows = await database.fetch_all(
        _MISSING, names=[name for each in names.values() for name in each]
    )
    missing = {name for (name,) in rows}
    for table, its in names.items():
        if its & missing:
            await _make_if_allowed(database, table, moments_s, "coming months")


async def _make_if_allowed(
    database: Database, table: Table, moments_s: Sequence[int], what: str
) -> bool:
    """False if it has to be tried another time."""
    try:
        return await database.write(partial(_make, table, moments_s))
    except (StoreBusyError, StoreUnavailableError):
        raise
    except Exception as error:
        # Such as a missing privilege. Nothing is lost: the rows go to the default partition.
        logger.error("the %s of %s cannot be made: %s", what, table.name, error)
        return True


def _coming(now_s: int) -> Iterator[int]:
    """The first seconds of this month and of each of the next."""
    month = month_of(now_s)
    for _ in range(_AHEAD):
        yield month.start_s
        month = month_of(month.end_s)


class MonthsOf:
    """Creates the months of a table for the rows that are about to be stored.

    In its own transaction, because it locks all readers out of the table until the commit.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: set[int] = set()

    async def make_for(self, database: Database, rows: Iterable[Row]) -> None:
        if database.is_shared:
            days = _days(self._table, rows) - self._known
            if not days:
                return
            if await _make_if_allowed(database, self._table, _moments(days), "months"):
                self._known |= days


async def make_months_for(transaction: Transaction, table: Table, rows: Iterable[Row]) -> None:
    """Creates the months of rows that are stored in the same transaction."""
    if MONTHS in table.info:
        await _make(table, _moments(_days(table, rows)), transaction)


def _days(table: Table, rows: Iterable[Row]) -> set[int]:
    """The days of rows, given in the order of the table's columns."""
    column, per_s = _divided_by(table)
    position = table.c.keys().index(column)
    return {row[position] // per_s // DAY_S for row in rows}


def _divided_by(table: Table) -> DividedBy:
    divided: DividedBy = table.info[MONTHS]
    return divided


def _moments(days: Iterable[int]) -> list[int]:
    return [day * DAY_S for day in days]


async def _make(table: Table, moments_s: Sequence[int], transaction: Transaction) -> bool:
    """False if the lock was not free: a later call creates the months."""
    column, per_s = _divided_by(table)
    try:
        # If a reader holds the table, the rest of this transaction must not fail.
        async with transaction.savepoint():
            await transaction.fetch_all(
                _MAKE, parent=table.name, key=column, per_s=per_s, moments_s=moments_s
            )
    except StoreBusyError as error:
        logger.warning(
            "a month of %s was not created, its rows go to the rest: %s", table.name, error
        )
        return False
    return True


async def months_before(reader: Reader, table: Table, before_s: int) -> list[Month]:
    """The months of a table that end before a moment, the oldest first."""
    names = [name for (name,) in await reader.fetch_all(_MONTHS, parent=table.name)]
    months = [month_of(_first_second(name)) for name in names if name.isdigit()]
    return [month for month in months if month.end_s <= before_s]


async def close_month(transaction: Transaction, table: Table, month: Month) -> None:
    """Blocks writes to a month until the end of the transaction, which may take long."""
    await transaction.allow_long_statements()
    await transaction.fetch_all(_LOCK, parent=table.name, month=month.name)


async def drop_month(transaction: Transaction, table: Table, month: Month) -> None:
    """Drops a closed month. Fails with StoreBusyError if a long read holds it: try again later."""
    await transaction.fetch_all(_DROP, parent=table.name, month=month.name)


def _first_second(name: str) -> int:
    return int(datetime.strptime(name, _FORMAT).replace(tzinfo=UTC).timestamp())
