"""Reading records from a spreadsheet: the first sheet of an .xlsx file, row by row.

Cells are read as the texts that a CSV file would have, so that one check serves both.
"""

import csv
import io
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, time
from pathlib import Path

from openpyxl.reader.excel import ExcelReader
from openpyxl.styles.stylesheet import apply_stylesheet
from openpyxl.worksheet._read_only import ReadOnlyWorksheet

from tollway.intake.raw_records import Columns, IntakeError, RawRecord
from tollway.intake.spreadsheet_parts import Parts

# More digits than this were rounded when the number was typed.
_EXACT_BELOW = 10**15
_ERRORS = {"#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"}


def read_spreadsheet(path: Path, name: str = "") -> Iterator[RawRecord]:
    rows = _rows(path, name)
    names = next(rows, [])
    columns = Columns([_text(name) for name in _without_end(names, 0)])
    size = path.stat().st_size
    for line, row in enumerate(rows, 2):
        cells = _without_end(row, len(columns))
        # Empty cells may also be left out at the end of a row.
        cells.extend([None] * (len(columns) - len(cells)))
        texts = list(map(_text, cells))
        if any(map(str.strip, texts)):
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
