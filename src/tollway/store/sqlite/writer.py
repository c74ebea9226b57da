"""The one thread that writes. Every change is a piece of work in a transaction of its own here.

Waiting for the disk, or for a lock that the command line holds, thus never stops the event loop.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from queue import SimpleQueue
from time import perf_counter
from typing import Any, NamedTuple, TypeVar, cast

from tollway.store.database import Row, RowValues, StoreUnavailableError, Timings, Transaction
from tollway.store.query import Query
from tollway.store.sqlite.connection import Connection

T = TypeVar("T")
Work = Callable[[Transaction], Awaitable[T]]


class SqliteTransaction:
    """The transaction that is open on a connection."""

    is_shared = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        return self._connection.fetch_all(query, values)

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        rows = self._connection.fetch_all(query, values)
        return rows[0] if rows else None

    async def execute(self, query: Query, **values: object) -> int:
        return self._connection.execute(query, values)

    async def execute_many(self, query: Query, rows: Iterable[RowValues]) -> int:
        return self._connection.execute_many(query, rows)

    async def is_alone(self, job: int) -> bool:  # noqa: ARG002 - whichever it is
        return True  # There is one writer at a time, whatever it does.

    async def lock_names(self, names: Iterable[str]) -> None:
        """Every work has its turn for itself already."""

    async def allow_long_statements(self) -> None:
        """Nothing here ends a statement for its length."""

    @asynccontextmanager
    async def with_new_plan(self) -> AsyncIterator[None]:
        yield  # Plans here do not depend on values.

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        self._connection.run("SAVEPOINT part")
        try:
            yield
        except BaseException:
            self._connection.run("ROLLBACK TO part; RELEASE part")
            raise
        self._connection.run("RELEASE part")


class _Task(NamedTuple):
    work: Work[Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class Writer:
    """Owns the writing connection and its thread."""

    def __init__(self, path: str, busy_timeout_ms: int, metrics: Timings) -> None:
        self._connection = Connection(path, busy_timeout_ms)
        # Pages that a long import touches would stay mapped, and its memory grow with the file.
        self._connection.run("PRAGMA mmap_size = 0")
        self._metrics = metrics
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="tollway-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Work[T]) -> T:
        if self._is_closed:
            raise StoreUnavailableError("the database is closed")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._tasks.put(_Task(work, loop, answer))
        # Shielded, because a commit that has begun must be seen to its end: its money is spent.
        return await asyncio.shield(answer)

    def close(self) -> None:
        """Finishes what was handed in, then closes the connection."""
        self._is_closed = True
        self._tasks.put(None)
        self._thread.join()
        self._connection.close()

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            began_s = perf_counter()
            try:
                result = self._commit(task.work)
            except BaseException as error:
                task.loop.call_soon_threadsafe(_fail, task.answer, error)
            else:
                task.loop.call_soon_threadsafe(_succeed, task.answer, result)
            self._metrics.wrote(perf_counter() - began_s)

    def _commit(self, work: Work[T]) -> T:
        self._connection.run("BEGIN IMMEDIATE")
        try:
            result = _drive(work(SqliteTransaction(self._connection)))
            self._connection.run("COMMIT")
        except BaseException:
            if self._connection.raw.in_transaction:
                self._connection.run("ROLLBACK")
            raise
        return result


def _drive(work: Awaitable[T]) -> T:
    """Runs async work that awaits nothing but its transaction, without an event loop."""
    try:
        cast(Coroutine[Any, Any, T], work).send(None)
    except StopIteration as finished:
        return cast(T, finished.value)
    raise RuntimeError("work in a transaction awaited something other than its transaction")


def _succeed(answer: asyncio.Future[Any], result: object) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: asyncio.Future[Any], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
