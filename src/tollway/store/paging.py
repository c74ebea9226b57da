"""Any page at the cost of the first, in one statement.

Skipping to a page far back costs as much as all the rows before it, and so does counting them. So
what is listed keeps a count per bucket of time, written in the same transaction as its rows: the
total is a sum of counts, and a page begins in the bucket in which their running sum passes the
offset. A window's ends may cut a bucket in two: only of such a part the rows themselves are
counted.

Rows are listed by `newest_first`, a negated time: those of a bucket come after `after`. Total and
page are read together, since on a server every statement is a way there and back.
"""

from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    ScalarSelect,
    Select,
    bindparam,
    cast,
    func,
    select,
    true,
    union_all,
)

TAKE = bindparam("take")
OFFSET = cast(bindparam("offset"), BigInteger)


class Parts(NamedTuple):
    """A window taken apart: whole buckets, and a part of one at either end, which may be empty."""

    newest: tuple[int, int]
    whole: tuple[int, int]
    oldest: tuple[int, int]


def taken_apart(start: int, end: int, width: int) -> Parts:
    """The parts of a window from start up to, not including, end."""
    first, last = -(-start // width), end // width
    if first >= last:
        return Parts((start, end), (first, first), (start, start))
    return Parts((last * width, end), (first, last), (start, first * width))


def counts_of(name: str, *arms: Select[Any]) -> CTE:
    """Buckets of `after` and `listed`, how many rows each has, with their running sum."""
    every = union_all(*arms).subquery()
    # A server's sum of whole numbers is none itself.
    up_to = cast(func.sum(every.c.listed).over(order_by=every.c.after, rows=(None, 0)), BigInteger)
    return select(*every.c, up_to.label("up_to")).cte(name)


def start_in(name: str, counts: CTE, offset: ColumnElement[int] = OFFSET) -> CTE:
    """The bucket in which the row at an offset lies, and how many of its rows to skip; none if
    the offset is behind the last one."""
    before = counts.c.up_to - counts.c.listed
    return (
        select(*counts.c, (offset - before).label("skip"))
        .where(before <= offset, counts.c.up_to > offset)
        .cte(name)
    )


def the_only(column: ColumnElement[Any]) -> ScalarSelect[Any]:
    """The value in a row that is alone. Not joined, so that an index can be entered with it."""
    return select(column).scalar_subquery()


def total_of(counts: CTE) -> ScalarSelect[Any]:
    return select(func.coalesce(func.max(counts.c.up_to), 0)).scalar_subquery()
