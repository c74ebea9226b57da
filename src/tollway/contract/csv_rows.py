"""Rows of CSV files, which people open with a spreadsheet."""

import csv
from collections.abc import Iterable
from typing import TextIO

# A text that begins so is a formula to one spreadsheet or another. The wide ones are: some take
# them for the narrow ones.
_BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class CsvWriter:
    """Writes rows of which no spreadsheet takes a cell for a formula."""

    def __init__(self, stream: TextIO) -> None:
        self._rows = csv.writer(stream, lineterminator="\r\n")

    def write(self, cells: Iterable[object]) -> None:
        self._rows.writerow(map(_harmless, cells))


def _harmless(cell: object) -> object:
    """A text that begins like a formula is marked as a text."""
    if isinstance(cell, str) and cell.startswith(_BEGINS_FORMULA):
        return f"'{cell}"
    return cell
