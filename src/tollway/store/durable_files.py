"""Files that may never be lost: they are on disk before anything relies on them."""

import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp

from tollway.store.sqlite.path_check import user_name

_WRITTEN_EVERY_S = 0.1


def make_private(path: Path, content: bytes) -> None:
    """Makes a file that only its owner can read, unless another process that starts at the same
    time has made it. No process sees it half written, and it is on disk before anything is sealed
    or signed with its content."""
    with _written_beside(path, content) as written, suppress(FileExistsError):
        os.link(written, path)


def place_private(path: Path, content: bytes, owner_of: Path | None) -> None:
    """Makes such a file too, for the owner of another file if one is named; FileExistsError if it
    is there already."""
    with _written_beside(path, content) as written:
        if owner_of is not None:
            _chown(written, owner_of.stat())
            to_disk(written)
        os.link(written, path)


def replace_private(path: Path, content: bytes) -> None:
    """Replaces such a file atomically: a crash leaves the old one or the new one. The new one
    keeps the owner and the mode of the old one, even if root replaces it."""
    with _written_beside(path, content, path.stat()) as written:
        written.replace(path)


@contextmanager
def _written_beside(
    path: Path, content: bytes, old: os.stat_result | None = None
) -> Iterator[Path]:
    """A file that is on disk, to be given its name in the block; then the name is on disk too."""
    descriptor, name = mkstemp(prefix=f"{path.name}.", dir=path.parent)
    written = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if old is not None:
                _give_to_owner_of(old, descriptor)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield written
    finally:
        written.unlink(missing_ok=True)
    to_disk(path.parent)


def give_to_owner_of(old: Path, new: Path) -> None:
    """Gives a file the owner and the mode of the one that it is going to replace."""
    descriptor = os.open(new, os.O_RDONLY)
    try:
        _give_to_owner_of(old.stat(), descriptor)
    finally:
        os.close(descriptor)


def _give_to_owner_of(old: os.stat_result, descriptor: int) -> None:
    _chown(descriptor, old)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _chown(file: Path | int, old: os.stat_result) -> None:
    made = os.stat(file)  # noqa: PTH116 - it may be a descriptor
    if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):
        os.chown(file, old.st_uid, old.st_gid)


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Holds a lock on a folder, without a lock file; BlockingIOError if another process has it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def refuse_writable_by_others(path: Path) -> None:
    """Refuses a file of keys that other users can replace; OSError says so."""
    if path.stat().st_mode & 0o022:
        raise PermissionError(f"other users can write to it: run `chmod 600 {path}`")


def reason_of(error: Exception) -> str:
    """Why a file cannot be used, for a sentence that names the file already."""
    reason = getattr(error, "strerror", None)
    if reason and isinstance(error, PermissionError):
        return (
            f"user {user_name()} has no right to it: change the owner or mode of it or its folder"
        )
    return reason or str(error)


@contextmanager
def written_meanwhile(path: Path) -> Iterator[None]:
    """Syncs a growing file to disk while the block fills it: otherwise most of it would stay in
    memory until `to_disk`, which would take as long as the work itself.

    The system reports a failed write only once, not again to `to_disk`: so this raises it.
    """
    is_full = threading.Event()
    descriptor = os.open(path, os.O_RDONLY)

    def write() -> None:
        while not is_full.wait(_WRITTEN_EVERY_S):
            os.fdatasync(descriptor)

    try:
        with ThreadPoolExecutor(1, "tollway-to-disk") as pool:
            writing = pool.submit(write)
            try:
                yield
            finally:
                is_full.set()
            writing.result()
    finally:
        os.close(descriptor)


def to_disk(path: Path) -> None:
    """Returns once a file's content, or the names in a folder, would survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
