"""Reading records from a file: CSV or JSON Lines, plain or gzip, one at a time."""

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import msgspec

_LINE_MAX = 1_048_576
_TELL_LINES = 1000
_decoder = msgspec.json.Decoder()


class IntakeError(Exception):
    """A file cannot be loaded at all; the text is one sentence for the operator."""


class RawRecord(NamedTuple):
    """One record as it stands in the file, or why it cannot be read; `at_byte` tells progress."""

    line: int
    values: dict[str, object] | None
    problem: str
    source: bytes | str | list[str]
    at_byte: int

    def text(self) -> str:
        """The record as it was written; only what is rejected is ever asked for it."""
        if isinstance(self.source, list):
            return _csv_text(self.source)
        text = self.source if isinstance(self.source, str) else self.source.decode(errors="replace")
        return text.rstrip("\n")


def read_records(path: Path) -> Iterator[RawRecord]:
    """The records of a file; its name says how it is written."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    is_packed = bool(suffixes) and suffixes[-1] == ".gz"
    kind = suffixes[-2:-1] if is_packed else suffixes[-1:]
    if kind not in (*_CSV_NAMES, *_JSON_NAMES):
        raise IntakeError(
            f"{path.name} is neither .csv nor .jsonl (either may end in .gz): rename it."
        )
    read = _csv if kind in _CSV_NAMES else _json_lines
    try:
        with path.open("rb") as file:
            content = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if is_packed else file
            yield from read(content, file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise IntakeError(f"{path.name} is not a whole gzip file: {error}.") from None
    except OSError as error:
        raise IntakeError(f"{path} cannot be read: {error.strerror}.") from None


_CSV_NAMES = ([".csv"],)
_JSON_NAMES = ([".jsonl"], [".ndjson"])


def _lines(content: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines; None for one that is endless."""
    number = 0
    while raw := content.readline(_LINE_MAX + 1):
        number += 1
        if len(raw) <= _LINE_MAX or raw.endswith(b"\n"):
            yield number, raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            continue
        while raw and not raw.endswith(b"\n"):
            raw = content.readline(_LINE_MAX)
        yield number, None


def _texts(content: BinaryIO) -> Iterator[str]:
    """Lines as text; a NUL for one that is none."""
    for _, raw in _lines(content):
        try:
            yield "\0" if raw is None else raw.decode()
        except UnicodeDecodeError:
            yield "\0"


def _json_lines(content: BinaryIO, file: BinaryIO) -> Iterator[RawRecord]:
    at_byte = 0
    for number, raw in _lines(content):
        # Asked for now and then only: on every line it would cost a tenth of the reading.
        if number % _TELL_LINES == 0:
            at_byte = file.tell()
        if raw is None:
            yield RawRecord(number, None, "the line is over 1 MiB", "", at_byte)
            continue
        try:
            values = _decoder.decode(raw)
        except UnicodeDecodeError:
            yield RawRecord(number, None, "the line is not UTF-8", raw, at_byte)
            continue
        except (msgspec.DecodeError, RecursionError):
            if raw.isspace():
                continue
            values = None
        if isinstance(values, dict):
            yield RawRecord(number, values, "", raw, at_byte)
        else:
            yield RawRecord(number, None, "the line is not a JSON object", raw, at_byte)


def _csv(content: BinaryIO, file: BinaryIO) -> Iterator[RawRecord]:
    """CSV with a header line. An empty cell is a value that was not given."""
    lines: list[str] = []

    def noted() -> Iterator[str]:
        for text in _texts(content):
            lines.append(text)
            yield text

    rows = csv.reader(noted())
    try:
        header = next(rows, None)
    except csv.Error as error:
        raise IntakeError(f"The CSV file's header line cannot be read: {error}.") from None
    if not header or "\0" in header:
        raise IntakeError("The CSV file has no header line: its first line names the columns.")
    while True:
        lines.clear()
        first_line = rows.line_num + 1
        try:
            cells: list[str] | None = next(rows)
        except StopIteration:
            return
        except csv.Error:
            cells = None
        if cells == []:
            continue
        if len(lines) > 1 and (cells is None or _problem(header, cells)):
            # A quote that is never closed takes the lines after it along: each is read alone.
            for offset, line in enumerate(lines):
                yield _csv_record(first_line + offset, header, _cells(line), file.tell())
        else:
            yield _csv_record(first_line, header, cells, file.tell())


def _csv_record(line: int, header: list[str], cells: list[str] | None, at_byte: int) -> RawRecord:
    if cells is None:
        return RawRecord(line, None, "the line is not CSV", "", at_byte)
    problem = _problem(header, cells)
    return RawRecord(line, None if problem else _given(header, cells), problem, cells, at_byte)


def _cells(line: str) -> list[str] | None:
    try:
        return next(csv.reader([line]), None)
    except csv.Error:
        return None


def _problem(header: list[str], cells: list[str]) -> str:
    if "\0" in "".join(cells):
        return "the line is not UTF-8, over 1 MiB, or has a NUL"
    if len(cells) != len(header):
        return f"the line has {len(cells)} cells, the header {len(header)}"
    return ""


def _given(header: list[str], cells: list[str]) -> dict[str, object]:
    values: dict[str, object] = dict(zip(header, cells, strict=True))
    if "" in cells:
        return {name: cell for name, cell in values.items() if cell != ""}
    return values


def _csv_text(cells: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()
