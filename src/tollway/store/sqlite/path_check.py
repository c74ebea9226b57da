"""Whether a path can be a database file, and if not, why: for every cause, SQLite says only
"unable to open database file"."""

import os
import pwd
from pathlib import Path

from tollway.store.database import StoreError

_MAGIC = b"SQLite format 3\0"
# The index of the log alone takes half of this.
_LEAST_SPACE_BYTES = 65_536
# The longest path that SQLite takes, without the eight bytes of `-journal` behind it.
_PATH_BYTES_MAX = 504
_ELSEWHERE = "name a file elsewhere with --database sqlite:///FILE."


def user_name() -> str:
    """The user who runs this process, from the system, not from an environment variable."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def check_path(path: Path) -> None:
    """Refuses a path where no database file can be.

    If the file exists, its folder need not be writable: SQLite's other files may be there already.
    """
    folder = path.resolve().parent
    if not folder.is_dir():
        raise StoreError(f"The folder of {path} does not exist: make it first.")
    length = len(os.fsencode(path.resolve()))
    if length > _PATH_BYTES_MAX:
        raise StoreError(
            f"{path} has a path of {length:,} bytes from the root, and SQLite takes "
            f"{_PATH_BYTES_MAX}: {_ELSEWHERE}"
        )
    if path.is_dir():
        raise StoreError(f"{path} is a folder: name a file in it, as sqlite:///{path}/tollway.db.")
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is no file: {_ELSEWHERE}")
    if not path.exists() and (refusal := refusal_of(folder)):
        raise StoreError(f"{path} cannot be made, because {refusal}")


def check_content(path: Path) -> None:
    """Refuses a file that SQLite did not make."""
    if not os.access(path, os.R_OK):
        return  # There is none yet, or SQLite will not be able to open it either.
    with path.open("rb") as file:
        beginning = file.read(len(_MAGIC))
    if beginning and beginning != _MAGIC:
        raise StoreError(
            f"{path} is no database: name another file with --database sqlite:///FILE. If it was "
            f"one, restore a backup of it with `tollway restore BACKUP --replace --database "
            f"sqlite:///{path}`."
        )


def why_unusable(path: Path) -> str | None:
    """What keeps this process from writing to a database file; None if no cause is found here."""
    folder = path.resolve().parent
    return refusal_of(path) or refusal_of(folder) or _lack_of_space(folder)


def _lack_of_space(folder: Path) -> str | None:
    """On a disk too full for its own files, SQLite says only "disk I/O error"."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    if disk.f_bavail * disk.f_frsize >= _LEAST_SPACE_BYTES:
        return None
    return f"the disk of {folder} is full: free some space on it."


def refusal_of(path: Path) -> str | None:
    """Why the system does not let this process write to a file or folder, and what to do; None if
    it does."""
    is_folder = path.is_dir()
    needed = os.R_OK | os.W_OK | (os.X_OK if is_folder else 0)
    if not path.exists() or os.access(path, needed):
        return None
    subject = f"the folder {path}" if is_folder else str(path)
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return f"{subject} is on a disk that can only be read: {_ELSEWHERE}"
    who = user_name()
    return f"user {who} may not write to {subject}: change its owner or mode, or {_ELSEWHERE}"
