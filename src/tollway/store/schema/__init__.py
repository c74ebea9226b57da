"""The tables that several packages use, one file per subject, for both engines.

Tables that only one operation uses are in its own package, under the same metadata.

Times are whole numbers with their unit in the name, days are whole numbers like 20260131, money is
whole fen. The key of every table that grows with traffic starts with the account, the product or
the sid, so that the same schema can be sharded. Rows of such tables are stored in key order
(`sqlite_with_rowid=False`), because a call reads a run of neighbours.

A constraint compares with `=` where there are more than two values: for a longer `IN`, SQLite
builds a temporary table in every INSERT, which takes as long as a short row.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import Column, Index, MetaData, Table, text

metadata = MetaData()


class DividedBy(NamedTuple):
    """The time column by which a shared database divides a table by month, and its units a second.

    It is in the table's `info` under `MONTHS`.
    """

    column: str
    per_s: int


MONTHS = "months"
# The key of an index's condition on PostgreSQL, in its `info`. Migrations are SQL files, so only
# the test that compares them reads it; `postgresql_where` would load SQLAlchemy's part for
# PostgreSQL into every process.
WHERE_ON_SERVER = "where_on_server"


def partial_index(
    name: str, *columns: str | Column[Any], where: str, on_server: str = "", is_unique: bool = False
) -> Index:
    """An index of the rows that meet a condition; a server may have a different condition."""
    info = {WHERE_ON_SERVER: on_server or where}
    return Index(name, *columns, unique=is_unique, sqlite_where=text(where), info=info)


def sealed_tables(tables: Iterable[Table]) -> tuple[Table, ...]:
    """The tables with rows that can only be read with the keys."""
    return tuple(table for table in tables if sealed_columns(table))


def sealed_columns(table: Table) -> list[Column[bytes]]:
    return [column for column in table.c if column.name.startswith("sealed")]
