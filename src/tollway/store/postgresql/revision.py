"""The schema revision of a PostgreSQL database, an unfinished move into it, and its migration."""

from collections.abc import Awaitable, Callable

from tollway.store.database import StoreError, Transaction
from tollway.store.postgresql.errors import our_errors
from tollway.store.postgresql.hosts import Connection
from tollway.store.postgresql.transaction import PostgresqlTransaction

# Exists only while a move into this database is unfinished; it names the source.
UNFINISHED_MOVE = "unfinished_move"
_PATIENT = "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0"
# Any number, the same for all nodes: the lock of a migration.
_LOCK_MIGRATION = "SELECT pg_advisory_xact_lock(7012605118)"
# Gateways that start meanwhile wait, and then find the new schema.
_HAS_NODES = "SELECT to_regclass('node') IS NOT NULL"
LOCK_NODES = "LOCK TABLE node IN SHARE ROW EXCLUSIVE MODE"
# A migration may have to copy tables.
_MIGRATION_TIMEOUT_S = 24 * 3600
# While a migration waits for a lock on a table, all other queries of it queue up behind.
_BE_BRIEF = "SET LOCAL lock_timeout = '2s'"


async def revision_of(connection: Connection) -> str | None:
    found = await _only(connection, "alembic_version", "version_num")
    # Other programs that use Alembic have revisions of another form.
    return found if found and found.isdecimal() else None


async def unfinished_move_of(connection: Connection) -> str | None:
    return await _only(connection, UNFINISHED_MOVE, "source")


async def upgrade(
    connection: Connection, plan: Callable[[Transaction, str | None], Awaitable[str]]
) -> str | None:
    """Runs the script planned for the current revision; returns that revision."""
    with our_errors():
        async with connection.transaction():
            # Nodes that start together wait here for the first one, then find nothing to do.
            await connection.execute(_PATIENT)
            await connection.execute(_LOCK_MIGRATION, timeout=_MIGRATION_TIMEOUT_S)
            await connection.execute(_BE_BRIEF)
            if await connection.fetchval(_HAS_NODES):
                await connection.execute(LOCK_NODES, timeout=_MIGRATION_TIMEOUT_S)
            found = await revision_of(connection)
            if found is None:
                await _check_encoding(connection)
            script = await plan(PostgresqlTransaction(connection), found)
            if script.strip():
                await connection.execute(script, timeout=_MIGRATION_TIMEOUT_S)
            return found


async def _check_encoding(connection: Connection) -> None:
    """Names and addresses can be in any script; another encoding would refuse them much later."""
    encoding = await connection.fetchval("SHOW server_encoding")
    if encoding != "UTF8":
        raise StoreError(
            f"The database is in {encoding}, and must be in UTF8: make it with "
            "`createdb --encoding=UTF8 --template=template0 NAME`."
        )


async def _only(connection: Connection, table: str, column: str) -> str | None:
    """The value in a table of one row; None if the table does not exist."""
    with our_errors():
        if await connection.fetchval("SELECT to_regclass($1)", table) is None:
            return None
        found: str | None = await connection.fetchval(f"SELECT {column} FROM {table}")  # noqa: S608
    return found
