"""Limits on concurrency: slots with a bounded wait, fair queues, and shared attempts (single
flight). Also runs async work that never has to wait, without a task."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from tollway.store.database import Database, StoreBusyError


class BoundedSlots:
    """A number of slots; each named user holds at most one at a time.

    A user that wants a second slot waits for its own first one and delays no other user, so the
    user that asks most often gets no more than the rest.
    """

    def __init__(self, number: int, busy: str) -> None:
        self._free = asyncio.Semaphore(number)
        self._busy = busy
        # Tasks that wait in `take`.
        self.waiting = 0
        # A lock is dropped with the last task that waits for it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def take(self, patience_s: float | None) -> None:
        """Takes a slot, to be given back by `leave`; fails if none is free in time."""
        if not self._free.locked():
            # Skips the timer, which would take longer than all the rest.
            await self._free.acquire()
            return
        self.waiting += 1
        try:
            async with asyncio.timeout(patience_s):
                await self._free.acquire()
        except TimeoutError as error:
            raise StoreBusyError(self._busy) from error
        finally:
            self.waiting -= 1

    def leave(self) -> None:
        self._free.release()

    @asynccontextmanager
    async def taken(self, patience_s: float | None, by: str | None = None) -> AsyncIterator[None]:
        """Holds a slot in its block; fails if none is free in time."""
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(patience_s):
                    if by is not None:
                        lock = self._locks.setdefault(by, asyncio.Lock())
                        await held.enter_async_context(lock)
                    await held.enter_async_context(self._free)
            except TimeoutError as error:
                raise StoreBusyError(self._busy) from error
            yield


K = TypeVar("K")
T = TypeVar("T")

# How long an attempt usually takes at most.
_PATIENCE_S = 0.25


class TurnQueue(Generic[T]):
    """A queue in which named users take turns: a user that adds a thousand items delays every
    other user by only one of them."""

    def __init__(self) -> None:
        self._by_name: dict[str, deque[T]] = {}
        # Whose turn is next; each name once.
        self._names: deque[str] = deque()

    def __bool__(self) -> bool:
        return bool(self._names)

    def has_others(self, name: str) -> bool:
        """Whether items of other users wait."""
        return len(self._by_name) > (name in self._by_name)

    def add(self, name: str, item: T) -> None:
        own = self._by_name.get(name)
        if own is None:
            own = self._by_name[name] = deque()
            self._names.append(name)
        own.append(item)

    def take(self) -> T:
        name = self._names.popleft()
        own = self._by_name[name]
        item = own.popleft()
        if own:
            self._names.append(name)
        else:
            del self._by_name[name]
        return item

    def discard(self, name: str, item: T) -> None:
        """Removes an item before its turn, if it is still there."""
        own = self._by_name.get(name)
        if own is None or item not in own:
            return
        own.remove(item)
        if not own:
            del self._by_name[name]
            self._names.remove(name)


class TurnSlots:
    """A number of slots, for which named users wait in turns."""

    def __init__(self, number: int, busy: str) -> None:
        self._free = number
        self._busy = busy
        self._waiting: TurnQueue[asyncio.Future[None]] = TurnQueue()

    async def take(self, patience_s: float | None, by: str) -> None:
        """Takes a slot, to be given back by `leave`; fails if none is free in time."""
        if self._free:
            self._free -= 1
            return
        given = asyncio.get_running_loop().create_future()
        self._waiting.add(by, given)
        try:
            async with asyncio.timeout(patience_s):
                await given
        except BaseException as error:
            if given.cancelled():
                self._waiting.discard(by, given)
            else:
                # The slot was granted just as its user gave up: pass it on.
                self.leave()
            if isinstance(error, TimeoutError):
                raise StoreBusyError(self._busy) from error
            raise

    def others_wait(self, by: str) -> bool:
        return self._waiting.has_others(by)

    @asynccontextmanager
    async def taken(self, patience_s: float | None, by: str) -> AsyncIterator[None]:
        """Holds a slot in its block; fails if none is free in time."""
        await self.take(patience_s, by)
        try:
            yield
        finally:
            self.leave()

    def leave(self) -> None:
        while self._waiting:
            given = self._waiting.take()
            if not given.cancelled():
                given.set_result(None)
                return
        self._free += 1


class SingleFlight(Generic[T]):
    """One attempt at a time, shared by all tasks that ask meanwhile. Nothing is cached: the first
    request after an attempt ends starts another."""

    def __init__(self, attempt: Callable[[], Awaitable[T]]) -> None:
        self._attempt = attempt
        self._under_way: asyncio.Future[T] | None = None

    async def __call__(self) -> T:
        if self._under_way is None or self._under_way.done():
            self._under_way = asyncio.ensure_future(self._attempt())
        # Shielded: a cancelled task must not end it for the others.
        return await asyncio.shield(self._under_way)


class NextFlights(Generic[K, T]):
    """Attempts by key, one per key at a time. A task gets the result of the next attempt to start,
    and shares it with every task that asks before that start: so no task gets a result that was
    read before it asked. An attempt that takes longer than `patience_s` may hang: the next does not
    wait for it any more."""

    def __init__(
        self, attempt: Callable[[K], Awaitable[T]], patience_s: float = _PATIENCE_S
    ) -> None:
        self._attempt = attempt
        self._patience_s = patience_s
        self._next: dict[K, asyncio.Task[T]] = {}
        self._under_way: dict[K, asyncio.Task[T]] = {}

    async def __call__(self, key: K) -> T:
        following = self._next.get(key)
        if following is None:
            following = self._next[key] = asyncio.create_task(self._fly(key))
        # Shielded: a cancelled task must not end it for the others.
        return await asyncio.shield(following)

    async def _fly(self, key: K) -> T:
        under_way = self._under_way.get(key)
        if under_way is not None:
            await asyncio.wait((under_way,), timeout=self._patience_s)
        own = self._under_way[key] = self._next.pop(key)
        try:
            return await self._attempt(key)
        finally:
            if self._under_way.get(key) is own:
                del self._under_way[key]


def run_at_once(work: Awaitable[T]) -> T:
    """Runs async work that never has to wait, without a task: reads of an embedded database, and
    work in its transactions."""
    running: Any = work
    try:
        running.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    running.close()
    raise RuntimeError("work that must not wait awaited something")


def read_at_once(database: Database, work: Awaitable[T]) -> T | Awaitable[T]:
    """Runs work that awaits only reads of a database, if those never wait; otherwise returns the
    work to be awaited."""
    return work if database.row_at_once is None else run_at_once(work)
