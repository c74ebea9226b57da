"""Reads from a replica as long as it is there and keeps up; otherwise from the primary.

How far the replica is behind is not taken from anybody's clock: the primary is asked how far its
log goes, and the replica whether it has come as far. So whatever was committed longer ago than the
allowed lag is seen. Product figures are exact: answers from them are kept under their version, so
the replica is passed over until it has that version.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from time import monotonic
from typing import TypeVar

from sqlalchemy import select, text

from tollway.store.database import Row, StoreError, StoreUnavailableError, Transaction
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.store.postgresql.errors import RivalError
from tollway.store.query import Query
from tollway.store.schema import version
from tollway.store.versions import Versions

_ASK_EVERY_S = 0.25
_WRITTEN = Query(select(text("pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')")))
# Once it was promoted, it is the one that others follow.
_REPLAYED = Query(
    select(
        text(
            "pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
            "ELSE pg_current_wal_lsn() END, '0/0')"
        )
    )
)
_FIGURES = Query(select(version.c.figures))
# Away, or it ended the query because what it read was being removed.
_PASSED_OVER = (StoreUnavailableError, RivalError)

T = TypeVar("T")
logger = logging.getLogger("tollway.store")


class ReadingDatabase:
    """The database as the reading operations see it."""

    dialect = "postgresql"
    is_shared = True

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
        # When the replica had all of the primary, and the version of the figures it then had.
        self._level_at_s = float("-inf")
        self._figures = -1
        self._is_used: bool | None = None
        self._watch: asyncio.Task[None] | None = None
        self.change_mark = primary.change_mark

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        if await self._will_do():
            try:
                return await self._replica.fetch_all(query, **values)
            except _PASSED_OVER:
                self._forget()
        return await self._primary.fetch_all(query, **values)

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        rows = await self.fetch_all(query, **values)
        return rows[0] if rows else None

    async def fetch_long(
        self, query: Query, caller: str | None = None, /, **values: object
    ) -> Sequence[Row]:
        if await self._will_do():
            try:
                return await self._replica.fetch_long(query, caller, **values)
            except _PASSED_OVER:
                self._forget()
        return await self._primary.fetch_long(query, caller, **values)

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        return await self._primary.write(work)

    async def write_at_once(self, query: Query, **values: object) -> Sequence[Row]:
        return await self._primary.write_at_once(query, **values)

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await self._replica.close()

    async def _will_do(self) -> bool:
        if self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._follow())
        if monotonic() - self._level_at_s > self._lag_s:
            return False
        if self._figures < self._versions.figures:
            try:
                row = await self._replica.fetch_one(_FIGURES)
            except _PASSED_OVER:
                self._forget()
                return False
            self._figures = -1 if row is None else row[0]
        return self._figures >= self._versions.figures

    def _forget(self) -> None:
        """The next connection may lead to another replica."""
        self._level_at_s = float("-inf")
        self._figures = -1

    async def _follow(self) -> None:
        while True:
            asked_s = monotonic()
            try:
                written = await _position(self._primary, _WRITTEN)
                while await _position(self._replica, _REPLAYED) < written:
                    self._tell()
                    await asyncio.sleep(_ASK_EVERY_S)
                self._level_at_s = asked_s
            except StoreError as error:
                logger.debug("the replica cannot be asked: %s", error)
            self._tell()
            await asyncio.sleep(_ASK_EVERY_S)

    def _tell(self) -> None:
        is_used = monotonic() - self._level_at_s <= self._lag_s
        if is_used != self._is_used:
            self._is_used = is_used
            if is_used:
                logger.info("the replica keeps up, and is read from")
            else:
                logger.warning("the replica is away or too far behind: the primary is read from")


async def _position(database: PostgresqlDatabase, query: Query) -> Decimal:
    row = await database.fetch_one(query)
    assert row is not None
    return row[0] if row[0] is not None else Decimal(-1)
