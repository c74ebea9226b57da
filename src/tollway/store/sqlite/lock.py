"""The lock that keeps a second gateway from serving the same file."""

import fcntl
import os
from pathlib import Path

from tollway.store.database import StoreError


class ServingLock:
    """Held by a serving process for as long as it lives; the system drops it when it dies."""

    def __init__(self, database_path: str) -> None:
        self._path = Path(f"{database_path}.lock")
        self._file = self._path.open("a+", encoding="ascii")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise StoreError(
                f"{database_path} is already being served by process {holder}: "
                "stop that one first, or use another database."
            ) from None
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        self._file.close()
