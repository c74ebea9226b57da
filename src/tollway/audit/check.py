"""What a check of the audit is, and what the checks of counts share.

Every check is one statement, so it sees one snapshot of the database and can run while calls are
charged. It reads rows in the order of a key or an index and neither sorts nor collects them: a
long table costs time, but no memory.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from sqlalchemy import BigInteger, ColumnElement, Table, and_, cast, func, null, select
from sqlalchemy.sql import CompoundSelect, Select

from tollway.store.database import Database, Row
from tollway.store.query import Query

# A ruined database can have millions of breaches: the first ones show what happened.
BREACHES_SHOWN_MAX = 100


class Breach(msgspec.Struct, frozen=True):
    """One thing that is wrong; account and unit are None where they do not apply."""

    name: str
    account_id: str | None
    unit: str | None
    difference: str


class CheckFigures(msgspec.Struct, frozen=True):
    """How many rows a check read, and how many breaches it found."""

    name: str
    holds: str
    rows: int
    breaches: int


class Check:
    """One thing that must hold for every row of a table.

    `wrong` selects the rows for which it does not hold, and `describe` says what is wrong with such
    a row. `holds` says, in half a sentence, what is known to hold if there are none.
    """

    def __init__(
        self,
        name: str,
        holds: str,
        table: Table,
        wrong: Select[tuple[object, ...]] | CompoundSelect[tuple[object, ...]],
        describe: Callable[[Row], Iterator[Breach]],
    ) -> None:
        self.name = name
        self.holds = holds
        self._rows = Query(select(func.count()).select_from(table))
        self._wrong = Query(wrong.limit(BREACHES_SHOWN_MAX))
        self._describe = describe

    async def run(self, database: Database, now_ms: int) -> tuple[CheckFigures, list[Breach]]:
        """Checks all rows; reports at most BREACHES_SHOWN_MAX wrong ones. `now_ms` is there for
        queries that use it."""
        ((rows,),) = await database.fetch_long(self._rows)
        wrong = await database.fetch_long(self._wrong, now_ms=now_ms)
        breaches = [breach for row in wrong for breach in self._describe(row)]
        return CheckFigures(self.name, self.holds, rows, len(breaches)), breaches


def check_each(
    name: str,
    holds: str,
    table: Table,
    wrong: Select[tuple[object, ...]] | CompoundSelect[tuple[object, ...]],
    breach: str,
    difference: str,
) -> Check:
    """A check in which each wrong row is one breach. `difference` is a template for the columns of
    `wrong`; `account_id` and `unit` among them say whose breach it is."""
    columns = wrong.selected_columns.keys()

    def describe(row: Row) -> Iterator[Breach]:
        of = dict(zip(columns, row, strict=True))
        yield Breach(breach, of.get("account_id"), of.get("unit"), difference.format_map(of))

    return Check(name, holds, table, wrong, describe)


# Typed, because an engine cannot infer the type from the other half of the union.
NO_COUNT = cast(null(), BigInteger)


def within(
    newest_first: ColumnElement[int], bucket: ColumnElement[int], span: int
) -> ColumnElement[bool]:
    """Whether a time, which is stored negated, is in a bucket."""
    return and_(newest_first > -(bucket + 1) * span, newest_first <= -bucket * span)


def bucket_of(newest_first: ColumnElement[int], span: int) -> ColumnElement[Any]:
    """The bucket that a time is in. Times are never before 1970, so the division rounds down."""
    return -newest_first // span


def count_reporter(
    what: str, subject_of: Callable[[Row], str]
) -> Callable[[Row], Iterator[Breach]]:
    """Reports a bucket; its row ends with the stored count (None if there is none) and the actual
    count."""

    def describe(row: Row) -> Iterator[Breach]:
        *bucket, counted, there = row
        if counted is None:
            difference = f"{subject_of(tuple(bucket))}: there are {what}, but no count of them"
        else:
            difference = (
                f"{subject_of(tuple(bucket))}: {counted} {what} are counted, {there} are there"
            )
        yield Breach(f"{what}_miscounted", None, None, difference)

    return describe
