"""The SQLite file that a move reads: its tables in the order of the move, and its rows."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw
from sqlalchemy import Table

from tollway.store.database import Row, StoreError
from tollway.store.schema import sealed_tables
from tollway.store.sqlite.connection import our_errors
from tollway.store.sqlite.files import ServingLock
from tollway.store.sqlite.schema_check import revision_of
from tollway.store.sqlite.write_ahead_log import rewrite_left_log

# Last, because no call can be answered before the tokens exist.
_LAST = ("token", "version")
# Rows about the processes that serve one database mean nothing in another.
_STAY = ("node", "schema_floor", "last_run")


def moved_tables(tables: Iterable[Table]) -> tuple[Table, ...]:
    """The tables of a database that are moved, in their order."""
    by_name = {table.name: table for table in tables}
    first = [table for name, table in by_name.items() if name not in (*_LAST, *_STAY)]
    return (*first, *(by_name[name] for name in _LAST))


def columns_of(table: Table) -> list[str]:
    return [column.name for column in table.c]


def key_of(table: Table) -> list[str]:
    return [column.name for column in table.primary_key]


def key_positions(table: Table) -> list[int]:
    """Where the parts of the key are within a row."""
    columns = columns_of(table)
    return [columns.index(name) for name in key_of(table)]


def quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


_BUSY_TIMEOUT_MS = 10_000


class Source:
    """A database file at one moment; it cannot change until `close`."""

    def __init__(self, path: str, tables: Sequence[Table]) -> None:
        self.tables = tables
        self.name = str(Path(path).resolve())
        with our_errors():
            self._connection = apsw.Connection(path)
            self._connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
            # A write transaction that writes nothing: it keeps other writers out.
            self._connection.execute("BEGIN IMMEDIATE; PRAGMA query_only = ON").fetchall()

    def schema_revision(self) -> str | None:
        with our_errors():
            return revision_of(self._connection)

    def count(self, table: Table) -> int:
        ((rows,),) = self._fetch(f"SELECT count(*) FROM {table.name}")  # noqa: S608 - our own name
        return int(rows)

    def has_sealed(self) -> bool:
        """Whether anything in it can only be read with its keys."""
        return any(
            self._fetch(f"SELECT 1 FROM {table.name} LIMIT 1")  # noqa: S608 - our own name
            for table in sealed_tables(self.tables)
        )

    def rows(self, table: Table, after: Row | None = None) -> Iterator[Row]:
        """The rows in key order; with `after`, only those that follow that key."""
        key = quoted(key_of(table))
        beyond = f"WHERE ({key}) > ({', '.join('?' * len(after))})" if after else ""
        text = f"SELECT {quoted(columns_of(table))} FROM {table.name} {beyond} ORDER BY {key}"  # noqa: S608
        with our_errors():
            yield from self._connection.execute(text, after or ())

    def close(self) -> None:
        self._connection.close()

    def _fetch(self, text: str) -> list[Row]:
        with our_errors():
            rows: list[Row] = self._connection.execute(text).fetchall()
        return rows


@contextmanager
def open_source(path: str, tables: Sequence[Table]) -> Iterator[Source]:
    """Opens a database file that no gateway serves, and keeps gateways from it."""
    if not Path(path).is_file():
        raise StoreError(f"There is no database file {path} to move.")
    lock = ServingLock(path)
    try:
        rewrite_left_log(path)
        source = Source(path, tables)
        try:
            yield source
        finally:
            source.close()
    finally:
        lock.release()
