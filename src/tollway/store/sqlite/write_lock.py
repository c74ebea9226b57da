"""The fair lock by which worker processes take turns to write to one SQLite file.

SQLite's own lock is not fair: a process that waits for it sleeps, and polls now and then. So each
worker takes this lock before it begins a transaction. It consists of two: the worker that writes
holds `writing`, and the one that is next in line holds `next`. A worker that has just written must
get `next` before `writing`, and so cannot overtake the one in line. The system drops the locks of a
process that dies.
"""

import fcntl
import os
from pathlib import Path


class WriteLock:
    """The two lock files, opened by one process; only its writer thread uses them."""

    def __init__(self, folder: Path) -> None:
        # Each process opens them itself: an inherited descriptor would share the same lock.
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
