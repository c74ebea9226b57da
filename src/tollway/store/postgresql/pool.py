"""The pool of connections to PostgreSQL: made when they are needed, and used again.

The driver has a pool too, but a short read spent more time in that pool than in the read: it runs
a task to reset every returned connection. Our code sets nothing on a connection that is in use, so
returning one costs nothing.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

from sqlalchemy import select, text

from tollway.store.database import Reader, StoreCrowdedError, StoreUnavailableError
from tollway.store.postgresql.errors import ServerFullError
from tollway.store.postgresql.hosts import Connection
from tollway.store.query import Query
from tollway.store.serving_nodes import count_serving

# Connections of the busiest minute are not kept for the rest of the day.
_IDLE_S = 300.0
# How soon to ask again a server that refused more connections.
_ASK_SERVER_AGAIN_S = 0.2
# Bounds the memory of a server process, which caches everything it ever looked at.
_LIFE_S = 3600.0


@dataclass(slots=True, eq=False)
class _Member:
    connection: Connection
    generation: int
    made_at_s: float
    free_since_s: float


class Pool:
    """At most `size` connections; a task that wants one more waits, for a bounded time."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        size: int,
        patience_s: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._connect = connect
        self._size = size
        self._patience_s = patience_s
        self._clock = clock
        self._slots = asyncio.Semaphore(size)
        # Last in, first out, so that idle connections can expire.
        self._free: list[_Member] = []
        self._members: set[_Member] = set()
        self._generation = 0
        self._is_closed = False
        # Tasks that wait for a connection to be returned, or to be made.
        self.waiting = 0
        # Waiting tasks that hold a slot while the server refuses more connections.
        self._for_next: deque[asyncio.Future[_Member]] = deque()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Connection]:
        """A connection for this task alone."""
        member = await self._take()
        try:
            yield member.connection
        finally:
            self._give_back(member)

    def renew(self) -> None:
        """From now on, only newly made connections are used."""
        self._generation += 1
        while self._free:
            self._drop(self._free.pop())

    def abandon(self) -> None:
        """Closes the connections in use too: tasks that wait for an answer there get an error."""
        self.renew()
        for member in self._members:
            member.connection.terminate()

    def is_current(self, connection: Connection) -> bool:
        """Whether a connection was made since the last renewal."""
        return any(
            member.connection is connection and member.generation == self._generation
            for member in self._members
        )

    @property
    def in_use(self) -> int:
        return len(self._members) - len(self._free)

    @property
    def idle(self) -> int:
        return len(self._free)

    @property
    def is_full(self) -> bool:
        """Whether all connections that it may have are in use."""
        return self.in_use >= self._size

    async def close(self) -> None:
        """Waits until all are returned, for a bounded time."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            async with asyncio.timeout(self._patience_s):
                for _ in range(self._size):
                    await self._slots.acquire()
                closing = [member.connection.close() for member in self._free]
                await asyncio.gather(*closing, return_exceptions=True)
        except TimeoutError:
            for member in self._members:
                member.connection.terminate()

    async def _take(self) -> _Member:
        if self._is_closed:
            raise StoreUnavailableError("the database is closed")
        if not self._slots.locked() and (member := self._free_member()) is not None:
            await self._slots.acquire()
            return member
        self.waiting += 1
        try:
            async with asyncio.timeout(self._patience_s):
                await self._slots.acquire()
                try:
                    return self._free_member() or await self._member()
                except BaseException:
                    self._slots.release()
                    raise
        except TimeoutError as error:
            raise StoreCrowdedError("all connections to the database are in use") from error
        finally:
            self.waiting -= 1

    def _free_member(self) -> _Member | None:
        while self._free:
            member = self._free.pop()
            if self._is_good(member):
                return member
            self._drop(member)
        return None

    def _is_good(self, member: _Member) -> bool:
        return member.generation == self._generation and not member.connection.is_closed()

    async def _member(self) -> _Member:
        """For a task that holds a slot: a new connection, or the next one returned if the server
        refuses more."""
        while True:
            generation = self._generation
            try:
                connection = await self._connect()
            except ServerFullError:
                if not self._members:
                    raise
                returned = self._free_member() or await self._next_returned()
                if returned is None:
                    continue
                # The pool may have been renewed since its return.
                if self._is_good(returned):
                    return returned
                self._drop(returned)
            else:
                now_s = self._clock()
                member = _Member(connection, generation, now_s, now_s)
                self._members.add(member)
                return member

    async def _next_returned(self) -> _Member | None:
        """The next returned connection; None if none is returned soon, and the server may have a
        free one by then."""
        coming: asyncio.Future[_Member] = asyncio.get_running_loop().create_future()
        self._for_next.append(coming)
        try:
            done, _ = await asyncio.wait([coming], timeout=_ASK_SERVER_AGAIN_S)
            return coming.result() if done else None
        except asyncio.CancelledError:
            if coming.done():
                self._pass_on(coming.result())
            raise
        finally:
            if not coming.done():
                self._for_next.remove(coming)

    def _pass_on(self, member: _Member) -> None:
        """Gives a connection to the task that waits longest for one, or keeps it for the next."""
        if self._for_next:
            self._for_next.popleft().set_result(member)
        else:
            self._free.append(member)

    def _give_back(self, member: _Member) -> None:
        now_s, connection = self._clock(), member.connection
        if (
            not self._is_good(member)
            or connection.is_in_transaction()
            or now_s - member.made_at_s > _LIFE_S
        ):
            self._drop(member)
        else:
            member.free_since_s = now_s
            self._pass_on(member)
        if self._free and now_s - self._free[0].free_since_s > _IDLE_S:
            self._drop(self._free.pop(0))
        self._slots.release()

    def _drop(self, member: _Member) -> None:
        self._members.discard(member)
        member.connection.terminate()


# Besides its pool, each process has one connection that listens for changes.
_LISTENING = 1
# For commands, backups and standbys.
_FOR_OTHERS = 20
# reserved_connections is known only from PostgreSQL 16 on.
_ALLOWED = Query(
    lambda: select(
        text(
            "current_setting('max_connections')::integer"
            " - current_setting('superuser_reserved_connections')::integer"
            " - coalesce(current_setting('reserved_connections', true)::integer, 0)"
        ),
        text("(SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user)"),
        text(
            "(SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database())"
        ),
    )
)


async def crowding(reader: Reader, processes: int, connections: int, own_ms: int) -> list[str]:
    """A sentence if the server may run out of connections once these processes serve as well, each
    with a pool of so many; the processes that serve already are assumed to have as many."""
    if not reader.is_shared:
        return []
    ((by_server, by_role, by_database),) = await reader.fetch_all(_ALLOWED)
    allowed = min(limit for limit in (by_server, by_role, by_database) if limit is not None)
    processes += await count_serving(reader, own_ms)
    needed = processes * (connections + _LISTENING)
    if needed <= allowed:
        return []
    return [
        f"PostgreSQL allows {allowed} connections here, and the {processes} processes that serve "
        f"may open {needed}: let it allow {needed + _FOR_OTHERS} (max_connections, and CONNECTION "
        "LIMIT of the role and the database), or set database_connections lower on every node."
    ]
