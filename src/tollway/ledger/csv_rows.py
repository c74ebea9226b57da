"""Rows of CSV files that people open in a spreadsheet."""

import csv
from collections.abc import Iterable
from typing import TextIO

# Some spreadsheet takes a text with one of these prefixes for a formula; some treat the full-width
# characters like the ASCII ones.
_BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class CsvWriter:
    """Writes rows whose cells no spreadsheet takes for a formula."""

    def __init__(self, stream: TextIO) -> None:
        self._rows = csv.writer(stream, lineterminator="\r\n")

    def write(self, cells: Iterable[object]) -> None:
        self._rows.writerow(map(_harmless, cells))


def _harmless(cell: object) -> object:
    """Marks a text that begins like a formula as text."""
    if isinstance(cell, str) and cell.startswith(_BEGINS_FORMULA):
        return f"'{cell}"
    return cell
