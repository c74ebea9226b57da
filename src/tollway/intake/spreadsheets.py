"""Reading records from a spreadsheet: the first visible sheet of an .xlsx file, row by row.

Cells are read as the texts that a CSV file would have, so that one check serves both.

A small file can unpack to any size, so the sizes that it states are not trusted. Texts and styles
are kept in memory, and share one limit; of the sheet only one row is in memory at a time, and each
row has its own limit.
"""

import csv
import io
import re
import stat
import warnings
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, time
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from openpyxl.reader.excel import ExcelReader
from openpyxl.styles.numbers import builtin_format_code, is_date_format, is_timedelta_format
from openpyxl.worksheet._reader import FORMULA_TAG, ROW_TAG, WorkSheetParser
from openpyxl.xml.constants import ARC_STYLE, SHEET_MAIN_NS
from openpyxl.xml.functions import fromstring, iterparse

from tollway.intake.raw_records import Columns, IntakeError, RawRecord
from tollway.intake.record_problems import LostCell

# A number with more digits was rounded when it was typed.
_EXACT_BELOW = 10**15
_ERRORS = {"#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!", "#SPILL!", "#CALC!"}
# Otherwise the cell would count as left out.
_UNCOMPUTED = LostCell(
    "=", "its formula has no value yet; open the file in a spreadsheet program and save it."
)
_COMPOUND = bytes.fromhex("D0CF11E0A1B11AE1")
_HIDDEN = ("hidden", "veryHidden")
# XML cannot contain most control characters, so a carriage return is written as _x000D_.
_ESCAPED = re.compile("_x00([01][0-9A-Fa-f])_")
# Formats built into Chinese versions of Excel, such as 2026年1月31日: the file does not define
# them, and all of them are dates or times.
_CHINESE_DATES = {*range(27, 37), *range(50, 59)}
_MAIN = f"{{{SHEET_MAIN_NS}}}"
_ROWS_TAG = f"{_MAIN}sheetData"
# For all that is read before the first row: in memory, texts take up to ten times as much.
_TEXTS_MAX_BYTES = 32 * 1024 * 1024
# A row with all its cells, as XML; also what a sheet may have before its first row.
_ROW_MAX_BYTES = 2 * 1024 * 1024
_SHEET_MAX_BYTES = 2 * 1024 * 1024 * 1024
# The most that a sheet can have: rows may be left out of the file, but count all the same.
_ROWS_MAX = 1_048_576
_CELLS_MAX = 50_000_000
_PIECE_BYTES = 65_536
# Custom entities can blow a text up a hundredfold; no real spreadsheet has any.
_ENTITY = b"<!ENTITY"


def read_spreadsheet(path: Path, name: str) -> Iterator[RawRecord]:
    rows = _rows(path, name)
    names = next(rows, [])
    columns = Columns([str(_read(name)) for name in _without_end(names, 0)])
    size = path.stat().st_size
    for line, row in enumerate(rows, 2):
        cells = _without_end(row, len(columns))
        # Empty cells may also be left out at the end of a row.
        cells.extend([None] * (len(columns) - len(cells)))
        read = list(map(_read, cells))
        # Templates have formulas filled down beyond the last record.
        if any(str(cell) for cell in read if cell is not _UNCOMPUTED):
            yield columns.record(line, read, _written(list(map(str, read))), size)


def _without_end(cells: list[object], least: int) -> list[object]:
    """The cells without empty ones at the end, but at least this many."""
    while len(cells) > least and cells[-1] is None:
        cells.pop()
    return cells


def _rows(path: Path, name: str) -> Iterator[list[object]]:
    """The rows of the first visible sheet. Whatever the library raises for a broken file becomes
    one error."""
    shown = name or path.name
    try:
        _refuse_pipes(path, shown)
        with LimitedZipFile(path, shown) as parts, closing(_first_sheet(path, parts)) as rows:
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
        if _is_compound(path):
            raise IntakeError(
                "{name} has a password, or is an .xls file: save it as .xlsx, without a password.",
                name=shown,
            ) from error
        raise IntakeError("{name} is not a whole .xlsx file: save it again.", name=shown) from error


def _refuse_pipes(path: Path, shown: str) -> None:
    """Refuses what cannot be read more than once, and could make reading wait for ever."""
    mode = path.stat().st_mode
    # What is wrong with a folder, the system says.
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise IntakeError("{name} is not a regular file: save it to disk first.", name=shown)


def _is_compound(path: Path) -> bool:
    """Whether a file is of the kind that .xls files are, and .xlsx files with a password."""
    with path.open("rb") as file:
        return file.read(len(_COMPOUND)) == _COMPOUND


class LimitedZipFile(ZipFile):
    """An .xlsx file whose parts are read within limits."""

    def __init__(self, path: Path, shown: str) -> None:
        super().__init__(path)
        self._shown = shown
        self._left = _TEXTS_MAX_BYTES
        self._sheet_left = _SHEET_MAX_BYTES
        self._rows = 0
        self._cells = 0

    def open(self, name: str | ZipInfo, *_: Any, **__: Any) -> IO[bytes]:
        # With other methods, which no spreadsheet uses, one piece can unpack to any size.
        part = name if isinstance(name, ZipInfo) else self.getinfo(name)
        if part.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise ValueError("a part is packed in another way")
        return cast("IO[bytes]", _Part(super().open(part), self))

    def begin_row(self, cells: int = 0) -> None:
        """Starts the limits of the next row; the previous one had so many cells."""
        self._left = _ROW_MAX_BYTES
        self._rows += 1
        self._cells += cells
        if self._rows > _ROWS_MAX + 1 or self._cells > _CELLS_MAX:
            raise self._too_large()

    def count(self, number: int) -> None:
        """Counts unpacked bytes against the limits."""
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
    """A part, unpacked in small pieces: otherwise all of it would be in memory before it counts."""

    def __init__(self, packed: IO[bytes], parts: LimitedZipFile) -> None:
        super().__init__()
        self._packed = packed
        self._parts = parts
        self._before = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        most = _PIECE_BYTES if size is None or size < 0 else min(size, _PIECE_BYTES)
        found = bytearray()
        while piece := self._packed.read(most):
            self._parts.count(len(piece))
            self._refuse_entities(piece)
            if size is not None and size >= 0:
                return piece
            found += piece
        return bytes(found)

    def _refuse_entities(self, piece: bytes) -> None:
        # In UTF-16, every other byte is zero.
        text = self._before + piece.replace(b"\0", b"")
        if _ENTITY in text:
            raise ValueError("a spreadsheet declares entities")
        self._before = text[1 - len(_ENTITY) :]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._packed.close()
        super().__exit__(kind, error, trace)


def _first_sheet(path: Path, parts: LimitedZipFile) -> Generator[list[object]]:
    """Reads the rows of the first visible sheet, and nothing else but what they need: the library
    refuses filters and styles that some programs write. The size that a sheet states may be
    wrong."""
    # The library would refuse the name of an uploaded file.
    with _quiet(), path.open("rb") as file:
        reader = ExcelReader(file, read_only=True, data_only=True, keep_links=False)
        reader.archive.close()
        reader.archive = parts
        reader.read_manifest()
        reader.read_strings()
        reader.read_workbook()
        styles = _date_styles(parts)
        sheets = [
            (each.state in _HIDDEN, part.target)
            for each, part in reader.parser.find_sheets()
            if part.target in reader.valid_files and "chartsheet" not in part.Type
        ]
    # Templates of marketplaces begin with hidden sheets, which hold the choices of lists.
    _, sheet = min(sheets, key=itemgetter(0))
    parts.begin_row()
    with parts.open(sheet) as source:
        parser = WorkSheetParser(
            source,
            reader.shared_strings,
            data_only=True,
            epoch=reader.wb.epoch,
            date_formats=styles.dates,
            timedelta_formats=styles.durations,
        )
        yield from _parsed_rows(source, parser)


def _parsed_rows(source: IO[bytes], parser: WorkSheetParser) -> Iterator[list[object]]:
    line = 0
    for _, element in iterparse(source):
        if element.tag == _ROWS_TAG:
            # What follows, such as links and merged cells, is not read, however large.
            return
        if element.tag != ROW_TAG:
            continue
        with _quiet():
            number, cells = parser.parse_row(element)
        for cell, written in zip(cells, element, strict=True):
            if cell["value"] is None and _is_uncomputed(written):
                cell["value"] = _UNCOMPUTED
        element.clear()
        # What is said of the whole row, such as its height; it would be kept for every row.
        parser.row_dimensions.clear()
        if number <= line:
            raise ValueError("rows are out of order")
        # Rows may be left out of the file.
        for _ in range(line + 1, number):
            yield []
        line = number
        yield _placed(cells)


def _is_uncomputed(cell: Any) -> bool:
    """Whether an empty cell has a formula that no program has computed yet; one whose result is an
    empty text says so by its type."""
    return cell.find(FORMULA_TAG) is not None and cell.get("t") != "str"


def _placed(cells: list[dict[str, Any]]) -> list[object]:
    """The values of a row in their columns, some of which may be left out of the file."""
    values: dict[int, object] = {cell["column"]: cell["value"] for cell in cells}
    return [values.get(column) for column in range(1, max(values, default=0) + 1)]


class _DateStyles(NamedTuple):
    """The numbers of the styles for dates and times, and of those for durations."""

    dates: set[int]
    durations: set[int]


def _date_styles(parts: LimitedZipFile) -> _DateStyles:
    found = _DateStyles(set(), set())
    if ARC_STYLE not in parts.namelist():
        return found
    styles = fromstring(parts.read(ARC_STYLE))
    own = {
        each.get("numFmtId"): each.get("formatCode")
        for each in styles.iterfind(f"{_MAIN}numFmts/{_MAIN}numFmt")
    }
    for number, style in enumerate(styles.iterfind(f"{_MAIN}cellXfs/{_MAIN}xf")):
        format_id = style.get("numFmtId", "0")
        shown = own.get(format_id) or builtin_format_code(int(format_id))
        if is_date_format(shown) or (shown is None and int(format_id) in _CHINESE_DATES):
            found.dates.add(number)
        if is_timedelta_format(shown):
            found.durations.add(number)
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses warnings about what is not read, and about invalid dates, which become errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _read(cell: object) -> str | LostCell:
    if isinstance(cell, LostCell):
        return cell
    text = _text(cell).strip()
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
        # As many digits as a spreadsheet shows: the last ones of 157.09999999999999 are noise.
        return f"{cell:.15g}"
    if isinstance(cell, datetime) and cell.time() == time():
        return cell.date().isoformat()
    return cell.isoformat(" ") if isinstance(cell, datetime) else str(cell)


def _written(texts: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(texts)
    return line.getvalue()
