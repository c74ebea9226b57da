"""What many ask for at the same time, and all get from one attempt."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """One attempt at a time, shared by all who ask meanwhile. Nothing is remembered: whoever asks
    after its end begins another."""

    def __init__(self, attempt: Callable[[], Awaitable[T]]) -> None:
        self._attempt = attempt
        self._under_way: asyncio.Future[T] | None = None

    async def __call__(self) -> T:
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.ensure_future(self._attempt())
        # Shielded: one who goes away must not end it for the others.
        return await asyncio.shield(self._under_way)
