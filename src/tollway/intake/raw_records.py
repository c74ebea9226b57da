"""A record as it stands in a file, before it is checked, and the columns of a table."""

import re
from collections.abc import Sequence

import msgspec

from tollway.contract.fields import bare
from tollway.contract.language import SentenceError
from tollway.intake.json_records import as_bytes
from tollway.intake.record_problems import LostCell, LostCellError, WholeRecordError, read_object

_TEXT_FORMULA = re.compile(r'\A="([^"]*)"\Z')
_TEXT_MARK = re.compile(r"\A'([0-9]+)\Z")
# How spreadsheets, and programs that take an id for a number, write one of 12 digits or more:
# rounded, so that different ids become the same.
_ROUNDED = re.compile(r"-?[0-9](\.[0-9]+)?[eE]\+(0?(1[1-9]|[2-9][0-9])|[1-9][0-9]{2})")
_WAS_ROUNDED = (
    "it is a long number that a spreadsheet rounded, as 1.2E+17; load the original file, or "
    "format the column as text before saving."
)
_NOT_CSV = (
    "the line is not CSV; put cells that have quotes or line breaks into quotes, "
    "and at most 131,072 characters into each."
)


class IntakeError(SentenceError):
    """A file cannot be loaded at all; the text is for the operator."""


class RawRecord(msgspec.Struct, gc=False):
    """One record as it stands in the file; `at_byte` shows progress.

    `read` has its values, or why it has none. JSON is parsed only on demand: most of it is checked
    without.
    """

    line: int
    source: bytes | str
    at_byte: int
    read: tuple[dict[str, object] | None, str] | None = None

    @property
    def values(self) -> dict[str, object] | None:
        return self._reading()[0]

    @property
    def problem(self) -> str:
        return self._reading()[1]

    def all_values(self) -> dict[str, object]:
        """The values; raises ValueError if there are none, or a cell is lost."""
        if self.values is None:
            raise ValueError(self.problem)
        for name, value in self.values.items():
            if isinstance(value, LostCell):
                raise LostCellError(name, value)
        return self.values

    def _reading(self) -> tuple[dict[str, object] | None, str]:
        if self.read is None:
            try:
                self.read = read_object(self._as_bytes()), ""
            except WholeRecordError as error:
                self.read = None, str(error)
        return self.read

    def text(self) -> str:
        """The record as it was written; bytes that are not UTF-8 are escaped."""
        return self._as_bytes().decode(errors="backslashreplace").rstrip("\r\n")

    def _as_bytes(self) -> bytes:
        return as_bytes(self.source) if isinstance(self.source, str) else self.source


class Columns:
    """The columns of a table, by the names that its first line gives them."""

    def __init__(self, names: list[str]) -> None:
        # Templates break long names into lines, and a second byte order mark cannot be seen.
        self._names = [" ".join(bare(name).split()) for name in names]
        if not all(name.isprintable() for name in self._names) or not any(self._names):
            raise IntakeError("The file has no header line: its first line names the columns.")
        numbers: dict[str, int] = {}
        for number, name in enumerate(self._names, 1):
            first = numbers.setdefault(name, number)
            if name and first < number:
                # Without the name: if there is no header line, it is a value of the first record.
                raise IntakeError(
                    "Columns {first} and {second} of the file have the same name: rename or remove "
                    "one of them.",
                    first=first,
                    second=number,
                )

    def __len__(self) -> int:
        return len(self._names)

    def problem(self, cells: Sequence[object]) -> str:
        if len(cells) == len(self._names):
            return ""
        cell = "cell" if len(cells) == 1 else "cells"
        return (
            f"the line has {len(cells)} {cell}, the header {len(self._names)}; "
            "leave a cell empty that has no value."
        )

    def record(
        self,
        line: int,
        cells: Sequence[str | LostCell] | None,
        source: str,
        at_byte: int,
        problem: str = "",
    ) -> RawRecord:
        if not problem:
            problem = _NOT_CSV if cells is None else self.problem(cells)
        if problem or cells is None:
            return RawRecord(line, source, at_byte, (None, problem))
        if '="' in source:
            # Many programs write ="123", so that no spreadsheet rounds a number.
            cells = [
                _TEXT_FORMULA.sub(r"\1", cell) if isinstance(cell, str) else cell for cell in cells
            ]
        if "'" in source:
            # For the same reason some write '123: the mark with which one types a text into a cell.
            cells = [
                _TEXT_MARK.sub(r"\1", cell) if isinstance(cell, str) else cell for cell in cells
            ]
        if "E+" in source or "e+" in source:
            cells = [
                LostCell(cell, _WAS_ROUNDED)
                if isinstance(cell, str) and _ROUNDED.fullmatch(cell)
                else cell
                for cell in cells
            ]
        given: dict[str, object] = dict(zip(self._names, cells, strict=True))
        if "" in cells:
            given = {name: cell for name, cell in given.items() if cell != ""}
        return RawRecord(line, source, at_byte, (given, ""))
