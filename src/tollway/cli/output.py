"""What a command prints: one JSON value, or sentences and small tables for people."""

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.table import Table

Cell = str | int | None

# Wide enough that no row is broken when the output is read by another program.
_WIDTH_OF_PIPE = 10_000


def print_json(value: object) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def as_json_line(value: object) -> str:
    """For output that another program follows line by line."""
    return f"{msgspec.json.encode(value).decode()}\n"


def print_sentence(sentence: str) -> None:
    typer.echo(_printable(sentence))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    empty: str,
    times_in: ZoneInfo | None = None,
) -> None:
    """Prints rows under their headings, or the sentence that says there are none."""
    cells = list(rows)
    if not cells:
        print_sentence(empty)
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    if times_in is not None:
        table.caption, table.caption_justify = f"times in {times_in.key}", "left"
    for position, column in enumerate(columns):
        is_number = any(isinstance(row[position], int) for row in cells)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(_shown, row))
    # Names, labels and notes are shown as they are: no markup, nothing highlighted.
    width = None if sys.stdout.isatty() else _WIDTH_OF_PIPE
    Console(width=width, markup=False, highlight=False, emoji=False).print(table)


def shown_time(at_s: float | None, zone: ZoneInfo) -> str | None:
    if at_s is None:
        return None
    return datetime.fromtimestamp(at_s, zone).strftime("%Y-%m-%d %H:%M:%S")


def _shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:,}" if isinstance(cell, int) else _printable(cell)


def _printable(text: str) -> str:
    """Without characters that would steer the terminal: others may have written this text."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )
