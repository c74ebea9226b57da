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
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        if len(raw) <= _LINE_MAX or raw.endswith(b"\n"):
            yield number, raw
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
        except (msgspec.DecodeError, RecursionError):
            if raw.isspace():
                continue
            values = None
        if isinstance(values, dict):
            yield RawRecord(number, values, "", raw, at_byte)
        else:
            yield RawRecord(number, None, "the line is not a JSON object in UTF-8", raw, at_byte)


def _csv(content: BinaryIO, file: BinaryIO) -> Iterator[RawRecord]:
    """CSV with a header line. An empty cell is a value that was not given."""
    rows = csv.reader(_texts(content))
    header = next(rows, None)
    if not header or "\0" in header:
        raise IntakeError("The CSV file has no header line: its first line names the columns.")
    while True:
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield RawRecord(rows.line_num, None, f"the line is not CSV: {error}", "", file.tell())
            continue
        if not cells:
            continue
        problem = "" if len(cells) == len(header) else _miscount(len(cells), len(header))
        if "\0" in "".join(cells):
            problem = "the line is not UTF-8, over 1 MiB, or has a NUL"
        kept = None if problem else _given(header, cells)
        yield RawRecord(rows.line_num, kept, problem, cells, file.tell())


def _given(header: list[str], cells: list[str]) -> dict[str, object]:
    values: dict[str, object] = dict(zip(header, cells, strict=True))
    if "" in cells:
        return {name: cell for name, cell in values.items() if cell != ""}
    return values


def _miscount(found: int, expected: int) -> str:
    return f"the line has {found} cells, the header {expected}"


def _csv_text(cells: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()
