"""Reading records from a spreadsheet: the first sheet of an .xlsx file, row by row.

Cells are read as the texts that a CSV file would have, so that one check serves both.
"""

import csv
import io
import re
import warnings
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, time
from pathlib import Path
from typing import Any

from openpyxl.reader.excel import ExcelReader
from openpyxl.worksheet._reader import ROW_TAG, WorkSheetParser
from openpyxl.xml.functions import iterparse

from tollway.intake.raw_records import Columns, IntakeError, RawRecord
from tollway.intake.record_problems import LostCell
from tollway.intake.spreadsheet_parts import Parts
from tollway.intake.spreadsheet_styles import read_date_styles

# More digits than this were rounded when the number was typed.
_EXACT_BELOW = 10**15
_ERRORS = {"#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!", "#SPILL!", "#CALC!"}
# XML has no way to write most control characters: a carriage return is _x000D_.
_ESCAPED = re.compile("_x00([01][0-9A-Fa-f])_")


def read_spreadsheet(path: Path, name: str = "") -> Iterator[RawRecord]:
    rows = _rows(path, name)
    names = next(rows, [])
    columns = Columns([str(_read(name)) for name in _without_end(names, 0)])
    size = path.stat().st_size
    for line, row in enumerate(rows, 2):
        cells = _without_end(row, len(columns))
        # Empty cells may also be left out at the end of a row.
        cells.extend([None] * (len(columns) - len(cells)))
        read = list(map(_read, cells))
        texts = list(map(str, read))
        if any(map(str.strip, texts)):
            yield columns.record(line, read, _written(texts), size)


def _without_end(cells: list[object], least: int) -> list[object]:
    """The cells without empty ones at the end, but at least this many."""
    while len(cells) > least and cells[-1] is None:
        cells.pop()
    return cells


def _rows(path: Path, name: str) -> Iterator[list[object]]:
    """The rows of the first sheet. Whatever a broken file makes the library raise is one error."""
    shown = name or path.name
    try:
        with Parts(path, shown) as parts, closing(_first_sheet(path, parts)) as rows:
            for row in rows:
                parts.begin_row(len(row))
                yield row
    except (IntakeError, GeneratorExit):
        raise
    except OSError as error:
        raise IntakeError(
            "{name} cannot be read: {why}.", name=name or str(path), why=error.strerror or ""
        ) from None
    except Exception as error:
        raise IntakeError("{name} is not a whole .xlsx file: save it again.", name=shown) from error


def _first_sheet(path: Path, parts: Parts) -> Generator[list[object]]:
    """The rows of the first sheet, and of all else only what they need: the library refuses filters
    and styles as some programs write them. What a sheet says of its own size may be wrong."""
    with _quiet():
        reader = ExcelReader(path, read_only=True, data_only=True, keep_links=False)
        reader.archive.close()
        reader.archive = parts
        reader.read_manifest()
        reader.read_strings()
        reader.read_workbook()
        styles = read_date_styles(parts)
        sheet = next(
            part.target
            for _, part in reader.parser.find_sheets()
            if part.target in reader.valid_files and "chartsheet" not in part.Type
        )
    parts.begin_row()
    line = 0
    with parts.open(sheet) as source:
        parser = WorkSheetParser(
            source,
            reader.shared_strings,
            data_only=True,
            epoch=reader.wb.epoch,
            date_formats=styles.dates,
            timedelta_formats=styles.durations,
        )
        for _, element in iterparse(source):
            if element.tag != ROW_TAG:
                continue
            with _quiet():
                number, cells = parser.parse_row(element)
            element.clear()
            # Rows may be left out of the file.
            for _ in range(line + 1, number):
                yield []
            if line < number:
                line = number
                yield _placed(cells)


def _placed(cells: list[dict[str, Any]]) -> list[object]:
    """The values of a row by their columns, of which some may be left out of the file."""
    values: dict[int, object] = {cell["column"]: cell["value"] for cell in cells}
    return [values.get(column) for column in range(1, max(values, default=0) + 1)]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings of what is not read, and of dates that are none, which are errors then."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _read(cell: object) -> str | LostCell:
    text = _text(cell)
    if isinstance(cell, int | float) and abs(cell) >= _EXACT_BELOW:
        problem = "it is a number of over 15 digits, which a spreadsheet rounds"
        return LostCell(text, f"{problem}; format the column as text.")
    if text in _ERRORS:
        return LostCell(text, f"its formula has the error {text}; correct it.")
    return text


def _text(cell: object) -> str:
    """What a CSV file would have in this cell."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), cell)
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
