"""Long work in small pieces, each in a commit of its own, so that paid calls wait for one piece at
most.

A piece should take hardly longer than a commit of charges: after a slow piece, the next is smaller.
After each comes a pause three times as long, shared by all such work on a database: so calls keep
three quarters of the time, however much there is to do. Each piece waits for the disk: the system
reports a failed write only once, and if a piece missed that report, the charges after it in the log
would be acknowledged although the log has a gap before them.

Rows that are read and replaced are replaced only if they have not changed since, so several
processes can do the same work at once, and a killed one can repeat it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Delete,
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
from tollway.store.query import Query

# Rows per commit, at most and at least.
PIECE = 500
_PIECE_MIN = 100
_PIECE_S = 0.005
_PAUSE_FACTOR = 3
_PAUSE_MAX_S = 0.1
# Rows that are read together to be replaced, and how many are scanned for them.
_AT_ONCE = 200
_LOOKED_AT = 500
# Longer, because such rows are opened and sealed.
_ROWS_PAUSE_MAX_S = 0.5

# Does at most so many rows in one transaction, and returns how many it did.
Piece = Callable[[Transaction, int], Awaitable[int]]
Columns = ReadOnlyColumnCollection[str, ColumnElement[Any]]
Wanted = Callable[[Columns], Sequence[ColumnElement[Any]]]
IsChosen = Callable[[Columns], ColumnElement[bool]]


def delete_oldest(table: Table, time: Column[int], *conditions: ColumnElement[bool]) -> Query:
    """Deletes at most `most` rows whose time is not after `until`, the oldest first. Skips locked
    rows: the next sweep deletes them."""

    def statement() -> Delete:
        key = tuple(table.primary_key)
        oldest = (
            select(*key)
            .where(*conditions, time <= bindparam("until", type_=BigInteger))
            .order_by(time)
            .limit(bindparam("most", type_=Integer))
            .with_for_update(skip_locked=True)
        )
        return table.delete().where(tuple_(*key).in_(oldest) if key[1:] else key[0].in_(oldest))

    return Query(statement)


def delete_first(
    table: Table,
    is_old: ColumnElement[bool],
    *of: ColumnElement[bool],
    order: Column[int] | None = None,
) -> Delete:
    """Deletes at most `most` old rows, the first by a column or by the key."""
    key = tuple(table.primary_key)
    by = key if order is None else (order,)
    some = select(*key).where(*of, is_old).order_by(*by).limit(bindparam("most", type_=Integer))
    # Repeated, so that the query skips months which are not old.
    return table.delete().where(tuple_(*key).in_(some), is_old)


class PieceBudget:
    """How many rows one run may still do, in full pieces; the rest is left to the next run."""

    def __init__(self, pieces: int) -> None:
        self._rows_left = pieces * PIECE
        self._piece = PIECE

    @property
    def is_spent(self) -> bool:
        return self._rows_left <= 0

    async def spend(self, database: Database, work: Piece) -> int:
        """Does pieces until one is not full or the budget is spent; returns how many rows."""
        rows = 0
        while not self.is_spent:
            async with _paces.setdefault(database, asyncio.Lock()):
                asked = self._piece
                self._rows_left -= asked
                piece = _Piece(work, asked)
                done = await database.write(piece)
                rows += done
                if done < asked:
                    break
                # Without the wait for other writers, which says nothing about the piece's size.
                await self._leave_time(perf_counter() - piece.began_s)
        return rows

    async def sweep(self, database: Database, query: Query, **values: object) -> int:
        """Removes rows by a query from `delete_oldest`; returns how many."""

        async def remove(transaction: Transaction, most: int) -> int:
            async with transaction.with_new_plan():
                return await transaction.execute(query, **values, most=most)

        return await self.spend(database, remove)

    async def _leave_time(self, took_s: float) -> None:
        if took_s > _PIECE_S:
            self._piece = max(min(_PIECE_MIN, PIECE), self._piece // 2)
        elif took_s < _PIECE_S / 2:
            self._piece = min(PIECE, self._piece * 2)
        await asyncio.sleep(min(_PAUSE_FACTOR * took_s, _PAUSE_MAX_S))


class _Piece:
    """One piece, and when its transaction began."""

    def __init__(self, work: Piece, most: int) -> None:
        self._work = work
        self._most = most
        self.began_s = 0.0

    async def __call__(self, transaction: Transaction) -> int:
        self.began_s = perf_counter()
        return await self._work(transaction, self._most)


# Held during a piece and the pause after it.
_paces: WeakKeyDictionary[Database, asyncio.Lock] = WeakKeyDictionary()


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
                await asyncio.sleep(min(perf_counter() - began_s, _ROWS_PAUSE_MAX_S))
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
    await asyncio.sleep(min(_PAUSE_FACTOR * (perf_counter() - began_s), _ROWS_PAUSE_MAX_S))
    return count
