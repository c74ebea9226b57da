"""A database that is filled when somebody asks it for something."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tollway.store.database import Database, Row, Transaction
from tollway.store.query import Query

T = TypeVar("T")


class OnDemandDatabase:
    """Whoever needs it before it is current waits until it is; all who wait share one filling.

    While it is filled, nobody else uses the database behind it.
    """

    def __init__(
        self,
        inner: Database,
        is_current: Callable[[], bool],
        fill: Callable[[], Awaitable[None]],
    ) -> None:
        self.dialect = inner.dialect
        self.is_shared = inner.is_shared
        self.change_mark = inner.change_mark
        self._inner = inner
        self._is_current = is_current
        self._fill = fill
        self._filling: asyncio.Future[None] | None = None

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        await self._ready()
        return await self._inner.fetch_all(query, **values)

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        await self._ready()
        return await self._inner.fetch_one(query, **values)

    async def fetch_long(
        self, query: Query, caller: str | None = None, /, **values: object
    ) -> Sequence[Row]:
        await self._ready()
        return await self._inner.fetch_long(query, caller, **values)

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        await self._ready()
        return await self._inner.write(work)

    async def write_at_once(self, query: Query, **values: object) -> Sequence[Row]:
        await self._ready()
        return await self._inner.write_at_once(query, **values)

    async def close(self) -> None:
        if self._filling is not None:
            await asyncio.gather(self._filling, return_exceptions=True)
        await self._inner.close()

    async def _ready(self) -> None:
        if self._filling is None and self._is_current():
            return
        if self._filling is None:
            self._filling = asyncio.ensure_future(self._fill())
            self._filling.add_done_callback(self._is_done)
        # Shielded: a caller that goes away must not end it for the others.
        await asyncio.shield(self._filling)

    def _is_done(self, _: asyncio.Future[None]) -> None:
        # If it failed, the next one who comes tries again.
        self._filling = None
