"""Making a file that nobody but its owner can read, and that may never be lost."""

import os
from pathlib import Path
from tempfile import mkstemp


def make_private(path: Path, content: bytes) -> None:
    """Makes a file, unless it is there by then: two processes may start at once. It is whole from
    its first moment, and on disk before anything is sealed or signed with what is in it."""
    descriptor, name = mkstemp(prefix=f"{path.name}.", dir=path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(unfinished, path)
        except FileExistsError:
            return
    finally:
        unfinished.unlink()
    _names_to_disk(path.parent)


def _names_to_disk(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
