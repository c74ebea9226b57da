"""Reads of records, from a snapshot that is kept while only charges are committed.

After a commit SQLite drops a connection's page cache, and maps the file again. Charges are
committed all the time, and records seldom change. So the read transaction stays open for many
reads: until a commit that may have changed records, and only for a short time, since an open
snapshot holds back checkpoints. Once the log is long, no snapshot is kept.
"""

import asyncio
from collections.abc import Callable, Mapping

from tollway.store.database import Row, StoreError
from tollway.store.query import Query
from tollway.store.sqlite.change_watch import ChangeWatch
from tollway.store.sqlite.connection import Connection

# Shorter than a checkpoint waits for readers (connection.py).
_HELD_S = 0.15
# Well before SQLite checkpoints its log (wal_autocheckpoint).
_LOG_MAX_FRAMES = 12_000


class RecordReader:
    """A connection for queries of records, opened when it is first used; used on the event loop."""

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
