"""The PostgreSQL database that a move fills.

While a move is unfinished the database has an extra table, which names the source. It keeps
gateways from serving half a database, and lets the same move resume.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import asyncpg
from sqlalchemy import Table

from tollway.store.database import Row, StoreBusyError, StoreError, Transaction
from tollway.store.months import make_months_for
from tollway.store.moving.source import columns_of, key_of, key_positions, quoted
from tollway.store.postgresql.change_listener import CHANNEL
from tollway.store.postgresql.errors import our_errors
from tollway.store.postgresql.hosts import Connection, Hosts
from tollway.store.postgresql.revision import (
    LOCK_NODES,
    UNFINISHED_MOVE,
    revision_of,
    unfinished_move_of,
)
from tollway.store.postgresql.transaction import PostgresqlTransaction
from tollway.store.schema.database import key_check, version
from tollway.store.schema.identity import person, sign_in_link
from tollway.store.schema.ledger import operator_act
from tollway.store.serving_nodes import ALIVE_S

# Any number: the lock of a move into a database.
_LOCK = "SELECT pg_advisory_lock(7012605119)"
# By the database's clock: this machine may be neither a gateway nor the server.
_SERVING = """
SELECT DISTINCT name FROM node
WHERE seen_at_ms >= (extract(epoch FROM clock_timestamp()) - $1::int) * 1000 ORDER BY name"""
_FETCHED_AT_ONCE = 2000
# `version` has one row from the beginning, `key_check` those of gateways that served the database.
_NEVER_EMPTY = (version, key_check)
# A gateway makes the first operator when it starts; until that operator has a password, these rows
# mean nothing.
_FIRST_OPERATOR = (person, operator_act, sign_in_link)
# The source of a finished move, from the trail of acts.
_MOVED = """
SELECT "after"::json ->> 'from' FROM operator_act
WHERE act = 'move' ORDER BY number DESC LIMIT 1"""
_HAS_OPERATORS = "SELECT EXISTS (SELECT 1 FROM person WHERE password_hash IS NOT NULL)"


class Target:
    """A connection to the database that is filled."""

    def __init__(self, connection: Connection, tables: Sequence[Table]) -> None:
        self._tables = tables
        self._connection = connection

    async def schema_revision(self) -> str | None:
        return await revision_of(self._connection)

    async def claim(self, source: str, *, should_restart: bool) -> None:
        """Makes this database the target of a source's move, unless it holds anything else."""
        try:
            with our_errors():
                # The server frees the lock of a killed move as soon as it notices.
                await self._connection.execute(_LOCK)
        except StoreBusyError:
            raise StoreError("Another `tollway move` into the target is under way.") from None
        with our_errors():
            async with self._connection.transaction():
                # A gateway that starts meanwhile waits, and then finds the unfinished move.
                await self._connection.execute(LOCK_NODES)
                await self._refuse_if_served()
                found = await unfinished_move_of(self._connection)
                if found is None:
                    await self._refuse_unless_empty()
                elif found != source and not should_restart:
                    raise StoreError(
                        f"The target has an unfinished move of {found}: finish that one, or add "
                        "--restart to empty the target and start over."
                    )
                if found is None:
                    await self._mark(source)
                elif should_restart:
                    await self._empty(source)

    async def _refuse_unless_empty(self) -> None:
        ignored: tuple[Table, ...] = _NEVER_EMPTY
        if not await self._connection.fetchval(_HAS_OPERATORS):
            ignored += _FIRST_OPERATOR
        for table in self._tables:
            if table not in ignored and await self._connection.fetchval(
                f"SELECT EXISTS (SELECT 1 FROM {table.name})"  # noqa: S608 - our own name
            ):
                if moved := await self._connection.fetchval(_MOVED):
                    # A killed move that is run again may have finished its last step.
                    raise StoreError(
                        f"The target is not empty: the move of {moved} into it is finished. Let "
                        "the gateways serve it; another source is moved into a new database."
                    )
                raise StoreError(
                    f"The target is not empty, it has rows in table {table.name}: move into a new "
                    "database, and run `tollway migrate` on it first."
                )

    async def _refuse_if_served(self) -> None:
        """Charges that a gateway makes meanwhile would conflict with copied rows, or be deleted."""
        if names := [row[0] for row in await self._connection.fetch(_SERVING, ALIVE_S)]:
            raise StoreError(
                f"The target is being served by the gateways {', '.join(names)}: stop them, then "
                f"move. One that was killed counts for {ALIVE_S} seconds."
            )

    async def _mark(self, source: str) -> None:
        # Nothing is sealed here yet, so the keys of gateways that once served it do not matter.
        await self._connection.execute(f"DELETE FROM {key_check.name}")  # noqa: S608 - our own name
        await self._truncate(_FIRST_OPERATOR)
        await self._connection.execute(f"CREATE TABLE {UNFINISHED_MOVE} (source text NOT NULL)")
        await self._connection.execute(f"INSERT INTO {UNFINISHED_MOVE} VALUES ($1)", source)  # noqa: S608

    async def _empty(self, source: str) -> None:
        await self._truncate([table for table in self._tables if table is not version])
        await self._connection.execute(f"UPDATE {UNFINISHED_MOVE} SET source = $1", source)  # noqa: S608

    async def _truncate(self, tables: Sequence[Table]) -> None:
        # The trail of acts refuses every change, but nothing in this one was ever in force.
        await self._connection.execute("ALTER TABLE operator_act DISABLE TRIGGER USER")
        await self._connection.execute(f"TRUNCATE {', '.join(table.name for table in tables)}")
        await self._connection.execute("ALTER TABLE operator_act ENABLE TRIGGER USER")

    async def reached(self, table: Table) -> tuple[int, Row | None]:
        """How many rows of a table are here, and the key of the last of them."""
        if table is version:
            return 0, None  # The migration made its one row, which `add` replaces.
        key = key_of(table)
        backwards = ", ".join(f'"{name}" DESC' for name in key)
        with our_errors():
            count = await self._connection.fetchval(f"SELECT count(*) FROM {table.name}")  # noqa: S608
            last = await self._connection.fetchrow(
                f"SELECT {quoted(key)} FROM {table.name} ORDER BY {backwards} LIMIT 1"  # noqa: S608
            )
        return count, None if last is None else tuple(last)

    async def add(self, table: Table, rows: Sequence[Row]) -> None:
        """Adds rows, all of them or none."""
        try:
            with our_errors():
                async with self._connection.transaction():
                    await make_months_for(PostgresqlTransaction(self._connection), table, rows)
                    if table is version:
                        await self._connection.execute("DELETE FROM version")
                    await self._connection.copy_records_to_table(
                        table.name, records=rows, columns=columns_of(table)
                    )
        except asyncpg.PostgresError as error:
            raise StoreError(_cannot_hold(table, rows, error)) from None

    async def rows(self, table: Table) -> AsyncGenerator[Row, None]:
        """The rows in key order, from one snapshot."""
        columns, key = quoted(columns_of(table)), quoted(key_of(table))
        text = f"SELECT {columns} FROM {table.name} ORDER BY {key}"  # noqa: S608 - our own names
        with our_errors():
            async with self._connection.transaction(isolation="repeatable_read", readonly=True):
                cursor = await self._connection.cursor(text)
                while chunk := await cursor.fetch(_FETCHED_AT_ONCE):
                    for record in chunk:
                        yield tuple(record)

    async def tidy(self) -> None:
        """Updates the server's table statistics now; by itself it would do so only later."""
        names = ", ".join(table.name for table in self._tables)
        with our_errors():
            await self._connection.execute(f"VACUUM (ANALYZE) {names}")

    async def finish(self, record: Callable[[Transaction], Awaitable[None]]) -> None:
        """Records the move; from then on this is a database like any other."""
        with our_errors():
            async with self._connection.transaction():
                await record(PostgresqlTransaction(self._connection))
                # Every listener throws its caches away.
                await self._connection.execute(f"NOTIFY {CHANNEL}")
                await self._connection.execute(f"DROP TABLE {UNFINISHED_MOVE}")


@asynccontextmanager
async def open_target(url: str, tables: Sequence[Table]) -> AsyncIterator[Target]:
    connection = await Hosts(url, None, "read-write").connect()
    try:
        yield Target(connection, tables)
    finally:
        connection.terminate()


def _cannot_hold(table: Table, rows: Sequence[Row], error: asyncpg.PostgresError) -> str:
    """Names the row that the server refused, without its content."""
    context = str(getattr(error, "context", "") or "")
    found = re.search(r"line (\d+)(?:, column (\w+))?", context)
    where = f"table {table.name}"
    if found is not None:
        row = rows[int(found[1]) - 1]
        where += f", key {shown_key(table, row)}"
        where += f", column {found[2]}" if found[2] else ""
    return f"PostgreSQL cannot hold a row of the source ({where}): {error}."


def shown_key(table: Table, row: Row) -> str:
    """The key of a row, for people."""
    parts = (row[position] for position in key_positions(table))
    return " ".join(part.hex() if isinstance(part, bytes) else str(part) for part in parts)
