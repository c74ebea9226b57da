"""The sandbox: a small demo world of this process's own, which is all that test tokens see.

It is filled when the first test call needs it, and continued with the first call of a new day, so
that a gateway without test calls spends nothing on it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time
from typing import TypeVar
from zoneinfo import ZoneInfo

from tollway.carriers.vault import load_vault
from tollway.demo.owners import add_sandbox_owners
from tollway.demo.world import fill_all
from tollway.ledger.charging import ChargeBatcher
from tollway.operations.demo_data import DemoTarget, midnight_s
from tollway.store.database import Database, Row, Transaction
from tollway.store.migrate import migrate
from tollway.store.query import Query
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.metrics import Metrics

T = TypeVar("T")


class OnDemandDatabase:
    """A database that is filled on demand. Calls that need it before it is current wait for one
    shared filling.

    While it is filled, no call uses the database behind it.
    """

    def __init__(
        self,
        inner: Database,
        is_current: Callable[[], bool],
        fill: Callable[[], Awaitable[None]],
    ) -> None:
        self.dialect = inner.dialect
        self.is_shared = inner.is_shared
        self.change_mark = inner.change_mark
        self._inner = inner
        self._is_current = is_current
        self._fill = fill
        self._filling: asyncio.Future[None] | None = None

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        await self._ready()
        return await self._inner.fetch_all(query, **values)

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        await self._ready()
        return await self._inner.fetch_one(query, **values)

    async def fetch_long(
        self, query: Query, caller: str | None = None, /, **values: object
    ) -> Sequence[Row]:
        await self._ready()
        return await self._inner.fetch_long(query, caller, **values)

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        await self._ready()
        return await self._inner.write(work)

    async def write_statement(self, query: Query, **values: object) -> Sequence[Row]:
        await self._ready()
        return await self._inner.write_statement(query, **values)

    async def close(self) -> None:
        if self._filling is not None:
            await asyncio.gather(self._filling, return_exceptions=True)
        await self._inner.close()

    async def _ready(self) -> None:
        if self._filling is None and self._is_current():
            return
        if self._filling is None:
            self._filling = asyncio.ensure_future(self._fill())
            self._filling.add_done_callback(self._is_done)
        # Shielded: a caller that goes away must not end it for the others.
        await asyncio.shield(self._filling)

    def _is_done(self, _: asyncio.Future[None]) -> None:
        # If it failed, the next call tries again.
        self._filling = None


_PATIENCE_S = 10.0


class Sandbox:
    """A temporary database with demo data up to today."""

    def __init__(self, zone: ZoneInfo, today: Callable[[], date], site: str = "") -> None:
        self._zone = zone
        # Where its pictures and links lead.
        self._site = site
        self._today = today
        self._folder = TemporaryDirectory(prefix="tollway-sandbox-")
        # Its own metrics, which are not shown: sandbox calls must not change the real ones.
        self._metrics = Metrics()
        self._file = SqliteDatabase(f"{self._folder.name}/sandbox.db", _PATIENCE_S, self._metrics)
        self.vault = load_vault(Path(self._folder.name) / "keys")
        self._has_owners = False
        self._filled_to: date | None = None
        self.database = OnDemandDatabase(self._file, self._is_current, self._fill)

    def batcher(self, timeout_s: float) -> ChargeBatcher:
        """Commits what test calls do; they cost nothing, so no balance is ever short."""
        return ChargeBatcher(self.database, self._metrics, timeout_s, lambda *_: None)

    async def close(self) -> None:
        await self.database.close()
        self._folder.cleanup()

    def _is_current(self) -> bool:
        return self._filled_to == self._today()

    async def _fill(self) -> None:
        # On a thread: other calls would have to wait while records are made.
        await asyncio.to_thread(asyncio.run, self._continue_to(self._today()))

    async def _continue_to(self, today: date) -> None:
        """Makes the world, or continues it when a new day has come."""
        if not self._has_owners:
            await migrate(self._file)
            await add_sandbox_owners(self._file)
            self._has_owners = True
        made_days_ago = None if self._filled_to is None else (today - self._filled_to).days
        target = DemoTarget(
            self._file,
            self.vault.sealer,
            min(time(), midnight_s(today + timedelta(days=1), self._zone) - 1),
            self._zone,
            self._site,
            is_sandbox=True,
            made_days_ago=made_days_ago,
        )
        await fill_all(target)
        self._filled_to = today
