"""Saves records in a file: CSV, JSON Lines or Parquet, by how its name ends.

The file appears under its name when it is whole. What was saved of an export that breaks off stays
beside it, and `download` goes on from there.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any, Callable, Optional, get_args, get_type_hints

from tollway_client.errors import ParameterError

_ROWS_AT_ONCE = 5000


def _csv(records: Iterator[Any], path: Path, kind: type) -> int:
    count = 0
    # The mark at its start tells Excel that it is UTF-8.
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(kind)])
        writer.writeheader()
        for record in records:
            writer.writerow({name: _harmless(value) for name, value in asdict(record).items()})
            count += 1
    return count


def _harmless(value: Any) -> Any:
    """A spreadsheet would take a text that begins so for a formula, and run it."""
    if isinstance(value, str) and value.startswith(tuple("=+-@\t\r\n＝＋－＠")):
        return f"'{value}"
    return value


def _json_lines(records: Iterator[Any], path: Path, _kind: type) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")
            count += 1
    return count


def _parquet(records: Iterator[Any], path: Path, kind: type) -> int:
    try:
        # Needed for this kind of file alone.
        pyarrow = import_module("pyarrow")
        parquet = import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise ValueError(
            "Parquet needs the package pyarrow: install tollway-client[parquet], or use .csv."
        ) from None
    count, schema = 0, _schema(pyarrow, kind)
    with parquet.ParquetWriter(path, schema) as writer:
        while rows := [asdict(record) for record in islice(records, _ROWS_AT_ONCE)]:
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
            count += len(rows)
    return count


def _schema(pyarrow: Any, kind: type) -> Any:
    """From the type, not from the first records: a field may be null in all of these."""
    kinds = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    kinds[bool] = pyarrow.bool_()
    hints = get_type_hints(kind)
    return pyarrow.schema(
        [
            (each.name, kinds[(get_args(hints[each.name]) or (hints[each.name],))[0]])
            for each in fields(kind)
        ]
    )


KINDS: dict[str, Callable[[Iterator[Any], Path, type], int]] = {
    ".csv": _csv,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}


def export(records: Iterator[Any], path: Path, kind: type) -> int:
    """Saves records, all of one kind; returns how many there were."""
    if path.suffix not in KINDS:
        raise ValueError(f"The file's name must end in one of {', '.join(KINDS)}.")
    partial = path.with_name(f"{path.name}.part")
    try:
        count = KINDS[path.suffix](records, partial, kind)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return count


def download(records_after: Callable[[Optional[str]], Iterator[Any]], path: Path, key: str) -> int:
    """Saves the records of an export as JSON Lines; returns how many there are.

    `records_after` reads the export after the record that it is given, or from the first; `key` is
    the field that names a record. If it fails, also because the program was ended, calling it again
    goes on after the last record that was saved. If that one changed since the export, the file is
    read from the first again, which is free.

        download(
            lambda after: client.iter_orders_export(
                owner_id="880012001", export_id=made.export_id, after=after
            ),
            Path("orders.jsonl"),
            key="order_sn",
        )
    """
    partial = path.with_name(f"{path.name}.part")
    last, count = _saved(partial)
    after = None if last is None else str(json.loads(last)[key])
    try:
        count += _append(records_after(after), partial)
    except ParameterError:
        if after is None:
            raise
        again = records_after(None)
        # Before what was saved is dropped: an export that has expired cannot be read again.
        first = list(islice(again, 1))
        partial.unlink()
        count = _append(chain(first, again), partial)
    partial.replace(path)
    return count


def _append(records: Iterator[Any], partial: Path) -> int:
    count = 0
    with partial.open("a", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")
            count += 1
    return count


def _saved(partial: Path) -> "tuple[Optional[bytes], int]":
    """The last whole line of an unfinished file, and how many it has; half a line is cut off."""
    if not partial.exists():
        return None, 0
    last, count, length = None, 0, 0
    with partial.open("r+b") as file:
        for line in file:
            if line.endswith(b"\n"):
                last, count, length = line, count + 1, length + len(line)
        file.truncate(length)
    return last, count
