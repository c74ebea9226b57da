"""Files of a command. What it makes never replaces another file, is never half written, and is on
disk when the command ends; a damaged database is refused. Rejected records are a report: the next
load replaces it."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

import msgspec
import typer

from tollway.cli.command import CommandError, UsageError
from tollway.store.durable_files import to_disk
from tollway.store.sqlite.files import problems_of

_UNFINISHED = ".unfinished"
# A partly written database leaves its journal beside it.
_ENDINGS = ("", "-journal")


@contextmanager
def new_file(destination: Path) -> Iterator[Path]:
    """A path beside the destination to write to; it gets its name only once it is whole."""
    _refuse_existing(destination)
    if not destination.parent.is_dir():
        raise CommandError(f"The folder of {destination} does not exist: make it first.")
    _remove_abandoned(destination)
    # With the process id: another command that creates the same file must not write to this one.
    unfinished = destination.with_name(f"{destination.name}.{os.getpid()}{_UNFINISHED}")
    try:
        yield unfinished
        to_disk(unfinished)
        _refuse_existing(destination)
        unfinished.rename(destination)
        to_disk(destination.parent)
    finally:
        for ending in _ENDINGS:
            unfinished.with_name(unfinished.name + ending).unlink(missing_ok=True)


def _refuse_existing(destination: Path) -> None:
    if destination.exists():
        raise CommandError(f"{destination} exists already: choose another name or remove it first.")


def _remove_abandoned(destination: Path) -> None:
    """Removes what commands that were killed have left of a file, and beside it."""
    for ending in (_UNFINISHED + each for each in _ENDINGS):
        for file in destination.parent.glob(f"{escape(destination.name)}.*{ending}"):
            process = file.name.removesuffix(ending).rpartition(".")[2]
            if process == str(os.getpid()) or not Path("/proc", process).exists():
                file.unlink(missing_ok=True)


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


# The terminal shows at most this many rejected records; the reject file has all.
REJECTED_SHOWN = 10
# How a file of rejected records, numbers or rows begins; an empty one was perhaps made for them.
_BEGINS = re.compile(rb'\Z|{"(line|position)":')


class RejectFile:
    """The records of a source that are wrong; opened with the first, so that a clean one leaves no
    such file. If it cannot be written, the work goes on: what it came to is reported at its end."""

    def __init__(self, path: Path, source: Path | None, stack: ExitStack) -> None:
        if source is not None and path.exists() and source.exists() and path.samefile(source):
            raise UsageError(f"{path} is the file to be loaded: name another one with --rejects.")
        # Rejects of an earlier load would look like this one's. A device is left alone.
        if path.is_file():
            with path.open("rb") as file:
                if not _BEGINS.match(file.read(20)):
                    raise UsageError(
                        f"{path} exists and has other content than rejected records: name "
                        "another file with --rejects."
                    )
            path.unlink()
        self._path = path
        self._stack = stack
        self._file: BinaryIO | None = None
        self._is_failed = False

    @property
    def written(self) -> str | None:
        """Its name, if it has all that was rejected."""
        return None if self._is_failed or self._file is None else str(self._path)

    def write(self, reject: msgspec.Struct) -> None:
        if self._is_failed:
            return
        try:
            if self._file is None:
                self._file = self._stack.enter_context(self._path.open("wb"))
            self._file.write(msgspec.json.encode(reject) + b"\n")
            # If this waited until the file is closed, its error would end what is done by then.
            self._file.flush()
        except OSError as error:
            self._is_failed = True
            if self._file is not None:
                with suppress(OSError):
                    self._file.close()
            typer.echo(
                f"What is rejected cannot be written to {self._path}: {error.strerror}. "
                "The rest is loaded all the same.",
                err=True,
            )


def rejects_beside(file: Path) -> Path:
    """Where the rejected records of a file go, unless an option says otherwise."""
    return Path(f"{file}.rejected.jsonl")
