"""Every row of a selection read and replaced, a few hundred at a time, beside the traffic.

A row is replaced only if it has not changed since it was read, so several processes can do the same
work at once, and a killed one can repeat it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    String,
    Table,
    bindparam,
    case,
    literal_column,
    select,
    tuple_,
)
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from tollway.store.database import Database, Row, Transaction
from tollway.store.pieces import PAUSE_FACTOR
from tollway.store.query import Query

_AT_ONCE = 200
_LOOKED_AT = 500
# Longer than in `pieces.py`, because a piece takes longer: its rows are opened and sealed.
_PAUSE_MAX_S = 0.5

Columns = ReadOnlyColumnCollection[str, ColumnElement[Any]]
Wanted = Callable[[Columns], Sequence[ColumnElement[Any]]]
IsChosen = Callable[[Columns], ColumnElement[bool]]


class RowPieces:
    """The rows of a selection in the order of its key, which are its first columns."""

    def __init__(self, chosen: Select[tuple[object, ...]], width: int) -> None:
        self._width = width
        key = list(chosen.selected_columns)[:width]
        some = chosen.order_by(*key).limit(bindparam("most", type_=Integer))
        last = [bindparam(f"last_{n}", type_=column.type) for n, column in enumerate(key)]
        self._first, self._following = Query(some), Query(some.where(tuple_(*key) > tuple_(*last)))

    async def read(self, database: Database, **values: object) -> AsyncIterator[Sequence[Row]]:
        rows = await database.fetch_long(self._first, **values, most=_AT_ONCE)
        while rows:
            yield rows
            last = {f"last_{n}": value for n, value in enumerate(rows[-1][: self._width])}
            rows = await database.fetch_long(self._following, **values, **last, most=_AT_ONCE)


class ScannedPieces:
    """The chosen rows of a table, where no index finds them: the key, which must be text, and the
    wanted columns, in key order. Each statement scans only a few hundred rows, however few of them
    are chosen, so none runs into the time limit."""

    def __init__(self, table: Table, wanted: Wanted, is_chosen: IsChosen) -> None:
        key = list(table.primary_key)
        self._width = len(key)
        last = [bindparam(f"last_{n}", type_=String) for n in range(self._width)]
        looked_at = (
            select(*table.c)
            .where(tuple_(*key) > tuple_(*last))
            .order_by(*key)
            # A literal, so that the planner knows how few they are.
            .limit(literal_column(str(_LOOKED_AT)))
            .subquery("looked_at")
        )
        own, chosen = [looked_at.c[each.name] for each in key], is_chosen(looked_at.c)
        columns = [case((chosen, each)) for each in wanted(looked_at.c)]
        self._query = Query(select(*own, case((chosen, 1), else_=0), *columns).order_by(*own))

    async def read(self, database: Database, **values: object) -> AsyncIterator[Sequence[Row]]:
        width = self._width
        last: Sequence[object] = [""] * width
        while True:
            began_s = perf_counter()
            after = {f"last_{n}": value for n, value in enumerate(last)}
            rows = await database.fetch_long(self._query, **values, **after)
            if not rows:
                return
            chosen = [(*row[:width], *row[width + 1 :]) for row in rows if row[width]]
            if chosen:
                yield chosen
            else:
                await asyncio.sleep(min(perf_counter() - began_s, _PAUSE_MAX_S))
            last = rows[-1][:width]


async def _nothing_more(_transaction: Transaction, _count: int) -> None:
    pass


async def replace_rows(
    database: Database,
    replace: Query,
    make: Callable[[Sequence[Row]], list[Row]],
    rows: Sequence[Row],
    note: Callable[[Transaction, int], Awaitable[None]] = _nothing_more,
) -> int:
    """Replaces rows by those that `make` returns, calls `note` with their count in the same commit,
    and leaves three quarters of the time to calls. Returns how many had not changed meanwhile."""
    began_s = perf_counter()
    made = await asyncio.to_thread(make, rows) if rows else []
    if not made:
        return 0

    async def work(transaction: Transaction) -> int:
        async with transaction.with_new_plan():
            count = await transaction.execute_many(replace, made)
        await note(transaction, count)
        return count

    count = await database.write(work)
    await asyncio.sleep(min(PAUSE_FACTOR * (perf_counter() - began_s), _PAUSE_MAX_S))
    return count
