"""Long work in small pieces, each in a commit of its own, so that paid calls wait for one piece at
most.

A piece should take hardly longer than a commit of charges: after a slow piece, the next is smaller.
After each comes a pause three times as long, shared by all such work on a database: so calls keep
three quarters of the time, however much there is to do. Each piece waits for the disk: the system
reports a failed write only once, and if a piece missed that report, the charges after it in the log
would be acknowledged although the log has a gap before them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from weakref import WeakKeyDictionary

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Delete,
    Integer,
    Table,
    bindparam,
    select,
    tuple_,
)

from tollway.store.database import Database, Transaction
from tollway.store.query import Query

# Rows per commit, at most and at least.
PIECE = 500
_PIECE_MIN = 100
_PIECE_S = 0.005
PAUSE_FACTOR = 3
_PAUSE_MAX_S = 0.1

# Does at most so many rows in one transaction, and returns how many it did.
Piece = Callable[[Transaction, int], Awaitable[int]]


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
            async with _pace_of(database):
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
        await asyncio.sleep(min(PAUSE_FACTOR * took_s, _PAUSE_MAX_S))


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


def _pace_of(database: Database) -> asyncio.Lock:
    return _paces.setdefault(database, asyncio.Lock())
