"""Files that a command writes: never over another one, and never half."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tollway.cli.errors import CommandError


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
        unfinished.rename(destination)
    finally:
        unfinished.unlink(missing_ok=True)
