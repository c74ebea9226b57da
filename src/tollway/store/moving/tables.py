"""What is moved, and in which order."""

from sqlalchemy import Table

from tollway.store.tables import ALL_TABLES

# Nobody can call before the tokens are there.
_LAST = ("token", "version")
# Who serves a database, and who may: nothing that belongs to another one.
_STAY = ("node", "schema_floor")

MOVED_TABLES: tuple[Table, ...] = (
    *(table for table in ALL_TABLES if table.name not in (*_LAST, *_STAY)),
    *(table for name in _LAST for table in ALL_TABLES if table.name == name),
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
