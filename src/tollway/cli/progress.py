"""A progress bar on standard error, so that standard output stays for the answer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Shows how far a long piece of work is; gives the function that says how much was done."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    # Nobody watches a bar that is not on a terminal.
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.advance(task, done)


@contextmanager
def percent_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """The same for work whose size is known only as it goes; tell it how much of how much."""
    with progress_bar(title, 100) as advance:
        reached = 0

        def show(done: int, total: int) -> None:
            nonlocal reached
            percent = 100 * done // max(total, 1)
            advance(percent - reached)
            reached = percent

        yield show
