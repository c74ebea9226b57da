"""Brings to the disk what a process finds in the write-ahead log before it answers from it.

A process that was killed may have left commits in the log that never reached the disk; SQLite takes
them for committed all the same. A sync does not make up for that: if one has failed before, the
system takes for written what it could not write, and reports that once. After a power loss those
commits would be gone, and with them all that follow in the log.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from tollway.store.database import StoreBusyError
from tollway.store.sqlite.connection import Connection, our_errors

# Of the write-ahead log, as its format is documented.
_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
# As large as the largest page: SQLite writes no more than that at once.
_PIECE_BYTES = 2**16
_BUSY_TIMEOUT_MS = 1000


def bytes_of_frames(connection: Connection, frames: int) -> int:
    """How long a log of so many frames is."""
    page_bytes = int(connection.raw.pragma("page_size"))
    return _HEADER_BYTES + frames * (_FRAME_HEADER_BYTES + page_bytes)


def frames_of_log(connection: Connection) -> int:
    """How many frames of the log are committed. Not within a transaction."""
    frames, _ = connection.raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    return int(frames)


def rewrite_left_log(path: str) -> None:
    """Does so for a file that no gateway serves, before a command uses it.

    The connection that is closed last writes the log back. If the power went meanwhile, the file
    would have parts of commits that are missing in the log, and be ruined.
    """
    path = str(Path(path).resolve())
    log = Path(f"{path}-wal")
    # What cannot be written is not written back either.
    if not _size_of(log) or not os.access(path, os.W_OK):
        return
    # Another command that writes meanwhile has done this before.
    with suppress(StoreBusyError), closing(Connection(path, _BUSY_TIMEOUT_MS)) as connection:
        connection.leave_log(True)
        with our_errors():
            frames = frames_of_log(connection)
        connection.run("BEGIN IMMEDIATE")
        # Otherwise another command has written it back since.
        if _size_of(log) >= bytes_of_frames(connection, frames):
            rewrite_log(connection, path, frames)
        connection.run("ROLLBACK")
        connection.leave_log(False)


def rewrite_log(connection: Connection, path: str, frames: int) -> None:
    """Writes so many frames of the log once more, as they are, and waits for the disk. Only within
    a transaction that keeps other writers out."""
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
    """As SQLite opens it."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_WAL
    opened = apsw.VFSFile("", path, [flags, 0])
    try:
        yield opened
    finally:
        opened.xClose()
