"""Opening an SQLite file, running queries on it, and turning its errors into the store's own."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import apsw

from tollway.store.database import (
    DuplicateKeyError,
    Row,
    RowValues,
    StoreBusyError,
    StoreUnavailableError,
    SumTooLargeError,
)
from tollway.store.many_rows import ManyRows, Rows
from tollway.store.query import Query, Steps

# WAL with synchronous=FULL: a commit has reached the disk when it returns. The page cache is in
# KiB when negative. What is deleted is overwritten with zeros: otherwise an erased receiver would
# stay in free parts of the file, and in every copy that is made of it.
_PRAGMAS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 16000;
PRAGMA cache_size = -65536;
PRAGMA mmap_size = 68719476736;
PRAGMA temp_store = MEMORY;
PRAGMA trusted_schema = OFF;
PRAGMA secure_delete = ON;
"""

# For a file that gets its name only when it is complete: a crash may ruin it, so it needs no log
# and no sync.
_PRAGMAS_UNFINISHED = """
PRAGMA journal_mode = MEMORY;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -65536;
PRAGMA temp_store = MEMORY;
PRAGMA trusted_schema = OFF;
"""

_KNOWN = (apsw.SQLITE_CONSTRAINT_PRIMARYKEY, apsw.SQLITE_CONSTRAINT_UNIQUE)
_CHECKPOINT_WAIT_MS = 200

DISK_FULL = "database or disk is full"
# The text of the error of a sum.
_TOO_LARGE = "integer overflow"
# The text of every error of a backup, whatever its type.
_NO_ERROR = "not an error"
_ERRORS_OF_COPIES = {
    apsw.IOError: "disk I/O error",
    apsw.CorruptError: "database disk image is malformed",
    apsw.NoMemError: "out of memory",
}
_UNAVAILABLE = (
    apsw.IOError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.NoMemError,
    apsw.PermissionsError,
    apsw.InterruptError,
    apsw.AbortError,
    apsw.InternalError,
    apsw.ConnectionClosedError,
    apsw.CursorClosedError,
)


@contextmanager
def our_errors() -> Iterator[None]:
    """Turns driver errors that are not the program's fault into the store's own."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError, apsw.ProtocolError) as error:
        raise StoreBusyError(str(error)) from error
    except apsw.FullError as error:
        raise StoreUnavailableError(DISK_FULL) from error
    except apsw.SQLError as error:
        if str(error) != _TOO_LARGE:
            raise
        raise SumTooLargeError(_TOO_LARGE) from error
    except _UNAVAILABLE as error:
        said = str(error)
        if said == _NO_ERROR:
            said = _ERRORS_OF_COPIES.get(type(error), type(error).__name__)
        raise StoreUnavailableError(said) from error


class Connection:
    """One connection, used by one thread at a time."""

    def __init__(self, path: str, busy_timeout_ms: int, *, is_unfinished: bool = False) -> None:
        self._busy_timeout_ms = busy_timeout_ms
        with our_errors():
            self.raw = apsw.Connection(path, statementcachesize=256)
            try:
                self.raw.set_busy_timeout(busy_timeout_ms)
                # One plan per query, whatever its values: otherwise SQLite plans every execution
                # again, which takes as long as reading a page of rows.
                self.raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
                pragmas = _PRAGMAS_UNFINISHED if is_unfinished else _PRAGMAS
                self.raw.execute(pragmas).fetchall()
            except apsw.Error:
                self.abandon()
                raise
        self._cursor = self.raw.cursor()

    @property
    def is_in_transaction(self) -> bool:
        try:
            return bool(self.raw.in_transaction)
        except apsw.ConnectionClosedError:
            return False

    def fetch_all(self, query: Query, values: Mapping[str, object]) -> list[Row]:
        compiled = query.sqlite
        # Not the context manager: it would cost as much as a short query.
        try:
            rows: list[Row] = self._cursor.execute(
                compiled.text, compiled.arguments(values)
            ).fetchall()
        except apsw.Error:
            with our_errors():
                raise
        return rows

    def fetch_steps(self, steps: Steps) -> list[Row]:
        """The rows that the steps return, read in one transaction, so that all see one snapshot."""
        try:
            self._cursor.execute("BEGIN")
            try:
                asked = next(steps)
                while True:
                    asked = steps.send(self.fetch_all(*asked))
            except StopIteration as end:
                rows: list[Row] = end.value
                return rows
            finally:
                # An error may have ended the transaction already.
                if self.raw.in_transaction:
                    self._cursor.execute("ROLLBACK")
        except apsw.Error:
            with our_errors():
                raise

    def execute(self, query: Query, values: Mapping[str, object]) -> int:
        self.fetch_all(query, values)
        changes: int = self.raw.changes()
        return changes

    def execute_many(self, query: Query, rows: Iterable[RowValues]) -> int:
        compiled = query.sqlite
        before: int = self.raw.total_changes()
        with our_errors():
            self._cursor.executemany(compiled.text, map(compiled.arguments, rows)).fetchall()
        after: int = self.raw.total_changes()
        return after - before

    def put_rows(self, statements: ManyRows, rows: Rows) -> int:
        """Stores many rows; raises DuplicateKeyError if one that must be new exists already."""
        before: int = self.raw.total_changes()
        try:
            with our_errors():
                for text, parameters in statements.batched(rows):
                    self._cursor.executemany(text, parameters).fetchall()
        except apsw.ConstraintError as error:
            if error.extendedresult not in _KNOWN:  # type: ignore[attr-defined]
                raise
            raise DuplicateKeyError(str(error)) from error
        after: int = self.raw.total_changes()
        return after - before

    def run(self, script: str) -> None:
        try:
            self._cursor.execute(script).fetchall()
        except apsw.Error:
            with our_errors():
                raise

    def checkpoint(self, mode: int) -> None:
        """Writes the write-ahead log back into the file, as much of it as the mode says. It waits
        for other connections, but briefly: a command may read for long."""
        with our_errors():
            self.raw.set_busy_timeout(_CHECKPOINT_WAIT_MS)
            try:
                self.raw.wal_checkpoint(mode=mode)
            finally:
                self.raw.set_busy_timeout(self._busy_timeout_ms)

    def leave_log(self, is_left: bool) -> None:
        """Sets whether the log stays as it is if this is the last connection to close; otherwise
        SQLite then checkpoints it."""
        self.raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(is_left))

    def close(self) -> None:
        self.raw.close()

    def abandon(self) -> None:
        """Closes the connection in any state; what was not committed is rolled back."""
        self.raw.close(True)
