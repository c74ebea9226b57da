"""The embedded database: one file, read on the event loop, written by one thread."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import apsw

from tollway.store.concurrency import BoundedSlots
from tollway.store.database import (
    Row,
    StoreBusyError,
    StoreError,
    StoreUnavailableError,
    Timings,
    Transaction,
)
from tollway.store.query import Query, RecordQuery, StepsQuery
from tollway.store.sqlite.change_watch import ChangeWatch
from tollway.store.sqlite.connection import Connection, our_errors
from tollway.store.sqlite.files import WriteLock
from tollway.store.sqlite.schema_check import differences, revision_of
from tollway.store.sqlite.writer import SqliteTransaction, Writer

logger = logging.getLogger("tollway.store")

# A longer write-ahead log is written back between two long reads.
_LOG_MAX_BYTES = 128 * 1024 * 1024
# An interrupt between two statements has no effect, so it is repeated.
_INTERRUPT_AGAIN_S = 0.02
_MOMENT_MS = 2000
# How long a snapshot of records is kept: shorter than a checkpoint waits for readers
# (connection.py); and with how long a log none is, well before SQLite checkpoints
# (wal_autocheckpoint).
_HELD_S = 0.15
_LOG_MAX_FRAMES = 12_000

T = TypeVar("T")


class RecordReader:
    """Reads of records, from a snapshot that is kept while only charges are committed.

    After a commit SQLite drops a connection's page cache, and maps the file again. Charges are
    committed all the time, and records seldom change. So the read transaction stays open for many
    reads: until a commit that may have changed records, and only for a short time, since an open
    snapshot holds back checkpoints. Once the log is long, no snapshot is kept.
    """

    def __init__(self, connect: Callable[[], Connection], changes: ChangeWatch) -> None:
        self._connect = connect
        self._changes = changes
        self._connection: Connection | None = None
        # The mark of the open transaction's snapshot; None if none is open.
        self._mark: int | None = None

    def fetch_all(self, query: Query, values: Mapping[str, object]) -> list[Row]:
        # Marked before the read: a commit in between is then noticed the next time.
        mark = self._changes.record_mark()
        if mark != self._mark:
            self._begin(mark)
        try:
            return (self._connection or self.opened()).fetch_all(query, values)
        except StoreError:
            self.end()
            raise

    def opened(self) -> Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _begin(self, mark: int) -> None:
        self.end()
        if self._changes.log_frames() > _LOG_MAX_FRAMES:
            return
        self.opened().run("BEGIN")
        self._mark = mark
        asyncio.get_running_loop().call_later(_HELD_S, self._end_if_still, mark)

    def _end_if_still(self, mark: int) -> None:
        if self._mark == mark:
            self.end()

    def end(self) -> None:
        """Ends the transaction, if one is open."""
        self._mark = None
        if self._connection is not None and self._connection.is_in_transaction:
            self._connection.run("ROLLBACK")

    def close(self) -> None:
        if self._connection is not None:
            self._mark = None
            self._connection.close()


class SqliteDatabase:
    """An open SQLite file."""

    dialect = "sqlite"
    is_shared = False

    def __init__(
        self,
        path: str,
        busy_timeout_s: float,
        metrics: Timings,
        write_lock: WriteLock | None = None,
        *,
        is_unfinished: bool = False,
        may_vanish: bool = False,
        is_brief: bool = False,
    ) -> None:
        """With `is_unfinished`, the file is new and not served, and has no write-ahead log. With
        `may_vanish`, no later process needs it, so writes go on even if the file was deleted. With
        `is_brief`, connections are opened when they are first used: a command needs one or two of
        them, and each reads the whole schema."""
        # For a symlink, SQLite puts its other files beside the target.
        path = str(Path(path).resolve())
        busy_timeout_ms = round(busy_timeout_s * 1000)
        self._connect = partial(Connection, path, busy_timeout_ms, is_unfinished=is_unfinished)
        self._reader = self._connect()
        # One long read at a time, so that they never take a second core.
        self._long_reader = None if is_brief else self._connect()
        self._long_read = threading.Lock()
        self._long_reads = BoundedSlots(1, "another long read takes its time")
        self._patience_s = busy_timeout_s
        self._log = Path(f"{path}-wal")
        self._log_max_bytes = _LOG_MAX_BYTES
        # The first read creates the WAL index.
        self._reader.run("SELECT 1 FROM sqlite_schema LIMIT 1")
        self._changes = None if is_unfinished else ChangeWatch(path)
        self.change_mark: Callable[[], object] = self._changes.mark if self._changes else object
        self.record_mark: Callable[[], object] = self.change_mark
        self._records: RecordReader | None = None
        if self._changes is not None:
            self.record_mark = self._changes.record_mark
            self._records = RecordReader(self._connect, self._changes)
        self._writer = Writer(
            path,
            busy_timeout_ms,
            metrics,
            write_lock,
            self._changes,
            is_unfinished=is_unfinished,
            may_vanish=may_vanish,
            is_brief=is_brief,
        )
        self._metrics = metrics

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        return self._read(query, values)

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        rows = self._read(query, values)
        return rows[0] if rows else None

    def row_at_once(self, query: RecordQuery, values: Mapping[str, object]) -> Row | None:
        began_s = perf_counter()
        rows = (self._records or self._reader).fetch_all(query, values)
        self._metrics.read(perf_counter() - began_s)
        return rows[0] if rows else None

    async def fetch_long(
        self, query: Query, caller: str | None = None, /, **values: object
    ) -> Sequence[Row]:
        # Waits here, not in a thread of the pool: they are few and have other work.
        async with self._long_reads.taken(self._patience_s, by=caller):
            reading = asyncio.ensure_future(asyncio.to_thread(self._read_long, query, values))
            try:
                return await asyncio.shield(reading)
            except asyncio.CancelledError:
                # No call waits for the rows. The read keeps its slot until its thread is free.
                while not reading.done():
                    self._interrupt()
                    await asyncio.wait((reading,), timeout=_INTERRUPT_AGAIN_S)
                reading.exception()  # Otherwise asyncio reports it as never retrieved.
                raise

    def _read_long(self, query: Query, values: Mapping[str, object]) -> list[Row]:
        with self._long_read:
            if self._long_reader is None:
                if self._changes is not None:
                    # Opening would create a file that is missing.
                    self._changes.check_files()
                self._long_reader = self._connect()
            rows = self._long_reader.fetch_all(query, values)
            self._shorten_log(self._long_reader)
            return rows

    def _interrupt(self) -> None:
        """Ends a long read, if one has begun."""
        # A read whose thread has not begun may outlast the connection.
        with suppress(apsw.ConnectionClosedError):
            if self._long_reader is not None:
                self._long_reader.raw.interrupt()

    def _shorten_log(self, long_reader: Connection) -> None:
        """Checkpoints the log, so that the next commit starts it again from the beginning.

        SQLite does so by itself, but only at a moment when no connection reads. While one long read
        follows another there is no such moment, and the log grows without bound. So it happens
        here, before the next long read can begin.
        """
        if self._changes is None or self._log_bytes() < self._log_max_bytes:
            return
        try:
            # Most of it runs beside the commits, so that they wait only for the rest.
            long_reader.checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._writer.checkpoint()
        except StoreError as error:
            logger.warning("the write-ahead log stays long for now: %s", error)
        # If a command reads meanwhile and prevents it, do not retry after every long read.
        self._log_max_bytes = self._log_bytes() + _LOG_MAX_BYTES

    def _log_bytes(self) -> int:
        try:
            return self._log.stat().st_size
        except FileNotFoundError:
            # Moved or deleted: the next write reports that; a read need not fail.
            return 0

    def _read(self, query: Query, values: Mapping[str, object]) -> list[Row]:
        began_s = perf_counter()
        if isinstance(query, StepsQuery):
            rows = self._reader.fetch_steps(query.steps(values))
        elif self._records is not None and isinstance(query, RecordQuery):
            rows = self._records.fetch_all(query, values)
        else:
            rows = self._reader.fetch_all(query, values)
        self._metrics.read(perf_counter() - began_s)
        return rows

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        return await self._writer.write(work)

    async def write_statement(self, query: Query, **values: object) -> Sequence[Row]:
        return await self.write(lambda transaction: transaction.fetch_all(query, **values))

    async def make_durable(self) -> None:
        """Syncs to disk what a killed process may have committed without a sync."""
        try:
            await self._writer.rewrite_log()
        except BaseException:
            # A checkpoint on close might bring only parts of the log to the disk.
            for connection in (self._reader, self._long_reader):
                if connection is not None:
                    connection.leave_log(True)
            raise

    async def close(self) -> None:
        self._writer.close()
        while not self._long_read.acquire(timeout=_INTERRUPT_AGAIN_S):
            self._interrupt()
        if self._long_reader is not None:
            self._long_reader.close()
        self._long_read.release()
        if self._records is not None:
            self._records.close()
        self._reader.close()
        if self._changes is not None:
            self._changes.close()

    async def schema_revision(self) -> str | None:
        with our_errors():
            return revision_of(self._reader.raw)

    async def schema_differences(self) -> list[str]:
        with our_errors():
            return differences(self._reader.raw)

    async def unfinished_move(self) -> str | None:
        return None  # A move's target is never a file.

    async def upgrade(
        self, plan: Callable[[Transaction, str | None], Awaitable[str]]
    ) -> str | None:
        self._reader.run("BEGIN IMMEDIATE")
        try:
            found = await self.schema_revision()
            self._reader.run(await plan(SqliteTransaction(self._reader), found))
            self._reader.run("COMMIT")
        except BaseException:
            if self._reader.raw.in_transaction:
                self._reader.run("ROLLBACK")
            raise
        return found


def back_up_file(path: str, destination: str, progress: Callable[[int, int], None]) -> None:
    """Copies a snapshot of a database, over a separate connection and in any thread, while others
    go on writing to it."""
    with (
        our_errors(),
        closing(apsw.Connection(path, apsw.SQLITE_OPEN_READONLY)) as source,
        closing(apsw.Connection(destination)) as target,
    ):
        source.set_busy_timeout(_MOMENT_MS)
        # One read transaction around the whole copy: otherwise every commit by others between two
        # steps would restart it, and on a busy database it would never end.
        source.execute("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(1024)
                progress(backup.page_count - backup.remaining, backup.page_count)


def write_if_free(path: str, query: Query, **values: object) -> bool:
    """Executes one statement, unless the file cannot be written or another program keeps it locked;
    returns whether it did. The wait is short, because a gateway commits many times a second."""
    try:
        with our_errors(), closing(apsw.Connection(path)) as connection:
            connection.set_busy_timeout(_MOMENT_MS)
            connection.execute(query.sqlite.text, query.sqlite.arguments(values)).fetchall()
    except (StoreBusyError, StoreUnavailableError):
        return False
    return True
