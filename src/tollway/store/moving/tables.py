"""Which tables are moved, in which order, and how their rows are named."""

from collections.abc import Iterable

from sqlalchemy import Table

# No call can be answered before the tokens are there.
_LAST = ("token", "version")
# What describes the processes that serve one database belongs to no other.
_STAY = ("node", "schema_floor")


def moved_tables(tables: Iterable[Table]) -> tuple[Table, ...]:
    """The tables of a database that are moved, in their order."""
    by_name = {table.name: table for table in tables}
    first = [table for name, table in by_name.items() if name not in (*_LAST, *_STAY)]
    return (*first, *(by_name[name] for name in _LAST))


def sealed_tables(tables: Iterable[Table]) -> tuple[Table, ...]:
    """The tables with rows that can only be read with the keys."""
    return tuple(
        table for table in tables if any(column.name.startswith("sealed") for column in table.c)
    )


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
