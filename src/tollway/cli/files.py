"""Files of a command. What it writes never replaces another file, is never half written, and is on
disk when the command ends; a damaged database is refused."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from tollway.cli.command import CommandError
from tollway.store.durable_files import to_disk
from tollway.store.sqlite.files import problems_of


@contextmanager
def new_file(destination: Path) -> Iterator[Path]:
    """A path beside the destination to write to; it gets its name only once it is whole."""
    if destination.exists():
        raise CommandError(f"{destination} exists already: choose another name or remove it first.")
    if not destination.parent.is_dir():
        raise CommandError(f"The folder of {destination} does not exist: make it first.")
    unfinished = destination.with_name(f"{destination.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    try:
        yield unfinished
        to_disk(unfinished)
        unfinished.rename(destination)
        to_disk(destination.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def write_private(path: Path, content: bytes) -> None:
    """Makes a file that only its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def refuse_damaged(database: Path, name: Path, advice: str = "") -> None:
    """Refuses a database file, which the user knows by this name, that is not sound."""
    if problems := problems_of(database):
        found = "; ".join(problems).replace("\n", " ")
        raise CommandError(f"{name} is damaged: {found}.{advice}")


class RejectFile:
    """The records that are wrong; opened with the first, so that a clean file leaves none."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self._path = path
        self._stack = stack
        self._file: BinaryIO | None = None

    def write(self, reject: msgspec.Struct) -> None:
        if self._file is None:
            self._file = self._stack.enter_context(self._path.open("wb"))
        self._file.write(msgspec.json.encode(reject) + b"\n")


def rejects_of(file: Path, chosen: Path | None) -> Path:
    """Where the rejected records of a file go: beside it, unless an option says otherwise."""
    path = chosen or file.with_name(f"{file.name}.rejected.jsonl")
    if path.resolve() == file.resolve():
        raise CommandError(f"{path} is the file that is read: choose another one for the rejects.")
    return path
