"""Statements that store many rows of one table at once, in the order of the table's columns.

A statement per row costs an embedded database twice as much as the row itself, and a server a round
trip. So SQLite gets many rows in one statement; PostgreSQL gets new rows by COPY, and rows that may
exist already as arrays.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from typing import Any

from sqlalchemy import Table

from tollway.store.query import Insert, Query, insert_row, upsert

# How many parameters a statement has. More would save nothing, and their texts would not fit into
# SQLite's lookaside memory for small values.
_PARAMETERS = 192


class FlatRows:
    """Rows of one table, end to end in one list, from which a statement gets a slice."""

    def __init__(self, values: list[Any], columns: int) -> None:
        self.values = values
        self.columns = columns

    def __len__(self) -> int:
        return len(self.values) // self.columns

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        values = iter(self.values)
        return zip(*[values] * self.columns, strict=True)

    def some(self, start: int, end: int) -> list[Any]:
        """The values of some rows."""
        return self.values[start * self.columns : end * self.columns]

    def column(self, number: int) -> list[Any]:
        return self.values[number :: self.columns]

    def set_column(self, number: int, column: Sequence[Any]) -> None:
        self.values[number :: self.columns] = column


Rows = Sequence[tuple[Any, ...]] | FlatRows


class ManyRows:
    """Runs a query that inserts one row of a table, with any conflict clause, for many rows.

    Its parameters are the table's columns, in their order.
    """

    def __init__(self, table: Table, query: Query) -> None:
        self.table_name = table.name
        self.columns = [column.name for column in table.c]
        self._table = table
        self._query = query
        self._rows_at_once = max(1, _PARAMETERS // len(self.columns))
        self._texts: dict[int, str] = {}

    def _of_rows(self, count: int) -> str:
        """SQLite's statement for so many rows.

        On an error the rows before it stay (OR FAIL), until the work or its savepoint is undone: a
        journal to undo each statement would cost half as much as the rows.
        """
        text = self._texts.get(count)
        if text is None:
            one = f"({', '.join('?' * len(self.columns))})"
            text = self._query.sqlite.text.replace("INSERT INTO", "INSERT OR FAIL INTO", 1)
            text = self._texts[count] = text.replace(one, ", ".join([one] * count), 1)
        return text

    @cached_property
    def arrays_postgresql(self) -> str:
        """Takes one array for each column."""
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - only where it is used

        dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
        names = [f"{column.type.compile(dialect)}[]" for column in self._table.c]
        arrays = ", ".join(f"${number}::{name}" for number, name in enumerate(names, 1))
        head, _, tail = self._query.postgresql.text.partition(" VALUES (")
        rest = tail.partition(")")[2]
        return f"{head} SELECT * FROM unnest({arrays}){rest}"  # noqa: S608 - of our own tables

    def batched(self, rows: Rows) -> Iterator[tuple[str, Iterable[Sequence[Any]]]]:
        """SQLite's statements, each with the parameters of all its executions.

        The remaining rows go into statements of half as many rows, then a quarter, and so on: few
        executions in all, and few statements to prepare.
        """
        size, start = self._rows_at_once, 0
        while size and start < len(rows):
            end = start + (len(rows) - start) // size * size
            if end > start:
                starts = range(start, end, size)
                many = (_joined(rows, at, at + size) for at in starts)
                yield self._of_rows(size), many
            start, size = end, size // 2


def _joined(rows: Rows, start: int, end: int) -> Sequence[Any]:
    if isinstance(rows, FlatRows):
        return rows.some(start, end)
    # A list copies a tuple in one step; `chain` would go through its values.
    values: list[Any] = []
    for row in rows[start:end]:
        values += row
    return values


@cache
def inserts(table: Table) -> ManyRows:
    """Statements that store new rows."""
    return ManyRows(table, Query(insert_row(table)))


@cache
def upserts(table: Table) -> ManyRows:
    """Statements that store rows, or replace those with the same key that differ."""
    return ManyRows(table, upsert(table))


def adds(table: Table, *summed: str, latest: tuple[str, ...] = ()) -> ManyRows:
    """Statements that store rows, or add them to those with the same key: these columns are summed,
    those of `latest` replaced, and all others stay."""

    def statement() -> Insert:
        added = insert_row(table)
        new = added.excluded
        sums = {name: table.c[name] + new[name] for name in summed}
        return added.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_={**sums, **{name: new[name] for name in latest}},
        )

    return ManyRows(table, Query(statement))
