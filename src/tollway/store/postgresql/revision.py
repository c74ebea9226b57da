"""What a database says of itself: its schema's revision, and whether it is whole."""

from tollway.store.postgresql.errors import our_errors
from tollway.store.postgresql.hosts import AnyConnection

# There only while a move into this database is not finished; it names what is moved.
UNFINISHED_MOVE = "unfinished_move"


async def revision_of(connection: AnyConnection) -> str | None:
    return await _only(connection, "alembic_version", "version_num")


async def unfinished_move_of(connection: AnyConnection) -> str | None:
    return await _only(connection, UNFINISHED_MOVE, "source")


async def _only(connection: AnyConnection, table: str, column: str) -> str | None:
    """The value in a table of one row, which need not be there."""
    with our_errors():
        if await connection.fetchval("SELECT to_regclass($1)", table) is None:
            return None
        found: str | None = await connection.fetchval(f"SELECT {column} FROM {table}")  # noqa: S608
    return found
