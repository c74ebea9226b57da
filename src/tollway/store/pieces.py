"""Long work in small pieces, each in a commit of its own, so that paid calls wait for one piece at
most."""

from collections.abc import Awaitable, Callable
from functools import partial

from tollway.store.database import Database, Transaction

# Rows per commit.
PIECE = 500

# Does at most so many rows in one transaction, and returns how many it did.
Piece = Callable[[Transaction, int], Awaitable[int]]


class PieceBudget:
    """How many pieces one run may still do; the rest is left to the next run."""

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces

    async def spend(self, database: Database, work: Piece) -> int:
        """Does pieces until one is not full or the budget is spent; returns how many rows."""
        rows = 0
        while self.pieces > 0:
            self.pieces -= 1
            done = await database.write(partial(_piece, work))
            rows += done
            if done < PIECE:
                break
        return rows


async def _piece(work: Piece, transaction: Transaction) -> int:
    return await work(transaction, PIECE)
