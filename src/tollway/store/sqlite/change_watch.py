"""Notices commits since the last check, without asking SQLite.

Every commit of any process changes the header of the WAL index, the first 48 bytes of the `-shm`
file, whose format SQLite documents. Comparing them takes well under a microsecond. The file must
stay open here for as long as SQLite has it open: a process that closes a file loses all its locks
on it, including SQLite's.
"""

import mmap
import os
import sys
from pathlib import Path

from tollway.store.database import StoreUnavailableError

_HEADER_BYTES = 48
# Parts of the header, in the byte order of the machine.
_COMMITS, _LAST_FRAME = slice(8, 12), slice(16, 20)
_ENDINGS = ("", "-wal", "-shm")


class ChangeWatch:
    """The header of a database's WAL index, which some connection must keep open meanwhile."""

    def __init__(self, database_path: str) -> None:
        self._file = Path(f"{database_path}-shm").open("rb")  # noqa: SIM115 - see above
        try:
            self._map = mmap.mmap(self._file.fileno(), _HEADER_BYTES, prot=mmap.PROT_READ)
        except ValueError:
            # A process without disk space left it, and the disk is read-only now.
            self._file.close()
            raise StoreUnavailableError(f"{self._file.name} is cut short") from None
        self._seen = b""
        self._record_changes = 0
        self._files = {name: _identity(name) for name in map(database_path.__add__, _ENDINGS)}

    def check_files(self) -> None:
        """Fails if a file is no longer under its name: a commit would succeed in a file that no
        later process opens. SQLite itself refuses that only without a write-ahead log."""
        for name, known in self._files.items():
            if _identity(name) != known:
                raise StoreUnavailableError(
                    f"{name} was moved, deleted or replaced while it is in use: put it back, or "
                    "start the gateway again"
                )

    def mark(self) -> bytes:
        """A value that changes with every commit."""
        return self._map[:]

    def record_mark(self) -> int:
        """A value that changes with every commit but those reported to `kept_records`."""
        header = self._map[:]
        if header != self._seen:
            self._seen = header
            self._record_changes += 1
        return self._record_changes

    def kept_records(self, before: bytes) -> None:
        """Reports that a commit of this process changed no record. `before` is the mark at the
        start of its transaction: if there was one commit since, it is this one.

        The writer thread calls this. If it races with the event loop, the worst is that the loop
        takes this commit for a change: a mark never comes back.
        """
        after = self._map[:]
        is_alone = (_number(after, _COMMITS) - _number(before, _COMMITS)) % 2**32 == 1
        if is_alone and self._seen == before:
            self._seen = after

    def log_frames(self) -> int:
        """How long the write-ahead log is, in pages."""
        return _number(self._map[:], _LAST_FRAME)

    def close(self) -> None:
        """Call it only after all connections of this process are closed."""
        self._map.close()
        self._file.close()


def _identity(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - three times as fast as that of a Path, at each commit
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _number(header: bytes, part: slice) -> int:
    return int.from_bytes(header[part], sys.byteorder)
