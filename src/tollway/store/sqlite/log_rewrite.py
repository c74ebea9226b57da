"""Brings to the disk what a process finds in the write-ahead log before it answers from it.

A process that was killed may have left commits in the log that never reached the disk; SQLite takes
them for committed all the same. A sync does not make up for that: if one has failed before, the
system takes for written what it could not write, and reports that once. After a power loss those
commits would be gone, and with them all that follow in the log.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from tollway.store.sqlite.connection import Connection, our_errors

# Of the write-ahead log, as its format is documented.
_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
# As large as the largest page: SQLite writes no more than that at once.
_PIECE_BYTES = 2**16


def bytes_of_frames(connection: Connection, frames: int) -> int:
    """How long a log of so many frames is."""
    page_bytes = int(connection.raw.pragma("page_size"))
    return _HEADER_BYTES + frames * (_FRAME_HEADER_BYTES + page_bytes)


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


@contextmanager
def _opened(path: str) -> Iterator[apsw.VFSFile]:
    """As SQLite opens it."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_WAL
    opened = apsw.VFSFile("", path, [flags, 0])
    try:
        yield opened
    finally:
        opened.xClose()
