"""Places at what is scarce: taken in the order of asking, and never waited for without an end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from tollway.store.database import StoreBusyError


class Places:
    """A number of places, of which nobody who is named has more than one at a time.

    Who wants a second one waits behind their own first, and not in the way of the others: so
    whoever asks most often gets no more than anybody else.
    """

    def __init__(self, number: int, busy: str) -> None:
        self._free = asyncio.Semaphore(number)
        self._busy = busy
        # Each is forgotten with the last one who waits for it.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def take(self, patience_s: float | None) -> None:
        """Takes a place, to be left by `leave`; fails if none is free in time."""
        if not self._free.locked():
            # Without a timer, which would take longer than all the rest.
            await self._free.acquire()
            return
        try:
            async with asyncio.timeout(patience_s):
                await self._free.acquire()
        except TimeoutError as error:
            raise StoreBusyError(self._busy) from error

    def leave(self) -> None:
        self._free.release()

    @asynccontextmanager
    async def taken(self, patience_s: float | None, by: str | None = None) -> AsyncIterator[None]:
        """Has a place meanwhile; fails if none was free in time."""
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(patience_s):
                    if by is not None:
                        turn = self._turns.setdefault(by, asyncio.Lock())
                        await held.enter_async_context(turn)
                    await held.enter_async_context(self._free)
            except TimeoutError as error:
                raise StoreBusyError(self._busy) from error
            yield
