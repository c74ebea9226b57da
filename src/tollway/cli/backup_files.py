"""The files that lie beside a copy of the database: its digest, and the keys it is read with."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tollway.settings import Settings
from tollway.store.open import key_path, secret_path

DIGEST = ".sha256"
_CHUNK_BYTES = 1024 * 1024


class KeyFile(NamedTuple):
    """A file that a database is used with: where it is, and how its name ends beside a copy."""

    path: Path
    ending: str

    def beside(self, copy: Path) -> Path:
        return ending_with(copy, self.ending)


def key_files(settings: Settings) -> tuple[KeyFile, ...]:
    """Where a gateway with these settings has them, whether they are there or not."""
    url = settings.database
    return (
        KeyFile(key_path(url, settings.key_file), ".keys"),
        KeyFile(secret_path(url, settings.secret_file), ".secret"),
    )


def content_of(path: Path) -> bytes | None:
    """What is in a file; None when there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def ending_with(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def chunks_of(path: Path, progress: Callable[[int, int], None]) -> Iterator[bytes]:
    """A file's content, piece by piece."""
    total, done = path.stat().st_size, 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
            done += len(chunk)
            progress(done, total)


def digest_of(path: Path) -> str:
    digest = hashlib.sha256()
    for chunk in chunks_of(path, lambda *_: None):
        digest.update(chunk)
    return digest.hexdigest()


def digest_line(digest: str, copy: Path) -> str:
    """As `sha256sum --check` reads it."""
    return f"{digest}  {copy.name}\n"
