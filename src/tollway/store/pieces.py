"""Long work in small pieces, each in a commit of its own, so that paid calls wait for one piece at
most.

A piece takes hardly longer than a commit of charges: one that took longer is followed by a smaller
one. And after each there is a pause of the same length, so that half of the time is left to calls.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter

from tollway.store.database import Database, Transaction

# Rows per commit, at most and at least.
PIECE = 500
_PIECE_MIN = 25
_PIECE_S = 0.005
_PAUSE_MAX_S = 0.1

# Does at most so many rows in one transaction, and returns how many it did.
Piece = Callable[[Transaction, int], Awaitable[int]]


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
            asked = self._piece
            self._rows_left -= asked
            began_s = perf_counter()
            done = await database.write(partial(_piece, work, asked))
            rows += done
            if done < asked:
                break
            await self._leave_time(perf_counter() - began_s)
        return rows

    async def _leave_time(self, took_s: float) -> None:
        if took_s > _PIECE_S:
            self._piece = max(min(_PIECE_MIN, PIECE), self._piece // 2)
        elif took_s < _PIECE_S / 2:
            self._piece = min(PIECE, self._piece * 2)
        await asyncio.sleep(min(took_s, _PAUSE_MAX_S))


async def _piece(work: Piece, most: int, transaction: Transaction) -> int:
    return await work(transaction, most)
