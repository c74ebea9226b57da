"""The shared database: reads and writes on the connections of a pool.

Every wait is bounded. A task that gets no free connection in time gets StoreBusyError, and
StoreUnavailableError if no server answers. Once a server is back, the next call connects again.

When one connection is lost, all others are replaced when they are next needed: they may lead to a
host that no longer takes writes.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from time import monotonic, perf_counter
from typing import Any, NamedTuple, TypeVar

from tollway.store.concurrency import BoundedSlots
from tollway.store.database import (
    CommitUnknownError,
    Row,
    StoreError,
    StoreUnavailableError,
    Timings,
    Transaction,
)
from tollway.store.postgresql.change_listener import ChangeListener
from tollway.store.postgresql.errors import (
    ConflictError,
    ServerDiskFullError,
    StatementCancelledError,
    StatementUndoneError,
    our_errors,
)
from tollway.store.postgresql.hosts import Connection, Hosts
from tollway.store.postgresql.joint_reads import JointReads
from tollway.store.postgresql.pool import Pool
from tollway.store.postgresql.revision import revision_of, unfinished_move_of, upgrade
from tollway.store.postgresql.transaction import (
    PostgresqlTransaction,
    fetch,
    undo,
    waited_for,
)
from tollway.store.query import JointQuery, Query

CONNECTIONS_MAX = 10
# Long reads leave most of the connections to other reads.
_LONG_READS_MAX = 2
# Reads leave these to writes: three for charging, one for pushes, one for all the rest.
_KEPT_FOR_WRITES = 5
_WAIT_FOR_CONNECTION_S = 1.0
# What share of a call's time a statement for many calls may take; then each is retried alone.
_TOGETHER_SHARE = 0.25
# How long a server counts as full after a write that it had no space for.
_FULL_S = 10.0
_MORE_TRIES = 8
_TRY_AGAIN_AFTER_S = 0.005

logger = logging.getLogger("tollway.store")
T = TypeVar("T")


class ConnectionUse(NamedTuple):
    """How many connections are in use and idle, how many tasks wait for one, and how many
    connections the server refused."""

    in_use: int
    idle: int
    waiting: int
    refused: int


def _report_unseen(task: asyncio.Task[Any]) -> None:
    """Logs the error of a write whose caller no longer waits; an outage shows elsewhere."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, StoreError):
        logger.error("a write failed after its caller stopped waiting", exc_info=error)


class PostgresqlDatabase:
    """A PostgreSQL database; its connections are made when they are needed."""

    dialect = "postgresql"
    is_shared = True
    row_at_once = None

    def __init__(
        self,
        url: str,
        call_timeout_s: float | None,
        metrics: Timings,
        *,
        connections: int = CONNECTIONS_MAX,
        session: str = "read-write",
    ) -> None:
        self._hosts = Hosts(url, call_timeout_s, session)
        self._patience_s = self._hosts.timeout_s + _WAIT_FOR_CONNECTION_S
        self._pool = Pool(self._hosts.connect, connections, self._patience_s)
        self._hosts.on_move = self._move
        self._changes = ChangeListener(self._hosts, self._pool.abandon)
        self.change_mark = self.record_mark = self._changes.mark
        self._rivals = asyncio.Lock()
        # Nothing is written to a replica.
        kept = 0 if session == "any" else min(_KEPT_FOR_WRITES, connections // 2)
        self._reads = BoundedSlots(connections - kept, "all connections for reads are in use")
        self._call_timeout_s = call_timeout_s
        together_s = None if call_timeout_s is None else call_timeout_s * _TOGETHER_SHARE
        self._joint_reads = JointReads(self._send_read, together_s)
        self._long_reads = BoundedSlots(
            max(1, min(_LONG_READS_MAX, connections - kept - 1)), "other long reads take their time"
        )
        self._writes: set[asyncio.Task[Any]] = set()
        self._metrics = metrics
        self._full_at_s = float("-inf")

    def check_connections(self, check: Callable[[Connection], Awaitable[None]]) -> None:
        """From now on, only connections that pass a check are used."""
        self._hosts.check = check

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        return await self._read(query, values)

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        rows = await self._read(query, values)
        return rows[0] if rows else None

    async def fetch_long(
        self, query: Query, caller: str | None = None, /, **values: object
    ) -> Sequence[Row]:
        async with self._long_reads.taken(self._call_timeout_s, by=caller):
            return await self._read(query, values)

    async def _read(self, query: Query, values: Mapping[str, object]) -> list[Row]:
        if isinstance(query, JointQuery) and query.is_shared(values):
            return await self._joint_reads.read(query, values)
        compiled = query.postgresql
        return await self._send_read(compiled.text, compiled.arguments(values))

    async def _send_read(
        self, text: str, arguments: tuple[object, ...], within_s: float | None = None
    ) -> list[Row]:
        began_s = perf_counter()
        await self._reads.take(self._patience_s)
        try:
            async with self._session() as session:
                with our_errors():
                    if within_s is None:
                        rows = await fetch(session, text, arguments)
                    else:
                        rows = await _fetch_within(within_s, session, text, arguments)
        finally:
            self._reads.leave()
        self._metrics.read(perf_counter() - began_s)
        return rows

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        return await self._to_its_end(partial(self._commit, work))

    async def write_statement(self, query: Query, **values: object) -> Sequence[Row]:
        compiled = query.postgresql
        arguments = compiled.arguments(values)
        return await self._to_its_end(partial(self._run, compiled.text, arguments))

    async def _to_its_end(self, commit: Callable[[], Awaitable[T]]) -> T:
        task = asyncio.create_task(self._write(commit))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        # Shielded: a commit that has begun must finish, because its money may be spent.
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_report_unseen)
            raise

    async def _write(self, commit: Callable[[], Awaitable[T]]) -> T:
        began_s = perf_counter()
        try:
            try:
                return await commit()
            except ConflictError:
                return await self._once_more(commit)
        except ServerDiskFullError:
            self._full_at_s = monotonic()
            raise
        finally:
            self._metrics.wrote(perf_counter() - began_s)

    async def _once_more(self, commit: Callable[[], Awaitable[T]]) -> T:
        """Retries after a conflict with another transaction, a few times at most."""
        # One at a time: two tasks of this process do not conflict with each other again.
        async with self._rivals:
            for attempt in range(1, _MORE_TRIES):
                try:
                    return await commit()
                except ConflictError:
                    await asyncio.sleep(_TRY_AGAIN_AFTER_S * attempt)
            return await commit()

    async def _commit(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        async with self._session() as session:
            try:
                with our_errors():
                    transaction = session.transaction()
                    await transaction.start()
            except BaseException:
                # The commit may have been made, or not.
                session.terminate()
                raise
            worked_in = PostgresqlTransaction(session)
            try:
                result = await work(worked_in)
                if worked_in.has_failed:
                    raise StoreError("a failed statement was ignored")
            except BaseException:
                await undo(session, transaction)
                raise
            try:
                with our_errors():
                    async with waited_for(session):
                        await transaction.commit()
            except StatementUndoneError:
                raise
            except StoreUnavailableError as error:
                raise CommitUnknownError(str(error)) from error
            if worked_in.changes_versions:
                self._changes.note_own()
            return result

    async def _run(self, text: str, arguments: tuple[object, ...]) -> list[Row]:
        async with self._session() as session:
            try:
                with our_errors():
                    async with waited_for(session):
                        return await fetch(session, text, arguments)
            except StatementUndoneError:
                raise
            except StoreUnavailableError as error:
                # The server commits by itself, perhaps just before the connection was lost.
                raise CommitUnknownError(str(error)) from error

    async def close(self) -> None:
        """Finishes the writes that have begun, then closes the connections."""
        await asyncio.gather(*self._writes, return_exceptions=True)
        await self._changes.close()
        await self._pool.close()

    async def make_durable(self) -> None:
        """A killed server does so itself, before it accepts connections."""

    async def schema_revision(self) -> str | None:
        async with self._session() as session:
            return await revision_of(session)

    async def schema_differences(self) -> list[str]:
        return []  # Anyone who can change a server's schema can also change what we would compare.

    async def unfinished_move(self) -> str | None:
        async with self._session() as session:
            return await unfinished_move_of(session)

    async def upgrade(
        self, plan: Callable[[Transaction, str | None], Awaitable[str]]
    ) -> str | None:
        async with self._session() as session:
            return await upgrade(session, plan)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Connection]:
        """A connection for this task alone."""
        async with self._pool.session() as session:
            try:
                with _closed_is_lost(session):
                    yield session
            except StatementUndoneError:
                raise
            except StoreUnavailableError:
                # The connection is lost, or its host no longer takes writes. The same may be true
                # of all others that are not newer.
                is_news = self._pool.is_current(session)
                session.terminate()
                if is_news:
                    self._pool.renew()
                    self._changes.renew()
                raise

    def connection_use(self) -> ConnectionUse:
        waiting = self._pool.waiting + self._reads.waiting
        return ConnectionUse(self._pool.in_use, self._pool.idle, waiting, self._hosts.refused)

    @property
    def is_crowded(self) -> bool:
        """Whether connections are short: all are in use and tasks wait for more, or the server has
        just refused another one."""
        return self._hosts.is_crowded or (self._pool.is_full and self._pool.waiting > 0)

    @property
    def is_full(self) -> bool:
        """Whether the server has just had no space for a write. Another write may still succeed: a
        replaced row can reuse the space of an older one."""
        return monotonic() - self._full_at_s < _FULL_S

    @property
    def is_silent(self) -> bool:
        """Whether every server has just failed to answer a new connection."""
        return self._hosts.is_silent

    def abandon(self) -> None:
        """Closes all connections: no server answers there any more."""
        self._pool.abandon()

    def _move(self, is_silent: bool) -> None:
        """Changes to another host; does not wait for queries on a silent one."""
        if is_silent:
            self._pool.abandon()
        else:
            self._pool.renew()


async def _fetch_within(
    limit_s: float, session: Connection, text: str, arguments: tuple[object, ...]
) -> list[Row]:
    """Cancels a statement that takes longer."""
    try:
        async with asyncio.timeout(limit_s) as limit:
            return await fetch(session, text, arguments)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise StatementCancelledError("a statement for many calls takes too long") from error


@contextmanager
def _closed_is_lost(session: Connection) -> Iterator[None]:
    """The driver raises odd errors for a connection that was closed between two of its steps."""
    try:
        yield
    except AttributeError as error:
        if not session.is_closed():
            raise
        raise StoreUnavailableError("the connection was ended") from error
