"""Telling, without asking SQLite, whether anybody committed anything since one last looked.

Every commit to a database in WAL mode, by any process, moves on the header of its WAL index: the
first 48 bytes of the `-shm` file, which all connections map into memory and whose format SQLite
documents. Comparing them takes well under a microsecond and, unlike a query, does not give up the
interpreter's lock; so it can be done on every call. The bytes are only compared, never understood.

The file must stay open here for as long as SQLite has it open. A process that closes a file loses
all its locks on it, those of SQLite too; the next program to open the database would then think
that it is the first, and cut the file short under the eyes of this process.
"""

import mmap
from pathlib import Path

_HEADER_BYTES = 48


class ChangeWatch:
    """The WAL index's header of one database, which some connection must keep open meanwhile."""

    def __init__(self, database_path: str) -> None:
        self._file = Path(f"{database_path}-shm").open("rb")  # noqa: SIM115 - see above
        self._map = mmap.mmap(self._file.fileno(), _HEADER_BYTES, prot=mmap.PROT_READ)

    def mark(self) -> bytes:
        """A value that is another one after every commit."""
        return self._map[:]

    def close(self) -> None:
        """Only after all connections of this process are closed."""
        self._map.close()
        self._file.close()
