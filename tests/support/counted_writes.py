"""A database that counts its write transactions, and can fail them."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tollway.store.database import Database, StoreUnavailableError, Transaction

T = TypeVar("T")


class CountedWrites:
    """Passes everything on; fails from the write `fails_from` on."""

    def __init__(self, inner: Database, fails_from: int | None = None) -> None:
        self._inner = inner
        self._fails_from = fails_from
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        self.writes += 1
        if self._fails_from is not None and self.writes >= self._fails_from:
            raise StoreUnavailableError("cut off by the test")
        return await self._inner.write(work)
