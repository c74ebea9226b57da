"""The writer thread, which runs every piece of work that writes, each in its own transaction.

So waiting for the disk, or for a lock that a command holds, never blocks the event loop.
"""

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Any, NamedTuple, TypeVar, TypeVarTuple

import apsw
from sqlalchemy import Table

from tollway.store.concurrency import run_at_once
from tollway.store.database import (
    CommitUnknownError,
    Row,
    RowValues,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
    Timings,
    Transaction,
)
from tollway.store.many_rows import ManyRows, Rows, inserts
from tollway.store.query import Query
from tollway.store.sqlite.change_watch import ChangeWatch
from tollway.store.sqlite.connection import Connection
from tollway.store.sqlite.files import WriteLock
from tollway.store.sqlite.write_ahead_log import (
    LogWriteBack,
    bytes_of_frames,
    frames_of_log,
    rewrite_log,
)

logger = logging.getLogger("tollway.store")
T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
Work = Callable[[Transaction], Awaitable[T]]


class SqliteTransaction:
    """The transaction that is open on a connection.

    Some errors make SQLite roll back the whole transaction, and every later statement would then
    commit by itself. Others may leave half of a statement. So after an error of the store nothing
    more is run, and nothing is committed.
    """

    is_shared = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._failure: StoreError | None = None
        self.keeps_records = self.changes_versions = False

    def check(self) -> None:
        """Fails if what was done so far must not be committed."""
        if self._failure is not None:
            raise self._failure
        if not self._connection.is_in_transaction:
            raise StoreUnavailableError("the database has undone the transaction")

    def _run(self, statement: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        self.check()
        try:
            return statement(*arguments)
        except StoreError as error:
            self._failure = error
            raise

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        return self._run(self._connection.fetch_all, query, values)

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        rows = self._run(self._connection.fetch_all, query, values)
        return rows[0] if rows else None

    async def execute(self, query: Query, **values: object) -> int:
        return self._run(self._connection.execute, query, values)

    async def execute_many(self, query: Query, rows: Iterable[RowValues]) -> int:
        return self._run(self._connection.execute_many, query, rows)

    async def insert_rows(self, table: Table, rows: Rows) -> None:
        self._run(self._connection.put_rows, inserts(table), rows)

    async def put_rows(self, query: ManyRows, rows: Sequence[tuple[Any, ...]]) -> int:
        return self._run(self._connection.put_rows, query, rows)

    async def is_alone(self, job: int) -> bool:  # noqa: ARG002 - whichever it is
        return True  # There is only one writer at a time.

    async def lock_names(self, names: Iterable[str]) -> None:
        """Nothing to do: all writes are serialised already."""

    async def allow_long_statements(self) -> None:
        """Nothing to do: statements have no time limit here."""

    @asynccontextmanager
    async def with_new_plan(self) -> AsyncIterator[None]:
        yield  # Plans here do not depend on values.

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        self._run(self._connection.run, "SAVEPOINT part")
        try:
            yield
        except BaseException:
            self._run(self._connection.run, "ROLLBACK TO part; RELEASE part")
            raise
        self._run(self._connection.run, "RELEASE part")

    @asynccontextmanager
    async def first_part(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            # Nothing else is undone, and nothing that was read before must still hold.
            self._run(self._connection.run, "ROLLBACK; BEGIN IMMEDIATE")
            raise


class _Task(NamedTuple):
    work: Work[Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
    # Taken once: by the thread that begins the task, or by the one that gives it up.
    decided: threading.Lock

    def begins(self) -> bool:
        """Whether the task has not been given up; from then on it cannot be."""
        return self.decided.acquire(blocking=False)

    def give_up(self) -> None:
        if self.decided.acquire(blocking=False):
            _fail(self.answer, StoreBusyError("other work takes too long"))


class _Checkpoint(NamedTuple):
    """A checkpoint that another thread asked for and waits for."""

    done: concurrent.futures.Future[None]


class Writer:
    """Owns the writing connection and its thread."""

    def __init__(
        self,
        path: str,
        busy_timeout_ms: int,
        metrics: Timings,
        write_lock: WriteLock | None = None,
        changes: ChangeWatch | None = None,
        *,
        is_unfinished: bool = False,
        may_vanish: bool = False,
        is_brief: bool = False,
    ) -> None:
        self._path = path
        self._may_vanish = may_vanish
        self._changes = changes
        self._is_unfinished = is_unfinished
        self._write_lock = write_lock
        self._busy_timeout_ms = busy_timeout_ms
        self._connection: Connection | None = None
        if not is_brief:
            self._connected()
        self._metrics = metrics
        self._write_back = LogWriteBack(partial(Connection, path, busy_timeout_ms))
        self._tasks: SimpleQueue[_Task | _Checkpoint | None] = SimpleQueue()
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="tollway-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Work[T]) -> T:
        if self._is_closed:
            raise StoreUnavailableError("the database is closed")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        # Otherwise asyncio reports a failure as never retrieved if its caller no longer waits.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        task = _Task(work, loop, answer, threading.Lock())
        self._tasks.put(task)
        # A timeout, because the work ahead may itself wait as long for another process, and a
        # worker that hangs while it holds the lock would block this one forever.
        patience = loop.call_later(self._busy_timeout_ms / 1000, task.give_up)
        try:
            # Shielded, because a commit that has begun must finish: its money is spent.
            return await asyncio.shield(answer)
        finally:
            patience.cancel()

    async def rewrite_log(self) -> None:
        """Makes durable what is in the log now."""
        changes = self._changes
        if changes is None:
            return

        async def work(_: Transaction) -> None:
            rewrite_log(self._connected(), self._path, changes.log_frames())

        await self.write(work)

    def checkpoint(self) -> None:
        """Checkpoints the whole log and truncates it, between two pieces of work. Blocks, so call
        it in a thread."""
        if self._is_closed:
            return
        asked = _Checkpoint(concurrent.futures.Future())
        self._tasks.put(asked)
        try:
            asked.done.result(timeout=2 * self._busy_timeout_ms / 1000)
        except TimeoutError:
            raise StoreBusyError("the writer has other work") from None

    def close(self) -> None:
        """Finishes the queued work, then closes the connection."""
        self._is_closed = True
        self._tasks.put(None)
        self._thread.join()
        self._write_back.wait()
        self._disconnect()
        if self._write_lock is not None:
            self._write_lock.close()

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                if isinstance(task, _Checkpoint):
                    self._checkpoint(task)
                else:
                    self._do(task)
            except Exception:
                # Errors of the work itself go to its caller. Whatever this one is: without this
                # thread, nothing would ever be written again.
                logger.exception("the thread that writes goes on after an error")

    def _do(self, task: _Task) -> None:
        began_s = perf_counter()
        try:
            with self._write_lock or nullcontext():
                if not task.begins():
                    return
                result = self._commit(task.work)
        except BaseException as error:
            task.loop.call_soon_threadsafe(_fail, task.answer, error)
        else:
            task.loop.call_soon_threadsafe(_succeed, task.answer, result)
            if self._changes is not None:
                self._write_back.after_commit(self._changes.log_frames())
        self._metrics.wrote(perf_counter() - began_s)

    def _checkpoint(self, asked: _Checkpoint) -> None:
        try:
            with self._write_lock or nullcontext():
                self._connected().checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except BaseException as error:
            asked.done.set_exception(error)
        else:
            asked.done.set_result(None)

    def _commit(self, work: Work[T]) -> T:
        if self._changes is not None and not self._may_vanish:
            # Before reconnecting, which would create a file that is missing.
            self._changes.check_files()
        try:
            connection = self._connected()
            connection.run("BEGIN IMMEDIATE")
            # From here on no other process commits.
            before = None if self._changes is None else self._changes.mark()
            transaction = SqliteTransaction(connection)
            result = run_at_once(work(transaction))
            transaction.check()
        except BaseException as error:
            self._undo(error)
            raise
        try:
            connection.run("COMMIT")
        except BaseException as error:
            self._undo(error)
            if isinstance(error, StoreError | apsw.Error) and self._discard_failed_commit():
                raise
            raise CommitUnknownError(str(error)) from error
        if self._changes is not None and before is not None and transaction.keeps_records:
            self._changes.kept_records(before)
        return result

    def _connected(self) -> Connection:
        if self._connection is None:
            opened = Connection(
                self._path, self._busy_timeout_ms, is_unfinished=self._is_unfinished
            )
            # Mapped pages would stay in memory, so a long import would grow with the file.
            opened.run("PRAGMA mmap_size = 0")
            self._connection = opened
        return self._connection

    def _undo(self, error: BaseException) -> None:
        """Rolls back what is left of a transaction.

        After an error of the store, or if the rollback fails, the connection's page cache may be
        neither the old nor the new state. So the next work gets a new connection; readers keep the
        database open meanwhile.
        """
        connection = self._connection
        if connection is None:
            return
        try:
            if connection.is_in_transaction:
                connection.run("ROLLBACK")
        except (StoreError, apsw.Error):
            self._disconnect()
        else:
            if isinstance(error, StoreError):
                self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.abandon()
            self._connection = None

    def _discard_failed_commit(self) -> bool:
        """Makes sure that a failed commit does not come back; false if that fails too.

        Such a commit is not visible. But all its frames may be in the log, and after a crash SQLite
        would take them for committed. So another commit overwrites them.
        """
        try:
            connection = self._connected()
            version = connection.raw.pragma("user_version")
            if self._log_goes_on(connection):
                # Writing the same value is a commit too.
                connection.run(f"PRAGMA user_version = {version}")
        except Exception:
            # Whatever the error: the frames may still be there.
            self._disconnect()
            return False
        return True

    def _log_goes_on(self, connection: Connection) -> bool:
        """Whether the log file is long enough to hold a frame after the last commit. On a full disk
        it may not be, and then nothing can be written there either."""
        next_ends_at = bytes_of_frames(connection, frames_of_log(connection) + 1)
        return Path(f"{self._path}-wal").stat().st_size >= next_ends_at


def _succeed(answer: asyncio.Future[Any], result: object) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: asyncio.Future[Any], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
