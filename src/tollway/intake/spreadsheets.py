"""Reading records from a spreadsheet: the first sheet of an .xlsx file, row by row.

Cells are read as the texts that a CSV file would have, so that one check serves both.

A small file can unpack to any size, and what it says of its own sizes is not believed. Texts and
styles are kept in memory, and share one limit; of the sheet one row is in memory at a time, and
each has its own.
"""

import csv
import io
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, time
from pathlib import Path
from types import TracebackType
from typing import IO, Any, cast
from zipfile import ZipFile, ZipInfo

from openpyxl.reader.excel import ExcelReader
from openpyxl.styles.stylesheet import apply_stylesheet
from openpyxl.worksheet._read_only import ReadOnlyWorksheet

from tollway.intake.raw_records import Columns, IntakeError, RawRecord

# More digits than this were rounded when the number was typed.
_EXACT_BELOW = 10**15
_ERRORS = {"#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"}
# All that is read before the first row: texts take up to ten times as much in memory.
_TEXTS_MAX_BYTES = 32 * 1024 * 1024
# A row with all its cells, as XML; also what a sheet may have after its last row.
_ROW_MAX_BYTES = 2 * 1024 * 1024
_SHEET_MAX_BYTES = 2 * 1024 * 1024 * 1024
# What a sheet can have: rows may be left out of the file, and are counted all the same.
_ROWS_MAX = 1_048_576
_CELLS_MAX = 50_000_000
_PIECE_BYTES = 65_536


def read_spreadsheet(path: Path, name: str) -> Iterator[RawRecord]:
    rows = _rows(path, name)
    names = next(rows, [])
    columns = Columns([_text(name) for name in _without_end(names, 0)])
    size = path.stat().st_size
    for line, row in enumerate(rows, 2):
        cells = _without_end(row, len(columns))
        # Empty cells may also be left out at the end of a row.
        cells.extend([None] * (len(columns) - len(cells)))
        if any(cell is not None for cell in cells):
            texts = list(map(_text, cells))
            problem = _first_problem(columns, cells)
            yield columns.record(line, texts, _written(texts), size, problem)


def _without_end(cells: list[object], least: int) -> list[object]:
    """The cells without empty ones at the end, but at least this many."""
    while len(cells) > least and cells[-1] is None:
        cells.pop()
    return cells


def _rows(path: Path, name: str) -> Iterator[list[object]]:
    """The rows of the first sheet. Whatever a broken file makes the library raise is one error."""
    shown = name or path.name
    try:
        with (
            Parts(path, shown) as parts,
            closing(_first_sheet(path, parts).iter_rows(values_only=True)) as rows,
        ):
            parts.begin_row()
            while (row := _next(rows)) is not None:
                parts.begin_row(len(row))
                yield list(row)
    except (IntakeError, GeneratorExit):
        raise
    except OSError as error:
        raise IntakeError(
            "{name} cannot be read: {why}.", name=name or str(path), why=error.strerror or ""
        ) from None
    except Exception as error:
        raise IntakeError("{name} is not a whole .xlsx file: save it again.", name=shown) from error


class Parts(ZipFile):
    """An .xlsx file whose parts are read within limits."""

    def __init__(self, path: Path, shown: str) -> None:
        super().__init__(path)
        self._shown = shown
        self._left = _TEXTS_MAX_BYTES
        self._sheet_left = _SHEET_MAX_BYTES
        self._rows = 0
        self._cells = 0

    def open(self, name: str | ZipInfo, *_: Any, **__: Any) -> IO[bytes]:
        return cast("IO[bytes]", _Part(super().open(name), self))

    def begin_row(self, cells: int = 0) -> None:
        """What follows is a row; the one before had so many cells."""
        self._left = _ROW_MAX_BYTES
        self._rows += 1
        self._cells += cells
        if self._rows > _ROWS_MAX + 1 or self._cells > _CELLS_MAX:
            raise self._too_large()

    def count(self, number: int) -> None:
        """So many bytes were unpacked."""
        self._left -= number
        if self._rows:
            self._sheet_left -= number
        if self._rows and self._left < 0:
            raise IntakeError(
                "{name} has a row that is too large, after line {line}: shorten it, or save the "
                "file as .csv.",
                name=self._shown,
                line=self._rows - 1,
            )
        if self._left < 0 or self._sheet_left < 0:
            raise self._too_large()

    def _too_large(self) -> IntakeError:
        return IntakeError(
            "{name} is too large for a spreadsheet: save it as .csv.", name=self._shown
        )


class _Part(io.RawIOBase):
    """A part, unpacked in small pieces: in one piece it would be in memory before it is counted."""

    def __init__(self, packed: IO[bytes], parts: Parts) -> None:
        super().__init__()
        self._packed = packed
        self._parts = parts

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        most = _PIECE_BYTES if size is None or size < 0 else min(size, _PIECE_BYTES)
        found = bytearray()
        while piece := self._packed.read(most):
            self._parts.count(len(piece))
            if size is not None and size >= 0:
                return piece
            found += piece
        return bytes(found)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._packed.close()
        super().__exit__(kind, error, trace)


class _Sheet(ReadOnlyWorksheet):  # type: ignore[misc]  # the library has no types
    """A sheet of any size: what it says of its size may be wrong, and to look for it may take to
    read all of it."""

    def _get_size(self) -> None: ...


def _first_sheet(path: Path, parts: Parts) -> _Sheet:
    """The first sheet; its parts are read within limits, now and later."""
    with _quiet():
        reader = ExcelReader(path, read_only=True, data_only=True, keep_links=False)
        reader.archive.close()
        reader.archive = parts
        reader.read_manifest()
        reader.read_strings()
        reader.read_workbook()
        # The styles tell dates from numbers.
        apply_stylesheet(parts, reader.wb)
        sheets = (
            _Sheet(reader.wb, sheet.name, part.target, reader.shared_strings)
            for sheet, part in reader.parser.find_sheets()
            if part.target in reader.valid_files and "chartsheet" not in part.Type
        )
        return next(sheets)


def _next(rows: Iterator[tuple[object, ...]]) -> tuple[object, ...] | None:
    with _quiet():
        return next(rows, None)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings of styles and the like, which are not read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _first_problem(columns: Columns, cells: list[object]) -> str:
    for number, cell in enumerate(cells):
        if isinstance(cell, int | float) and abs(cell) >= _EXACT_BELOW:
            problem = "it is a number of over 15 digits, which a spreadsheet rounds"
            return f"{columns.name(number)}: {problem}; format the column as text."
        if isinstance(cell, str) and cell in _ERRORS:
            return f"{columns.name(number)}: its formula has the error {cell}; correct it."
    return ""


def _text(cell: object) -> str:
    """What a CSV file would have in this cell."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        # As many digits as a spreadsheet shows: the last ones of 157.09999999999999 are made up.
        return f"{cell:.15g}"
    if isinstance(cell, datetime) and cell.time() == time():
        return cell.date().isoformat()
    return cell.isoformat(" ") if isinstance(cell, datetime) else str(cell)


def _written(texts: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(texts)
    return line.getvalue()
