"""What a command prints: one JSON value, or sentences and small tables for people; and how far a
long piece of work is, on standard error, so that standard output stays for the answer."""

import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import zip_longest
from shutil import get_terminal_size
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import typer

_GAP = "   "
# Columns get no narrower than this, even if the terminal is too narrow for the table.
_COLUMN_MIN = 8


class Time(NamedTuple):
    """A cell with a time, which is shown in the time zone of the settings."""

    at_s: float | None


def counted(number: int, one: str, many: str = "") -> str:
    """A number of things, such as `1 call` or `2 calls`."""
    return f"{number:,} {one if abs(number) == 1 else many or one + 's'}"


Cell = str | int | None | Time


class Table(msgspec.Struct, frozen=True):
    """Rows under their headings, or the sentence that says there are none."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    empty: str = ""


class Output:
    """What a command has done: a value for programs, the same for people, and whether it failed.

    A failure is a sentence on standard error for people; an empty one only sets the exit status.
    """

    def __init__(self, value: object, *shown: str | Table, failure: str | None = None) -> None:
        self.value = value
        self.shown = shown
        self.failure = failure

    def print(self, *, as_json: bool, zone: ZoneInfo) -> None:
        if as_json:
            typer.echo(msgspec.json.format(msgspec.json.encode(self.value), indent=2))
        else:
            for part in self.shown:
                _print_part(part, zone)
            if self.failure:
                typer.echo(self.failure, err=True)
        if self.failure is not None:
            raise typer.Exit(1)


def local_time(at_s: float | None, zone: ZoneInfo) -> str | None:
    if at_s is None:
        return None
    return datetime.fromtimestamp(at_s, zone).strftime("%Y-%m-%d %H:%M:%S")


def _print_part(part: str | Table, zone: ZoneInfo) -> None:
    if isinstance(part, str):
        _echo(printable(part))
    elif part.rows:
        _print_table(part, zone)
    elif part.empty:
        _echo(printable(part.empty))


def _echo(text: str) -> None:
    """Prints a text; what the terminal has no characters for is replaced. To fail here would look
    as if the work had failed, which is done by now."""
    try:
        typer.echo(text)
    except UnicodeEncodeError:
        typer.echo(encodable(text))


def encodable(text: str) -> str:
    """A text with `?` for what the terminal has no characters for."""
    encoding = sys.stdout.encoding
    return text.encode(encoding, "replace").decode(encoding)


def _print_table(table: Table, zone: ZoneInfo) -> None:
    rows = [[_shown(cell, zone) for cell in row] for row in table.rows]
    columns = list(zip(table.columns, *rows, strict=True))
    widths = _narrowed([max(map(_width, column)) for column in columns])
    are_numbers = [
        any(isinstance(cell, int) for cell in column) for column in zip(*table.rows, strict=True)
    ]
    rule = "─" * (sum(widths) + len(_GAP) * (len(widths) - 1))
    heading, *body = (_lines_of(row, widths, are_numbers) for row in (table.columns, *rows))
    # Bold only on a terminal: elsewhere it is stripped.
    _echo("\n".join(typer.style(line, bold=True) for line in heading))
    _echo("\n".join([rule, *(line for lines in body for line in lines)]))
    if any(isinstance(cell, Time) for row in table.rows for cell in row):
        typer.echo(f"times in {zone.key}")


def _narrowed(widths: list[int]) -> list[int]:
    """Takes from the widest columns until a row fits the terminal; other readers get whole rows."""
    if sys.stdout.isatty():
        available = get_terminal_size().columns - len(_GAP) * (len(widths) - 1)
        while sum(widths) > available and max(widths) > _COLUMN_MIN:
            widths[widths.index(max(widths))] -= 1
    return widths


def _lines_of(
    cells: Sequence[str], widths: Sequence[int], are_numbers: Sequence[bool]
) -> list[str]:
    """The lines of one row: a cell that is wider than its column goes on below."""
    folded = [_folded(cell, width) for cell, width in zip(cells, widths, strict=True)]
    lines = []
    for parts in zip_longest(*folded, fillvalue=""):
        padded = map(_padded, parts, widths, are_numbers)
        lines.append(_GAP.join(padded).rstrip())
    return lines


def _padded(text: str, width: int, is_number: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if is_number else text + space


def _folded(text: str, width: int) -> list[str]:
    """A text in lines of this width, broken between words where that is possible."""
    lines, line = [], ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if _width(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        line = ""
        for character in word:
            if _width(line + character) > width:
                lines.append(line)
                line = ""
            line += character
    return [*lines, line]


def _width(text: str) -> int:
    """How many columns of a terminal a text takes: Chinese characters take two each."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _shown(cell: Cell, zone: ZoneInfo) -> str:
    if isinstance(cell, Time):
        cell = local_time(cell.at_s, zone)
    if cell is None:
        return "-"
    return f"{cell:,}" if isinstance(cell, int) else printable(cell)


def printable(text: str) -> str:
    """Without characters that would control the terminal: others may have written this text."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


@contextmanager
def progress_bar(
    title: str, total: int, *, is_bytes: bool = False, has_lines: bool = False
) -> Iterator[Callable[[int], None]]:
    """Shows how far a long piece of work is; gives the function that reports what was done.

    Without a terminal there is no bar, and lines only where they are asked for: what runs every
    night should say nothing.
    """
    if not sys.stderr.isatty():
        yield _progress_lines(title, total) if has_lines else lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        *([DownloadColumn()] if is_bytes else []),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(printable(title), total=total)
        yield lambda done: progress.advance(task, done)
        # What was reported may end a little before the end of the work.
        progress.update(task, completed=total)


@contextmanager
def spinner(title: str) -> Iterator[None]:
    """Shows on a terminal that work of unknown length goes on, and for how long already."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(printable(title), total=None)
        yield


def _progress_lines(title: str, total: int) -> Callable[[int], None]:
    """One line for each quarter."""
    done = shown = 0

    def advance(more: int) -> None:
        nonlocal done, shown
        done += more
        quarter = min(4, 4 * done // max(total, 1))
        if quarter > shown:
            typer.echo(f"{title}: {25 * quarter} %", err=True)
            shown = quarter

    return advance


@contextmanager
def percent_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """The same for work whose size is known only as it goes: it reports how much of how much."""
    with progress_bar(title, 100) as advance:
        reached = 0

        def show(done: int, total: int) -> None:
            nonlocal reached
            percent = 100 * done // max(total, 1)
            advance(percent - reached)
            reached = percent

        yield show
