"""The temporary folder that the sandbox's database is in.

The process that made it holds a lock on a file in it. The system drops that lock when the process
dies, however it dies: so the next one finds the folders that were left behind, and removes them."""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "tollway-sandbox-"
_LOCK = "lock"


class SandboxFolder:
    """A folder of this process alone, removed when it is closed."""

    def __init__(self) -> None:
        _remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Locked before it has its name: a lock file that another process sees is locked already.
        unnamed = self.path / "unnamed"
        self._lock = unnamed.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / _LOCK)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _remove_abandoned() -> None:
    for folder in _own_folders():
        try:
            with (folder / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            # In use, just being made, or removed by another process meanwhile.
            continue


def _own_folders() -> Iterator[Path]:
    """The folders of sandboxes that this user made: in a temporary folder there are others too."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            found = folder.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
            yield folder
