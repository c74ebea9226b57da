"""Files of a command. What it writes is never over another one, never half, and on disk when it
ends; a damaged database is refused."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tollway.cli.errors import CommandError
from tollway.store.durable_files import to_disk
from tollway.store.sqlite.files import problems_of


@contextmanager
def new_file(destination: Path) -> Iterator[Path]:
    """A path beside the destination to write to; it gets its name only once it is whole."""
    refuse_existing(destination)
    unfinished = destination.with_name(f"{destination.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    try:
        yield unfinished
        to_disk(unfinished)
        unfinished.rename(destination)
        to_disk(destination.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def refuse_existing(destination: Path) -> None:
    if destination.exists():
        raise CommandError(f"{destination} exists already: choose another name or remove it first.")
    if not destination.parent.is_dir():
        raise CommandError(f"The folder of {destination} does not exist: make it first.")


def refuse_damaged(database: Path, name: Path, advice: str = "") -> None:
    """Refuses a database file, which the user knows by this name, that is not sound."""
    if problems := problems_of(database):
        told = "; ".join(problems).replace("\n", " ")
        raise CommandError(f"{name} is damaged: {told}.{advice}")


def write_private(path: Path, content: bytes) -> None:
    """Makes a file that nobody but its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
