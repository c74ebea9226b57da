"""The lock that worker processes take one after the other to write to one SQLite file.

SQLite's own lock is not fair: a process that waits for it sleeps, and looks again now and then. So
each worker takes this one before it begins a transaction. It is two locks: the one that writes has
the second, and of those that wait one has the first. A worker that has just written must get the
first before the second, and so cannot overtake the one that waits. The system drops the locks of a
process that dies.
"""

import fcntl
import os
from pathlib import Path


class WriteLock:
    """The two lock files, opened by one process; its writing thread alone uses them."""

    def __init__(self, folder: Path) -> None:
        # Opened by each process for itself: a descriptor that was inherited is the same lock.
        self._next, self._writing = (
            os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            for name in ("next.lock", "writing.lock")
        )

    def __enter__(self) -> None:
        fcntl.flock(self._next, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._writing, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._next, fcntl.LOCK_UN)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._writing, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._next)
        os.close(self._writing)
