"""Reads from a replica while it is available and keeps up; otherwise from the primary.

Every new connection is checked first: it must lead to a replica of the primary, or the gateway
would sell the data of another database.

The lag is measured in positions of the write-ahead log, without any clock: the primary reports the
end of its log, the replica how far it has replayed. So reads see every commit that is older than
the allowed lag. Product figures are exact: their answers are cached under the version of the
figures, so the replica is not used until it has that version.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from decimal import Decimal
from time import monotonic
from typing import NamedTuple, TypeVar

from sqlalchemy import select, text

from tollway.store.cache_versions import Versions
from tollway.store.database import Row, StoreError, StoreUnavailableError, Transaction
from tollway.store.postgresql.database import ConnectionUse, PostgresqlDatabase
from tollway.store.postgresql.errors import ConflictError, RightsError
from tollway.store.postgresql.hosts import Connection
from tollway.store.postgresql.transaction import fetch
from tollway.store.query import Query
from tollway.store.schema.database import version

_ASK_EVERY_S = 0.25
# The timeout of one host, and a moment for the check of a new connection.
_ANSWER_TIMEOUT_S = 3.0
_PLACE = Query(
    lambda: select(
        text("current_database()"),
        text("(SELECT system_identifier FROM pg_control_system())"),
        text("CASE WHEN NOT pg_is_in_recovery() THEN pg_postmaster_start_time() END"),
        text(
            "coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN "
            "pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, '0/0'), -1)"
        ),
    )
)
_FIGURES = Query(lambda: select(version.c.figures))
# The replica is unavailable, or cancelled the query in a conflict with replay, or its role has
# fewer rights.
_PASSED_OVER = (StoreUnavailableError, ConflictError, RightsError)
_BEHIND = "it is too far behind"

T = TypeVar("T")
logger = logging.getLogger("tollway.store")


class _Position(NamedTuple):
    """Which server a connection leads to, and the position of its log."""

    database: str
    # The same for a server and all its replicas.
    system: int
    # None for a standby.
    writes_since: datetime | None
    position: Decimal

    def check_is_replica_of(self, primary: "_Position") -> None:
        if (self.database, self.system) != (primary.database, primary.system):
            raise StoreUnavailableError("it is no replica of the primary, but another database")
        # The "replica" may also be the primary itself.
        if self.writes_since not in (None, primary.writes_since):
            raise StoreUnavailableError("it is no replica of the primary any more: it takes writes")


class ReadingDatabase:
    """The database as the reading operations see it."""

    dialect = "postgresql"
    is_shared = True
    row_at_once = None

    def __init__(
        self,
        primary: PostgresqlDatabase,
        replica: PostgresqlDatabase,
        versions: Versions,
        lag_s: float,
    ) -> None:
        self._primary = primary
        self._replica = replica
        self._versions = versions
        self._lag_s = lag_s
        # When the replica had caught up, and the version of the figures that it had then.
        self._level_at_s = float("-inf")
        self._figures = -1
        # How often that was forgotten: a check that began earlier no longer counts.
        self._forgotten = 0
        self._was_used = False
        # The logged reasons why it is not used.
        self._reasons: set[str] = set()
        self._watch: asyncio.Task[None] | None = None
        self.change_mark, self.record_mark = primary.change_mark, primary.record_mark
        replica.check_connections(self._check)

    @property
    def is_used(self) -> bool:
        """Whether reads go to the replica at the moment."""
        return monotonic() - self._level_at_s <= self._lag_s

    @property
    def lag_ms(self) -> int | None:
        """How long ago the replica had all that the primary had; None if it never had."""
        lag_s = monotonic() - self._level_at_s
        return None if lag_s == float("inf") else int(lag_s * 1000)

    def connection_use(self) -> ConnectionUse:
        """Of the connections to the replica."""
        return self._replica.connection_use()

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        rows = await self._from_replica(lambda: self._replica.fetch_all(query, **values))
        return await self._primary.fetch_all(query, **values) if rows is None else rows

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        rows = await self.fetch_all(query, **values)
        return rows[0] if rows else None

    async def fetch_long(
        self, query: Query, caller: str | None = None, /, **values: object
    ) -> Sequence[Row]:
        rows = await self._from_replica(lambda: self._replica.fetch_long(query, caller, **values))
        if rows is None:
            return await self._primary.fetch_long(query, caller, **values)
        return rows

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        return await self._primary.write(work)

    async def write_statement(self, query: Query, **values: object) -> Sequence[Row]:
        return await self._primary.write_statement(query, **values)

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await self._replica.close()

    async def _from_replica(
        self, read: Callable[[], Awaitable[Sequence[Row]]]
    ) -> Sequence[Row] | None:
        """The rows from the replica, if it can be used."""
        if not await self._is_usable():
            return None
        forgotten = self._forgotten
        try:
            rows = await read()
        except _PASSED_OVER:
            self._forget()
            return None
        # A new connection may have led to another replica.
        return rows if forgotten == self._forgotten else None

    async def _is_usable(self) -> bool:
        if self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._follow())
        if not self.is_used:
            return False
        if self._figures != self._versions.figures:
            forgotten = self._forgotten
            try:
                row = await self._replica.fetch_one(_FIGURES)
            except _PASSED_OVER:
                self._forget()
                return False
            if forgotten != self._forgotten:
                return False
            self._figures = -1 if row is None else row[0]
        return self._figures == self._versions.figures

    def _forget(self) -> None:
        """Forgets the state of a replica: the next connection may lead to another one."""
        self._level_at_s = float("-inf")
        self._figures = -1
        self._forgotten += 1

    def _give_up(self) -> None:
        """Called when the replica is silent. Its running queries go to the primary."""
        self._forget()
        self._replica.abandon()

    async def _check(self, connection: Connection) -> None:
        (row,) = await fetch(connection, _PLACE.postgresql.text, ())
        _Position(*row).check_is_replica_of(await _position(self._primary))
        # It may lead to another replica than the connections before it.
        self._forget()

    async def _follow(self) -> None:
        while True:
            try:
                await self._catch_up()
            except Exception as error:
                # Whatever the error: only this loop can check again.
                self._log_use(str(error) or type(error).__name__)
            await asyncio.sleep(_ASK_EVERY_S)

    async def _catch_up(self) -> None:
        asked_s, forgotten = monotonic(), self._forgotten
        primary = await _position(self._primary)
        while (replayed := await self._replayed(primary)) < primary.position:
            self._log_use(_BEHIND)
            await asyncio.sleep(_ASK_EVERY_S)
        if replayed > primary.position:
            await self._check_ahead(replayed)
        if forgotten == self._forgotten:
            self._level_at_s = asked_s
            self._log_use(_BEHIND)

    async def _replayed(self, primary: _Position) -> Decimal:
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                found = await _position(self._replica)
            # It may have been promoted since the connection was made.
            found.check_is_replica_of(primary)
        except TimeoutError:
            self._give_up()
            raise StoreUnavailableError("it gives no answer") from None
        except StoreError:
            self._forget()
            if self._replica.is_silent:
                self._give_up()
            raise
        return found.position

    async def _check_ahead(self, replayed: Decimal) -> None:
        """A primary sends only what is in its own log. A replica with more may have it from an
        earlier primary, and the failover lost it."""
        if replayed > (await _position(self._primary)).position:
            self._forget()
            raise StoreUnavailableError("it has what the primary never had: make it again")

    def _log_use(self, reason: str) -> None:
        """Logs whether the replica is used when that changes; each reason why not once."""
        if self.is_used:
            if not self._was_used:
                logger.info("the replica keeps up, and is read from")
            self._was_used = True
            self._reasons.clear()
        elif reason not in self._reasons:
            self._was_used = False
            self._reasons.add(reason)
            logger.warning("the replica is not read from, but the primary: %s", reason)


async def _position(database: PostgresqlDatabase) -> _Position:
    row = await database.fetch_one(_PLACE)
    assert row is not None
    return _Position(*row)
