"""Every row of a selection read and replaced, a few hundred at a time, beside the traffic.

Each row is replaced only if it is still the one that was read, so that several processes can do the
same work at once, and one that was killed can do it again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from time import perf_counter

from sqlalchemy import Integer, Select, bindparam, tuple_

from tollway.store.database import Database, Row, Transaction
from tollway.store.pieces import PAUSE_FACTOR
from tollway.store.query import Query

_AT_ONCE = 200
# Such a piece takes longer than one of `pieces.py`: its rows are opened and sealed.
_PAUSE_MAX_S = 0.5


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


async def _nothing_more(_transaction: Transaction, _count: int) -> None:
    pass


async def replace_rows(
    database: Database,
    replace: Query,
    make: Callable[[Sequence[Row]], list[Row]],
    rows: Sequence[Row],
    note: Callable[[Transaction, int], Awaitable[None]] = _nothing_more,
) -> int:
    """Replaces a piece by what is made of it, notes how many in the same commit, and leaves three
    quarters of the time to calls. Returns how many were still as they had been read."""
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
