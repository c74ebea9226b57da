"""Alembic's entry: writes the SQL of a migration for the dialect that was asked for."""

from alembic import context

from tollway.store.schema import metadata

context.configure(
    dialect_name=context.config.attributes["dialect"],
    target_metadata=metadata,
    as_sql=True,
    literal_binds=True,
)
context.run_migrations()
