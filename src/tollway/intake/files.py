"""Reading records from a file, one at a time: CSV, JSON Lines, a JSON array, or a spreadsheet.

A record has its times as numbers. JSON comes from a program, which can send them; a column of a
table has what a person sees there, so its times may be written out.
"""

import csv
import errno
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, cast
from zoneinfo import ZoneInfo

import msgspec

from tollway.contract.fields import InvalidValueError
from tollway.contract.time_fields import Moment, milliseconds_of
from tollway.intake.json_records import ArrayError, as_bytes, as_text, split_array
from tollway.intake.raw_records import Columns, IntakeError, RawRecord
from tollway.intake.record_fields import UNIT_MS
from tollway.intake.record_problems import extra_of, fields_of
from tollway.intake.text_encodings import PIECE_BYTES, as_utf8

_LINE_MAX = 1_048_576
_KEPT_OF_TOO_LONG = 4096
_TELL_LINES = 1000
_TOO_LONG = "the line is over 1 MiB, and only its beginning is kept; write shorter records."
_DELIMITERS = ",\t;"
_HEADER_LINES_MAX = 100
# A line before the header, written for Excel.
_SAID_DELIMITER = re.compile(r'"?sep=([,\t;|])"?\s*', re.IGNORECASE)
# Excel writes 2026/1/5 9:30.
_WRITTEN_TIME = re.compile(r"([0-9]{4})[-/]([0-9]{1,2})[-/]([0-9]{1,2})(?:[ T]([0-9]{1,2})(:.+))?")
_MOMENT = Moment()


def read_records(path: Path, name: str = "") -> Iterator[RawRecord]:
    """The records of a file, in the format that its name says. A file that was uploaded has its
    `name` from the sender."""
    shown = name or path.name
    suffixes = [suffix.lower() for suffix in Path(shown).suffixes]
    is_packed = suffixes[-1:] == [".gz"]
    kind = "".join(suffixes[-2:-1] if is_packed else suffixes[-1:])
    if kind == ".xlsx" and not is_packed:
        # Imported here, because otherwise every command would load the library.
        from tollway.intake.spreadsheets import read_spreadsheet  # noqa: PLC0415

        yield from read_spreadsheet(path, name)
        return
    if kind not in _READERS:
        if path.is_dir():
            raise IntakeError(
                "{name} cannot be read: {why}.", name=str(path), why=os.strerror(errno.EISDIR)
            )
        raise IntakeError(
            "{name} is neither .csv, .jsonl nor .json (each may end in .gz), nor .xlsx: save "
            "it as one of these.",
            name=shown,
        )
    try:
        with path.open("rb") as file:
            content = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if is_packed else file
            # A pipe has no position.
            yield from _READERS[kind](as_utf8(content), file.tell if file.seekable() else int)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise IntakeError("{name} is not a whole gzip file: pack it again.", name=shown) from None
    except OSError as error:
        raise IntakeError(
            "{name} cannot be read: {why}.", name=name or str(path), why=error.strerror or ""
        ) from None


def _lines(content: BinaryIO) -> Iterator[tuple[int, bytes, bool]]:
    """Numbered lines, and whether each is complete: an overlong one is cut off."""
    number = 0
    while raw := content.readline(_LINE_MAX + 1):
        number += 1
        if len(raw) <= _LINE_MAX or raw.endswith(b"\n"):
            yield number, raw, True
            continue
        yield number, raw[:_KEPT_OF_TOO_LONG], False
        while raw and not raw.endswith(b"\n"):
            raw = content.readline(_LINE_MAX)


def _json_lines(content: BinaryIO, tell: Callable[[], int]) -> Iterator[RawRecord]:
    at_byte = 0
    for number, raw, is_whole in _lines(content):
        # Only now and then: on every line it would take a tenth of the reading time.
        if number % _TELL_LINES == 0:
            at_byte = tell()
        if not is_whole:
            yield RawRecord(number, raw, at_byte, (None, _TOO_LONG))
        elif not raw.isspace():
            yield RawRecord(number, raw, at_byte)


def _json_array(content: BinaryIO, tell: Callable[[], int]) -> Iterator[RawRecord]:
    """One array of objects. After a mistake between two objects, the rest cannot be separated."""
    text = io.TextIOWrapper(content, "utf-8", errors="surrogateescape", newline="")
    try:
        for item in split_array(iter(lambda: text.read(PIECE_BYTES), "")):
            yield RawRecord(item.line, as_bytes(item.text), tell())
    except ArrayError as error:
        raise IntakeError(
            "The file is not one whole JSON array: line {line} cannot be read. The {count:,} "
            "records before it were. A file with one object a line is .jsonl.",
            line=error.line,
            count=error.items,
        ) from None


class _CsvLines(Iterator[str]):
    """The lines of a file for the CSV reader, and those that it took for the current record."""

    def __init__(self, content: BinaryIO) -> None:
        self._lines = _lines(content)
        self.taken: list[str] = []
        self.too_long: set[int] = set()

    def __next__(self) -> str:
        number, raw, is_whole = next(self._lines)
        if not is_whole:
            self.too_long.add(number)
        self.taken.append(as_text(raw))
        return self.taken[-1]


def _csv(content: BinaryIO, tell: Callable[[], int]) -> Iterator[RawRecord]:
    """CSV with a header line. An empty cell is a missing value, and a line of empty cells is no
    record: spreadsheets save empty rows that way."""
    lines = _CsvLines(content)
    first, header = next(lines, ""), 1
    said = _SAID_DELIMITER.fullmatch(first)
    if said:
        first, header = next(lines, ""), 2
    # Some programs write semicolons, and Excel writes tabs where it writes UTF-16.
    delimiter = said[1] if said else max(_DELIMITERS, key=first.count)
    names = _cells(first, delimiter)
    if names is None:
        names, further = _names_over_lines(first, lines, delimiter)
        header += further
        if not names and "\r" in first.rstrip():
            raise IntakeError(
                "The header line of the file has no end, because its lines end with a carriage "
                "return alone (CR): save it again as CSV UTF-8."
            )
    columns = Columns(names)
    # Strict: otherwise an unclosed quote would silently take the records after it into its cell.
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        lines.taken.clear()
        line = rows.line_num + header + 1
        try:
            cells: list[str] | None = _trimmed(next(rows))
        except StopIteration:
            return
        except csv.Error:
            cells = None
        if cells is not None and not any(cells):
            continue
        together = lines.taken
        if cells is None or (len(together) > 1 and columns.problem(cells)):
            # An unclosed quote takes the lines after it along, so each line is read separately.
            alone = [(each, _cells(each, delimiter)) for each in together]
        else:
            alone = [("".join(together), cells)]
        for number, (source, found) in enumerate(alone, line):
            problem = _TOO_LONG if number in lines.too_long else ""
            yield columns.record(number, found, source, tell(), problem)


def _names_over_lines(first: str, lines: Iterator[str], delimiter: str) -> tuple[list[str], int]:
    """The names of columns, some of which have line breaks, and how many lines after the first
    they take; no names if they cannot be read."""
    header = chain([first], islice(lines, _HEADER_LINES_MAX - 1))
    # Strict: otherwise an unclosed quote would end at the next quote of any record.
    rows = csv.reader(header, delimiter=delimiter, strict=True)
    try:
        return _trimmed(next(rows)), rows.line_num - 1
    except csv.Error:
        return [], 0


def _cells(line: str, delimiter: str) -> list[str] | None:
    """The cells of one line; None if it is not CSV, for example because of an unclosed quote."""
    rows = csv.reader([line, ""], delimiter=delimiter)
    try:
        cells = _trimmed(next(rows))
    except csv.Error:
        return None
    # The reader goes on to the next line only within quotes.
    return cells if rows.line_num == 1 else None


def _trimmed(cells: list[str]) -> list[str]:
    # Many programs end a number with a tab, so that no spreadsheet rounds it.
    return list(map(str.strip, cells))


# Reads the records of a file that may be compressed; the second argument says how far in the file
# itself the reader is.
_READERS: dict[str, Callable[[BinaryIO, Callable[[], int]], Iterator[RawRecord]]] = {
    ".csv": _csv,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json_array,
}


def read_typed(
    path: Path, record_types: Sequence[type[msgspec.Struct]], zone: ZoneInfo, name: str = ""
) -> Iterator[RawRecord]:
    """The records of a file; times that a table writes out become numbers in the unit of their
    field. What is not such a time stays, for the check to refuse."""
    units = [
        (field.encode_name, unit_ms)
        for record_type in record_types
        for field, _ in fields_of(record_type)
        if (unit_ms := extra_of(field.type).get(UNIT_MS))
    ]
    for raw in read_records(path, name):
        if isinstance(raw.source, str) and raw.values is not None:
            for field_name, unit_ms in units:
                sent = raw.values.get(field_name)
                if isinstance(sent, str) and not sent.isdecimal():
                    at_ms = _milliseconds(sent, zone)
                    if at_ms is not None:
                        raw.values[field_name] = str(at_ms // unit_ms)
        yield raw


def _milliseconds(text: str, zone: ZoneInfo) -> int | None:
    found = _WRITTEN_TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, rest = found.groups()
    clock = f" {hour:0>2}{rest}" if hour else ""
    try:
        return milliseconds_of(_MOMENT.read(f"{year}-{month:0>2}-{day:0>2}{clock}"), zone)
    except InvalidValueError:
        return None
