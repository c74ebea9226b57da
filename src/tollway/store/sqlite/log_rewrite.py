"""Makes the commits found in a write-ahead log durable before a process answers from them.

A killed process may have left commits in the log that never reached the disk; SQLite takes them for
committed all the same. A sync alone does not help: after a failed one, the system marks as written
what it could not write, and reports that only once. After a power loss those commits would be gone,
and with them all that follow in the log. So the log is written again, then synced.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from tollway.store.database import StoreBusyError
from tollway.store.sqlite.connection import Connection, our_errors

# The documented format of the write-ahead log.
_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
# As large as the largest page: SQLite writes no more than that at once.
_PIECE_BYTES = 2**16
# Longer than another command takes to rewrite the log, on a slow disk too.
_BUSY_TIMEOUT_MS = 10_000


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
