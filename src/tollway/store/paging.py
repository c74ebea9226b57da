"""Any page at the cost of the first.

Skipping to a page far back costs as much as all the rows before it, and so does counting them. So a
list has a count per bucket of time, written in the same transaction as its rows: the total is a sum
of counts, and a page begins in the bucket in which their running sum passes the offset. If an end
of the window cuts a bucket in two, the rows of that part are counted.

On a server every statement is a round trip, so there all of this is one statement. In an embedded
database a statement costs next to nothing but running sums are expensive, so there it takes several
steps, all in one snapshot. Both are made of the same parts. A listing can have its own steps, if it
knows some of the sums already.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    BigInteger,
    Column,
    ColumnElement,
    CompoundSelect,
    FromClause,
    ScalarSelect,
    Select,
    Table,
    bindparam,
    cast,
    func,
    literal_column,
    select,
    true,
    union_all,
)

from tollway.store.cache_versions import new_version
from tollway.store.database import Database, Row, Transaction
from tollway.store.many_rows import adds, upserts
from tollway.store.query import Query, Steps, StepsQuery, equals

Counts = Callable[[], Sequence[Select[Any]]]
Rows = Callable[[ColumnElement[int], ColumnElement[int]], Select[Any]]
Finer = Callable[[ColumnElement[int]], Select[Any]]
PageSteps = Callable[[Mapping[str, Any]], Steps]
# The columns that rows are listed by.
Key = tuple[str, ...]


class SplitWindow(NamedTuple):
    """A window split into whole buckets, and a part of one at either end, which may be empty."""

    newest: tuple[int, int]
    whole: tuple[int, int]
    oldest: tuple[int, int]


def split_window(start: int, end: int, width: int) -> SplitWindow:
    """The parts of a window from start up to, not including, end."""
    first, last = -(-start // width), end // width
    if first >= last:
        return SplitWindow((start, end), (first, first), (start, start))
    return SplitWindow((last * width, end), (first, last), (start, first * width))


def part_of(name: str, time: Column[int], *asked: ColumnElement[bool]) -> Select[Any]:
    """A part of a bucket, counted row by row."""
    after: ColumnElement[int] = bindparam(f"{name}_after")
    up_to: ColumnElement[int] = bindparam(f"{name}_up_to")
    bucket: list[ColumnElement[Any]] = [cast(after, BigInteger), func.count()]
    return select(*bucket).select_from(time.table).where(*asked, time > after, time <= up_to)


def part_count(name: str, time: Column[int], *asked: ColumnElement[bool]) -> ScalarSelect[int]:
    """How many rows a part of a bucket has, beside other columns of a statement."""
    counted = part_of(name, time, *asked).with_only_columns(func.count())
    return counted.correlate(None).scalar_subquery()


def part_values(name: str, part: tuple[int, int]) -> dict[str, object]:
    """The values for `part_of`. Times are stored negated, so the end of the part comes first."""
    start, end = part
    return {f"{name}_after": -end, f"{name}_up_to": -start}


class BucketCounts:
    """How many rows each bucket has, stored with the rows: both change in one transaction. The
    version of their list changes too, so that readers notice cached counts that are out of date."""

    def __init__(self, counts: Column[int], versions: Table) -> None:
        """Takes the column of the counts; the key of its table is that of a bucket."""
        table = counts.table
        its = equals(table, **{column.name: f"its_{column.name}" for column in table.primary_key})
        self._more = adds(table, counts.name)
        # A separate statement: an INSERT with a negative count would violate the check constraint,
        # even if it ends in an UPDATE.
        self._fewer = Query(
            lambda: table.update().values({counts: counts - bindparam("fewer")}).where(its)
        )
        self._forget_empty = Query(lambda: table.delete().where(its, counts == literal_column("0")))
        self._versions = versions

    async def change(self, transaction: Transaction, changes: Counter[Any]) -> None:
        # A fixed lock order prevents deadlocks.
        ordered = sorted(changes.items())
        fewer = [(bucket, -count) for bucket, count in ordered if count < 0]
        await transaction.put_rows(
            self._more, [(*bucket, count) for bucket, count in ordered if count > 0]
        )
        await transaction.execute_many(self._fewer, [(count, *bucket) for bucket, count in fewer])
        await transaction.execute_many(self._forget_empty, [bucket for bucket, _ in fewer])

    async def give_versions(self, transaction: Transaction, lists: Iterable[Row]) -> None:
        versions = [(*each, new_version()) for each in sorted(lists)]
        await transaction.put_rows(upserts(self._versions), versions)


def sums_by_list(
    lists: Sequence[Column[Any]], counts: Column[int], *of: ColumnElement[bool]
) -> Query:
    """The sum of the counts of some buckets, for each list. Materialized, so that these buckets are
    read first, from their index: otherwise a planner may read the counts of all buckets, because
    those are in the order of the lists."""

    def statement() -> Select[Any]:
        some = select(*lists, counts).where(*of).cte("counted").prefix_with("MATERIALIZED")
        *its_list, counted = some.c
        return select(*its_list, func.sum(counted)).group_by(*its_list).order_by(*its_list)

    return Query(statement)


class RunningCounts:
    """How many rows each bucket of a list has, kept in memory: the newest bucket first.

    A total is then a difference of two sums, and bisection finds where a page begins.
    """

    def __init__(self, buckets: Iterable[tuple[int, int]]) -> None:
        """Takes the numbers of buckets, the highest first, with their counts."""
        found = list(buckets)
        # Negated, so that they ascend.
        self._numbers = array("q", [-number for number, _ in found])
        self._up_to = array("q", accumulate((count for _, count in found), initial=0))

    def __len__(self) -> int:
        return len(self._numbers)

    def between(self, first: int, last: int) -> tuple[int, int]:
        """The positions of the buckets from first up to, not including, last."""
        return bisect_left(self._numbers, 1 - last), bisect_left(self._numbers, 1 - first)

    def total(self, span: tuple[int, int]) -> int:
        return self._up_to[span[1]] - self._up_to[span[0]]

    def locate(self, span: tuple[int, int], offset: int) -> tuple[int, int]:
        """The bucket in which the row at an offset lies, and how many of its rows come before."""
        wanted = self._up_to[span[0]] + offset
        position = bisect_right(self._up_to, wanted, span[0], span[1] + 1) - 1
        return -self._numbers[position], wanted - self._up_to[position]


class Listing:
    """Rows that are listed by a negated time, the newest first, and the counts of their buckets.

    `counts` makes the queries for (after, count) of buckets that do not overlap: a bucket's rows
    are the next ones after its `after`. If some buckets are large, all rows have a third column,
    the large bucket's number or null, and `finer` selects the smaller buckets within a large one;
    such a listing needs its own steps.
    `rows` selects `take` rows after a bucket's `after`, skipping so many, in the order of `key`.
    """

    def __init__(self, counts: Counts, rows: Rows, key: Key, finer: Finer | None = None) -> None:
        self._counts = Query(lambda: union_all(*counts()))
        self._at_once = Query(lambda: _at_once(union_all(*counts()).subquery(), rows, key, finer))
        self._rows = rows
        self.rows = Query(self.page_rows)

    def page_rows(self) -> Select[Any]:
        return self._rows(bindparam("after"), bindparam("skip"))

    def query(self, steps: PageSteps | None = None) -> StepsQuery:
        """The query for a page. Steps return a row with the total, then the page's rows."""
        return StepsQuery(self._at_once, steps or self._in_steps)

    def _in_steps(self, values: Mapping[str, Any]) -> Steps:
        counts = yield self._counts, values
        total = (sum([bucket[1] for bucket in counts]),)
        start = _locate(counts, values["offset"])
        if start is None:
            return [total]
        rows = yield self.rows, {**values, "after": start.bucket[0], "skip": start.skip}
        return [total, *rows]


async def read_listed(
    database: Database, query: StepsQuery, offset: int, size: int, values: dict[str, object]
) -> tuple[int, Sequence[Row]]:
    """The exact total and the rows of a page, from one snapshot."""
    found = await database.fetch_all(query, **{**values, "offset": offset, "take": size})
    return (found[0][0], found[1:]) if database.dialect == "sqlite" else split_total(found)


class _Start(NamedTuple):
    """Where a page begins: in a bucket, after so many of its rows."""

    bucket: Row
    skip: int


def _locate(counts: Iterable[Row], offset: int) -> _Start | None:
    for bucket in sorted(counts, key=itemgetter(0)):
        if offset < bucket[1]:
            return _Start(bucket, offset)
        offset -= bucket[1]
    return None


def _at_once(buckets: FromClause, rows: Rows, key: Key, finer: Finer | None) -> Select[Any]:
    counts = _running(buckets, "counts")
    start = _start(counts, cast(bindparam("offset"), BigInteger), "start")
    if finer is not None:
        after, listed, large = start.c[0], start.c[1], start.c[2]
        parts: CompoundSelect[Any] = union_all(
            select(after, listed).where(large.is_(None)), finer(_only(large))
        )
        start = _start(_running(parts.subquery(), "finer"), _only(start.c.skip), "finer_start")
    page = rows(_only(start.c[0]), func.coalesce(_only(start.c.skip), 0))
    total = select(func.max(counts.c.up_to)).scalar_subquery()
    return beside(func.coalesce(total, 0), page, key)


def _running(buckets: FromClause, name: str) -> CTE:
    """Buckets with how many rows they and all before them have."""
    after, listed = buckets.c[0], buckets.c[1]
    # PostgreSQL's sum of bigints is numeric.
    up_to = cast(func.sum(listed).over(order_by=after, rows=(None, 0)), BigInteger)
    return select(*buckets.c, up_to.label("up_to")).cte(name)


def _start(counts: CTE, offset: ColumnElement[int], name: str) -> CTE:
    """The bucket in which the row at an offset lies; empty if the offset is past the last row."""
    before = counts.c.up_to - counts.c[1]
    return (
        select(*counts.c, (offset - before).label("skip"))
        .where(before <= offset, counts.c.up_to > offset)
        .cte(name)
    )


def _only(column: ColumnElement[Any]) -> ScalarSelect[Any]:
    """The value in the only row. A scalar subquery, not a join, so that an index can seek to it."""
    return select(column).scalar_subquery()


def beside(total: ColumnElement[int], page: Select[Any], key: Key) -> Select[Any]:
    """The total beside every row of a page; alone if the page is empty."""
    alone, listed = select(total.label("total")).cte("alone"), page.cte("page")
    return (
        select(alone.c.total, *listed.c)
        .select_from(alone)
        .outerjoin(listed, true())
        .order_by(*(listed.c[name] for name in key))
    )


def split_total(rows: Sequence[Row]) -> tuple[int, Sequence[Row]]:
    """The total and the rows beside it. The first column of a real row is never null."""
    return rows[0][0], [row[1:] for row in rows if row[1] is not None]
