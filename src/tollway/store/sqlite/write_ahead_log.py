"""The write-ahead log: makes the commits found in it durable, and checkpoints a long one.

A killed process may have left commits in the log that never reached the disk; SQLite takes them for
committed all the same. A sync alone does not help: after a failed one, the system marks as written
what it could not write, and reports that only once. After a power loss those commits would be gone,
and with them all that follow in the log. So before a process answers from them, the log is written
again, then synced.

SQLite checkpoints (writes the log back into the file) once the log is long, within a commit: all
calls of that commit, and those that arrive meanwhile, wait for it. So a thread does most of it
shortly before, and that commit has to write back only what was added since.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from tollway.store.database import StoreBusyError, StoreError
from tollway.store.sqlite.connection import Connection, our_errors

# The documented format of the write-ahead log.
_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
# As large as the largest page: SQLite writes no more than that at once.
_PIECE_BYTES = 2**16
# Longer than another command takes to rewrite the log, on a slow disk too.
_BUSY_TIMEOUT_MS = 10_000
# Shortly before SQLite does it (wal_autocheckpoint), and once per log: a page that changes again
# has to be written again.
_BEGIN_FRAMES = 14_000

logger = logging.getLogger("tollway.store")


def bytes_of_frames(connection: Connection, frames: int) -> int:
    """How long a log of so many frames is."""
    page_bytes = int(connection.raw.pragma("page_size"))
    return _HEADER_BYTES + frames * (_FRAME_HEADER_BYTES + page_bytes)


def frames_of_log(connection: Connection) -> int:
    """How many frames of the log are committed. Call it outside a transaction."""
    frames, _ = connection.raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    return int(frames)


def rewrite_left_log(path: str) -> None:
    """Rewrites the log of a file that no gateway serves, before a command uses it.

    The last connection to close checkpoints the log. After a power loss during that, the file would
    have parts of commits that are missing in the log, and be ruined.
    """
    path = str(Path(path).resolve())
    log = Path(f"{path}-wal")
    # A process that cannot write the file does not checkpoint it either.
    if not _size_of(log) or not os.access(path, os.W_OK):
        return
    # A command that writes for longer than that has done this already.
    with suppress(StoreBusyError), closing(Connection(path, _BUSY_TIMEOUT_MS)) as connection:
        connection.leave_log(True)
        with our_errors():
            frames = frames_of_log(connection)
        connection.run("BEGIN IMMEDIATE")
        # If it is shorter, another command has checkpointed it since.
        if _size_of(log) >= bytes_of_frames(connection, frames):
            rewrite_log(connection, path, frames)
        connection.run("ROLLBACK")
        connection.leave_log(False)


def rewrite_log(connection: Connection, path: str, frames: int) -> None:
    """Writes so many frames of the log again, unchanged, and waits for the disk. Call it within a
    transaction that keeps other writers out."""
    if not frames:
        return
    end = bytes_of_frames(connection, frames)
    with our_errors(), _opened(f"{path}-wal") as log:
        for at in range(0, end, _PIECE_BYTES):
            log.xWrite(log.xRead(min(_PIECE_BYTES, end - at), at), at)
        log.xSync(apsw.SQLITE_SYNC_NORMAL)


def _size_of(log: Path) -> int:
    try:
        return log.stat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def _opened(path: str) -> Iterator[apsw.VFSFile]:
    """Opens the log through SQLite's own file layer."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_WAL
    opened = apsw.VFSFile("", path, [flags, 0])
    try:
        yield opened
    finally:
        opened.xClose()


class LogWriteBack:
    """Checkpoints a long log beside the commits. Used by the writer thread."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._thread: threading.Thread | None = None
        self._is_begun = False

    def after_commit(self, log_frames: int) -> None:
        """Starts a checkpoint if the log has become long."""
        if log_frames < _BEGIN_FRAMES:
            # The log has started again from its beginning.
            self._is_begun = False
        elif not self._is_begun:
            self._is_begun = True
            thread = threading.Thread(target=self._run, name="tollway-log", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # Out of threads: a commit does it, as it would without this class.
                logger.debug("no thread writes the log back: %s", error)
            else:
                self._thread = thread

    def wait(self) -> None:
        """Waits until no checkpoint is running."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            with closing(self._connect()) as connection:
                connection.checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)
        except StoreError as error:
            # Another process may be doing it now; if not, one of the next commits will.
            logger.debug("the write-ahead log is not written back yet: %s", error)
