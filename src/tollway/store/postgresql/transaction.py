"""One transaction on one connection."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from zlib import crc32

import asyncpg
from sqlalchemy import Table

from tollway.store.database import Row, RowValues, StoreUnavailableError
from tollway.store.many_rows import ManyRows, Rows, inserts
from tollway.store.postgresql.errors import our_errors
from tollway.store.postgresql.hosts import Connection
from tollway.store.query import Query

# Where the keys of named locks begin; no other advisory lock is in this range.
_FIRST_KEY = 7 << 32
_PATIENCE_S = 24 * 3600.0
_SYNCHRONOUS_REPLICATION = "syncrep.c"
_LOCK_NAMES = "SELECT pg_advisory_xact_lock($1::bigint + key) FROM unnest($2::bigint[]) AS key"


class PostgresqlTransaction:
    """The transaction that is open on a connection."""

    is_shared = True

    def __init__(self, session: Connection) -> None:
        self._session = session
        # None: the usual timeout of the connection.
        self._timeout_s: float | None = None
        # Whether a statement failed: the server would then roll back at the commit, and the driver
        # would not report it.
        self.has_failed = False
        self.keeps_records = self.changes_versions = False

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        compiled = query.postgresql
        with self._noting_failure():
            return await fetch(
                self._session, compiled.text, compiled.arguments(values), self._timeout_s
            )

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        rows = await self.fetch_all(query, **values)
        return rows[0] if rows else None

    async def execute(self, query: Query, **values: object) -> int:
        compiled = query.postgresql
        with self._noting_failure():
            status = await self._session.execute(
                compiled.text, *compiled.arguments(values), timeout=self._timeout_s
            )
        # Such as "UPDATE 3" or "INSERT 0 1".
        return int(status.rpartition(" ")[2])

    async def execute_many(self, query: Query, rows: Iterable[RowValues]) -> int:
        compiled = query.postgresql
        arguments = list(map(compiled.arguments, rows))
        if not arguments:
            return 0
        # The driver returns no row count for many, so each changed row returns a value.
        with self._noting_failure():
            changed = await self._session.fetchmany(f"{compiled.text} RETURNING 1", arguments)
        return len(changed)

    async def insert_rows(self, table: Table, rows: Rows) -> None:
        statements = inserts(table)
        if rows:
            with self._noting_failure():
                await self._session.copy_records_to_table(
                    statements.table_name,
                    records=rows,
                    columns=statements.columns,
                    timeout=self._timeout_s,
                )

    async def put_rows(self, query: ManyRows, rows: Sequence[tuple[Any, ...]]) -> int:
        if not rows:
            return 0
        # One array for each column.
        columns = zip(*rows, strict=True)
        with self._noting_failure():
            status = await self._session.execute(
                query.arrays_postgresql, *columns, timeout=self._timeout_s
            )
        return int(status.rpartition(" ")[2])

    async def is_alone(self, job: int) -> bool:
        with self._noting_failure():
            got: bool = await self._session.fetchval("SELECT pg_try_advisory_xact_lock($1)", job)
        return got

    async def lock_names(self, names: Iterable[str]) -> None:
        # A fixed lock order prevents deadlocks.
        keys = sorted({crc32(name.encode()) for name in names})
        with self._noting_failure():
            await self._session.execute(_LOCK_NAMES, _FIRST_KEY, keys)

    async def allow_long_statements(self) -> None:
        with self._noting_failure():
            await self._session.execute("SET LOCAL statement_timeout = 0")
        self._timeout_s = _PATIENCE_S

    @asynccontextmanager
    async def with_new_plan(self) -> AsyncIterator[None]:
        with self._noting_failure():
            await self._session.execute("SET LOCAL plan_cache_mode = force_custom_plan")
        yield
        # After an error the transaction is over, and this setting with it.
        with self._noting_failure():
            await self._session.execute("SET LOCAL plan_cache_mode = force_generic_plan")

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        with self._noting_failure():
            part = self._session.transaction()
            await part.start()
        try:
            yield
        except BaseException:
            await undo(self._session, part)
            self.has_failed = False
            raise
        with self._noting_failure():
            await part.commit()

    first_part = savepoint

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            with our_errors():
                yield
        except BaseException:
            self.has_failed = True
            raise


async def undo(session: Connection, transaction: asyncpg.transaction.Transaction) -> None:
    """Rolls back; if even that fails, closes the connection, and the server rolls back."""
    try:
        await transaction.rollback()
    except Exception:
        session.terminate()


@asynccontextmanager
async def waited_for(session: Connection) -> AsyncIterator[None]:
    """Around a commit: fails if the server made it but did not wait for the synchronous standby.

    When that wait is cancelled, the server only sends a warning: the commit is then on this server
    alone, and lost if the standby becomes the primary. Other warnings are for the server's
    operator, who has them in its log.
    """
    unwaited: list[str] = []

    def note(_: object, message: asyncpg.PostgresLogMessage) -> None:
        # The text may be in any language; the name of the server's source file never changes.
        if message.server_source_filename == _SYNCHRONOUS_REPLICATION:
            unwaited.append(message.message)

    session.add_log_listener(note)
    try:
        yield
    finally:
        session.remove_log_listener(note)
    if unwaited:
        raise StoreUnavailableError(unwaited[0])


async def fetch(
    session: Connection,
    text: str,
    arguments: tuple[object, ...],
    timeout_s: float | None = None,
) -> list[Row]:
    return [tuple(row) for row in await session.fetch(text, *arguments, timeout=timeout_s)]
