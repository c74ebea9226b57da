"""Alembic's entry point: writes the SQL of migrations as text, for one dialect."""

from typing import Any

from alembic import context
from sqlalchemy import Column, String, event

DIALECT = context.config.attributes["dialect"]


def compare_by_bytes(column: Column[Any], _: object) -> None:
    """Orders text by its bytes, as SQLite and the baseline do, whatever the server's language."""
    if isinstance(column.type, String):
        column.type = String(collation="C")


context.configure(dialect_name=DIALECT, as_sql=True, literal_binds=True)
if DIALECT == "postgresql":
    event.listen(Column, "before_parent_attach", compare_by_bytes)
try:
    context.run_migrations()
finally:
    if DIALECT == "postgresql":
        event.remove(Column, "before_parent_attach", compare_by_bytes)
