"""Alembic's entry: writes the SQL of a migration for the dialect that was asked for."""

from typing import Any

from alembic import context
from sqlalchemy import Column, String, event

from tollway.store.schema import metadata

DIALECT = context.config.attributes["dialect"]


def compare_by_bytes(column: Column[Any], _: object) -> None:
    """Text is in the order of its bytes, as it is in SQLite, whatever the server's language is."""
    if isinstance(column.type, String):
        column.type = String(collation="C")


context.configure(dialect_name=DIALECT, target_metadata=metadata, as_sql=True, literal_binds=True)
if DIALECT == "postgresql":
    event.listen(Column, "before_parent_attach", compare_by_bytes)
try:
    context.run_migrations()
finally:
    if DIALECT == "postgresql":
        event.remove(Column, "before_parent_attach", compare_by_bytes)
