"""The sandbox: a small demo world per process, which is all that test tokens see.

The first test call creates it, and the first call of a new day continues it, so a gateway without
test calls spends nothing on it.

Test calls read the same data for all accounts, and no call changes that data. What they leave
behind, waybills and kept answers, belongs to their account; only the newest of it is kept."""

import asyncio
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from time import time
from typing import TypeVar
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Table, func, or_, select, tuple_

from tollway.carriers.vault import sandbox_vault
from tollway.demo.owners import add_sandbox_owners
from tollway.demo.world import fill_all
from tollway.ledger.charging import ChargeBatcher
from tollway.ledger.idempotency import sweep_kept
from tollway.ledger.usage import day_start_s
from tollway.operations.demo_data import DemoTarget
from tollway.store.database import Database, Row, Transaction
from tollway.store.migrate import migrate
from tollway.store.query import Query
from tollway.store.schema.carriers import waybill
from tollway.store.schema.ledger import idempotency_key
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.metrics import Metrics

T = TypeVar("T")

_FILE = "sandbox.db"
_PATIENCE_S = 10.0
# Limits for what test calls leave behind: per account, in all, and the number of writes after which
# a sweep runs in addition to the regular ones.
_ACCOUNT_BYTES_MAX = 4 * 1024 * 1024
_ALL_BYTES_MAX = 64 * 1024 * 1024
_WRITES_PER_SWEEP = 200
# The size of a row without its sealed column.
_ROW_BYTES = 1024
_FOLDER_PREFIX = "tollway-sandbox-"
_LOCK = "lock"


class OnDemandDatabase:
    """A database that is created and filled on demand. Calls that need it before it is current all
    wait for the same filling.

    While it is being filled, no call uses the database behind it.
    """

    dialect = SqliteDatabase.dialect
    is_shared = SqliteDatabase.is_shared
    # No synchronous read: the database may have to be filled first.
    row_at_once = None

    def __init__(
        self,
        is_current: Callable[[], bool],
        fill: Callable[[], Awaitable[Database]],
        sweep: Callable[[], Awaitable[None]],
    ) -> None:
        self._is_current = is_current
        self._fill = fill
        self._sweep = sweep
        self._writes = 0
        self._inner: Database | None = None
        self._filling: asyncio.Future[Database] | None = None

    def change_mark(self) -> object:
        """Always a new mark while there is no database, so that no earlier read counts as fresh."""
        return object() if self._inner is None else self._inner.change_mark()

    def record_mark(self) -> object:
        return object() if self._inner is None else self._inner.record_mark()

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        return await (await self._ready()).fetch_all(query, **values)

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        return await (await self._ready()).fetch_one(query, **values)

    async def fetch_long(
        self, query: Query, caller: str | None = None, /, **values: object
    ) -> Sequence[Row]:
        return await (await self._ready()).fetch_long(query, caller, **values)

    async def write(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        inner = await self._ready()
        self._writes += 1
        if self._writes % _WRITES_PER_SWEEP == 0:
            await self._sweep()
        return await inner.write(work)

    async def write_statement(self, query: Query, **values: object) -> Sequence[Row]:
        return await self.write(lambda transaction: transaction.fetch_all(query, **values))

    async def close(self) -> None:
        if self._filling is not None:
            await asyncio.gather(self._filling, return_exceptions=True)

    async def _ready(self) -> Database:
        if self._filling is None and self._inner is not None and self._is_current():
            return self._inner
        if self._filling is None:
            self._filling = asyncio.ensure_future(self._fill())
            self._filling.add_done_callback(self._is_done)
        # Shielded: a caller that disconnects must not cancel the filling for the others.
        self._inner = await asyncio.shield(self._filling)
        return self._inner

    def _is_done(self, _: asyncio.Future[Database]) -> None:
        # If it failed, the next call retries.
        self._filling = None


class Sandbox:
    """A temporary database with demo data up to today."""

    def __init__(
        self, zone: ZoneInfo, today: Callable[[], date], secret: bytes, site: str = ""
    ) -> None:
        self._zone = zone
        # The base address of its pictures and links.
        self._site = site
        self._today = today
        # Separate metrics that are never shown: sandbox calls must not change the real ones.
        self._metrics = Metrics()
        self._folder: SandboxFolder | None = None
        self._file: SqliteDatabase | None = None
        # The same keys in all workers: what one has sealed and sent to a caller, another can open.
        self.vault = sandbox_vault(secret)
        self._filled_to: date | None = None
        self.database = OnDemandDatabase(self._is_current, self._fill, self.sweep)

    def batcher(self, timeout_s: float) -> ChargeBatcher:
        """Commits what test calls do; they cost nothing, so no balance is ever short."""
        return ChargeBatcher(self.database, self._metrics, timeout_s, lambda *_: None)

    async def sweep(self) -> None:
        """Drops expired answers, and all but the newest rows of each account."""
        if self._file is None or not self._is_current():
            return
        await sweep_kept(self._file, int(time() * 1000))
        for drop in _DROPS:
            await self._file.write_statement(drop)

    async def close(self) -> None:
        await self.database.close()
        await self._remove()

    async def _remove(self) -> None:
        if self._file is not None:
            await self._file.close()
        if self._folder is not None:
            self._folder.close()
        self._file = self._folder = self._filled_to = None

    def _is_current(self) -> bool:
        return self._filled_to == self._today()

    async def _fill(self) -> Database:
        # In a thread, because generating records would block other calls.
        return await asyncio.to_thread(asyncio.run, self._continue_to(self._today()))

    async def _continue_to(self, today: date) -> Database:
        """Creates the world, or continues it on a new day."""
        if self._folder is not None and not (self._folder.path / _FILE).exists():
            # The system removes temporary files that were not used for some days.
            await self._remove()
        file = self._file or await self._make()
        made_days_ago = None if self._filled_to is None else (today - self._filled_to).days
        target = DemoTarget(
            file,
            self.vault.sealer,
            min(time(), day_start_s(today + timedelta(days=1), self._zone) - 1),
            self._zone,
            self._site,
            is_sandbox=True,
            made_days_ago=made_days_ago,
        )
        await fill_all(target)
        self._filled_to = today
        return file

    async def _make(self) -> SqliteDatabase:
        self._folder = self._folder or SandboxFolder()
        path = str(self._folder.path / _FILE)
        file = SqliteDatabase(path, _PATIENCE_S, self._metrics, may_vanish=True)
        try:
            await migrate(file)
            await add_sandbox_owners(file)
        except BaseException:
            await file.close()
            raise
        self._file = file
        return file


def _drop_all_but_newest(table: Table, at: ColumnElement[int]) -> Query:
    """Drops an account's oldest rows beyond its limit, and the oldest rows beyond the total."""
    key = list(table.primary_key)
    size = func.length(table.c.sealed) + _ROW_BYTES
    newest, rows = at.desc(), (None, 0)
    of_account = func.sum(size).over(partition_by=table.c.account_id, order_by=newest, rows=rows)
    of_all = func.sum(size).over(order_by=newest, rows=rows)
    sums = select(*key, of_account.label("of_account"), of_all.label("of_all")).subquery()
    is_beyond = or_(sums.c.of_account > _ACCOUNT_BYTES_MAX, sums.c.of_all > _ALL_BYTES_MAX)
    beyond = select(*(sums.c[column.name] for column in key)).where(is_beyond)
    return Query(table.delete().where(tuple_(*key).in_(beyond)))


_DROPS = (
    _drop_all_but_newest(idempotency_key, idempotency_key.c.at_ms),
    _drop_all_but_newest(waybill, waybill.c.asked_at_s),
)


class SandboxFolder:
    """The temporary folder of this process's sandbox; closing removes it.

    The process that created it holds a lock on a file in it. The system releases that lock however
    the process dies, so the next process recognises abandoned folders and removes them.
    """

    def __init__(self) -> None:
        _remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))
        # Locked before it is renamed, so that no other process ever sees an unlocked lock file.
        unnamed = self.path / "unnamed"
        self._lock = unnamed.open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / _LOCK)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _remove_abandoned() -> None:
    for folder in _own_folders():
        try:
            with (folder / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            # In use, still being created, or just removed by another process.
            continue


def _own_folders() -> Iterator[Path]:
    """The sandbox folders of this system user: others share the temporary folder."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*"):
        try:
            found = folder.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
            yield folder
