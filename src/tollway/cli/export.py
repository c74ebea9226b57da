"""Writing an account's entries out, page by page, so that memory does not grow with the books."""

import csv
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TextIO
from zoneinfo import ZoneInfo

import msgspec

from tollway.cli.files import new_file
from tollway.ledger.entries import Entry, newest_entries
from tollway.store.database import Reader

_PAGE_ENTRIES = 1000


class Format(StrEnum):
    """What an export looks like."""

    CSV = "csv"
    JSON_LINES = "jsonl"
    JSON_ARRAY = "array"


class EntryWriter(Protocol):
    """Writes entries in one format."""

    def write(self, entries: Sequence[Entry]) -> None: ...

    def finish(self) -> None: ...


class CsvWriter:
    """One line per entry under a heading; `at` is `at_ms` as people read it."""

    def __init__(self, stream: TextIO, zone: ZoneInfo) -> None:
        self._zone = zone
        self._csv = csv.writer(stream, lineterminator="\n")
        self._csv.writerow(("at", *Entry.__struct_fields__))

    def write(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            at = datetime.fromtimestamp(entry.at_ms / 1000, self._zone)
            shown_at = at.isoformat(timespec="milliseconds")
            self._csv.writerow((shown_at, *msgspec.structs.astuple(entry)))

    def finish(self) -> None:
        """A CSV file just ends."""


class JsonLinesWriter:
    """One JSON object per entry, each on a line of its own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._stream.write(msgspec.json.encode(entry).decode() + "\n")

    def finish(self) -> None:
        """A file of lines just ends."""


class JsonArrayWriter:
    """One JSON array of all entries."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._separator = ""
        stream.write("[")

    def write(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._stream.write(f"{self._separator}\n  {msgspec.json.encode(entry).decode()}")
            self._separator = ","

    def finish(self) -> None:
        self._stream.write("\n]\n")


def entry_writer(format_: Format, stream: TextIO, zone: ZoneInfo) -> EntryWriter:
    if format_ is Format.CSV:
        return CsvWriter(stream, zone)
    if format_ is Format.JSON_LINES:
        return JsonLinesWriter(stream)
    return JsonArrayWriter(stream)


async def pages_from_oldest(
    reader: Reader, account_id: str, unit: str
) -> AsyncIterator[list[Entry]]:
    """The entries of a balance from the first on, up to the one that is the newest now."""
    newest = await newest_entries(reader, account_id, unit, 1)
    last_number = newest[0].number if newest else 0
    for start in range(0, last_number, _PAGE_ENTRIES):
        page = await newest_entries(
            reader, account_id, unit, _PAGE_ENTRIES, before_number=start + _PAGE_ENTRIES + 1
        )
        # Should a number be missing, the page reaches back into the one before; and it may reach
        # beyond the last when calls go on being charged.
        yield [entry for entry in reversed(page) if start < entry.number <= last_number]


@contextmanager
def destination(out: Path | None) -> Iterator[TextIO]:
    """Where an export goes: a new file, or standard output."""
    if out is None:
        yield sys.stdout
        return
    with new_file(out) as path, path.open("w", encoding="utf-8", newline="") as stream:
        yield stream
