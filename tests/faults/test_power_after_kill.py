"""A worker is killed before the disk has what it committed, and the next one finds it in the log
all the same. Then a sync fails, and then the power goes: what was acknowledged is there.

The system reports a failed sync once, so no later one makes up for it; and a commit that is missing
on the disk would take all that follow it in the log with it.
"""

import asyncio
import random
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch

import apsw
import httpx
import pytest

from tests.faults.disk import IOERR, Fault, FaultyDisk
from tests.power.disk import Disk, put_back
from tests.support.all_operations import all_operations_caller, good_request, small_world
from tests.support.stores import Store
from tollway.gateway.gateway import Gateway
from tollway.gateway.worker_group import WorkerGroup
from tollway.operations.catalogue import ALL_TABLES
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.settings import Settings
from tollway.store.database import StoreUnavailableError
from tollway.store.key_check import files_of, use_files
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.logs import LogWriter

pytestmark = pytest.mark.sqlite

CALLS = 5
STATES = 50
_KILLED = "of the killed"


@contextmanager
def killed_at_the_end() -> Iterator[None]:
    """Connections that are opened meanwhile leave their log as it is when they are closed."""
    usual = apsw.Connection

    def connect(*arguments: Any, **options: Any) -> apsw.Connection:
        connection = usual(*arguments, **options)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        return connection

    with patch.object(apsw, "Connection", connect):
        yield


class Run:
    """A store with a commit that was never synced, and the gateways that are started on it."""

    def __init__(self, folder: Path, today: date) -> None:
        self._store = store = Store(folder / "tollway.db")
        self._today = today
        self._after = folder / "after"
        small_world(store, today)
        self._caller = all_operations_caller(store, rate_limit=1000, calls=100, credits_=100)
        files = files_of(Settings(database=store.url))
        store.do(lambda database: use_files(database, files, ALL_TABLES))
        self.disk = Disk(store.path)
        self.faults = FaultyDisk(store.path, self.disk.journal)
        self.acknowledged: list[str] = []
        self.starts = 0
        with self.faults.in_use(), killed_at_the_end():
            self._commit_without_sync()
            with self.faults.failing(Fault(1, IOERR, name="xSync")):
                asyncio.run(self._serve())
            if not self.acknowledged:
                asyncio.run(self._serve())

    def _commit_without_sync(self) -> None:
        with closing(apsw.Connection(str(self._store.path))) as opened:
            opened.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL").fetchall()
            # Much more than what is written to the log in one piece.
            opened.execute("INSERT INTO product VALUES (?, ?, '', 's')", (_KILLED, "t" * 2**20))

    async def _serve(self) -> None:
        """Serves as a worker does: one that cannot start is replaced by another."""
        gateway = Gateway(
            Settings(database=self._store.url), WorkerGroup(1, ""), 0, LogWriter(sys.stderr)
        )
        self.starts += 1
        try:
            await gateway.start()
            await self._call(gateway)
        except StoreUnavailableError:
            assert not self.acknowledged
        finally:
            await gateway._resources.close()

    async def _call(self, gateway: Gateway) -> None:
        transport = httpx.ASGITransport(app=gateway)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            for _ in range(CALLS):
                answer = await client.get(
                    PRODUCT_ANALYSIS.path,
                    params=good_request(PRODUCT_ANALYSIS, self._today),
                    headers={"Authorization": f"Bearer {self._caller.token}"},
                )
                if answer.json()["code"] == 0:
                    self.acknowledged.append(answer.headers["x-request-id"])

    def lost(self, chance: random.Random) -> Iterator[str]:
        """What was acknowledged and is not there, in each state that the disk may have now."""
        for _ in range(STATES):
            # From the start each time: what a failed sync has left is another thing each time, too.
            ((_, files),) = self.disk.cut_off([len(self.disk.journal)], chance)
            found = self._found(files)
            yield from (each for each in self.acknowledged if each not in found)

    def _found(self, files: dict[str, bytes]) -> set[str]:
        with closing(apsw.Connection(str(put_back(files, self._after)))) as opened:
            assert opened.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return {each for (each,) in opened.execute("SELECT request_id FROM entry")}


def test_what_is_acknowledged_after_a_kill_and_a_failed_sync_is_there(
    tmp_path: Path, today: date
) -> None:
    run = Run(tmp_path, today)
    assert run.starts == 2
    assert len(run.acknowledged) == CALLS
    seed = random.SystemRandom().randrange(10**9)
    assert not list(run.lost(random.Random(seed))), f"seed {seed}"


def test_the_control_that_trusts_the_log_is_found(tmp_path: Path, today: date) -> None:
    with patch.object(SqliteDatabase, "make_durable", AsyncMock()):
        assert any(Run(tmp_path, today).lost(random.Random(1)))
