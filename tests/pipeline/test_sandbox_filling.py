"""When the sandbox is filled: with the first call that needs it, and once more on a new day; and
what it drops: old rows of test calls, and folders that killed processes left behind."""

import asyncio
import shutil
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from time import time
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import func, select

from tollway.demo import sandbox as demo
from tollway.demo.sandbox import Sandbox, SandboxFolder
from tollway.operations.product_analysis.schema import product_day
from tollway.store.database import StoreUnavailableError
from tollway.store.query import Query
from tollway.store.schema.ledger import idempotency_key

# It is in SQLite whatever the gateway serves.
pytestmark = pytest.mark.sqlite

KEPT = Query(
    select(idempotency_key.c.account_id, idempotency_key.c.key).order_by(
        *idempotency_key.primary_key
    )
)
MODEST = ("modest", "kept")
NEWEST_DAY = Query(select(func.max(product_day.c.day)))


class Fillings:
    """Counts how often it is filled; fails as often as requested."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.failures = 0
        self._fill_all = demo.fill_all
        monkeypatch.setattr(demo, "fill_all", self._fill)

    async def _fill(self, *arguments: Any, **options: Any) -> None:
        self.count += 1
        if self.failures:
            self.failures -= 1
            raise StoreUnavailableError("disk full")
        await self._fill_all(*arguments, **options)


@pytest.fixture
def fillings(monkeypatch: pytest.MonkeyPatch) -> Fillings:
    return Fillings(monkeypatch)


async def _newest_day(sandbox: Sandbox) -> int:
    row = await sandbox.database.fetch_one(NEWEST_DAY)
    assert row is not None
    day: int = row[0]
    return day


def test_it_is_filled_on_the_first_use_and_continued_on_a_new_day(fillings: Fillings) -> None:
    today = date(2026, 3, 1)

    async def work() -> None:
        nonlocal today
        sandbox = Sandbox(ZoneInfo("Asia/Shanghai"), lambda: today, bytes(32))
        try:
            assert fillings.count == 0
            found = await asyncio.gather(*(_newest_day(sandbox) for _ in range(3)))
            assert (found, fillings.count) == ([20260301] * 3, 1)
            today = date(2026, 3, 2)
            found = await asyncio.gather(*(_newest_day(sandbox) for _ in range(3)))
            assert (found, fillings.count) == ([20260302] * 3, 2)
        finally:
            await sandbox.close()

    asyncio.run(work())


def test_it_is_made_again_if_its_folder_was_cleared_away_while_it_was_not_used(
    fillings: Fillings,
) -> None:
    today = date(2026, 3, 1)

    async def work() -> None:
        nonlocal today
        sandbox = Sandbox(ZoneInfo("Asia/Shanghai"), lambda: today, bytes(32))
        try:
            await _newest_day(sandbox)
            assert sandbox._folder is not None
            shutil.rmtree(sandbox._folder.path)
            today = date(2026, 3, 12)
            assert await sandbox.database.fetch_long(NEWEST_DAY) == [(20260312,)]
        finally:
            await sandbox.close()

    asyncio.run(work())


def test_a_caller_that_goes_away_or_a_failure_does_not_spoil_it(fillings: Fillings) -> None:
    fillings.failures = 1

    async def work() -> None:
        sandbox = Sandbox(ZoneInfo("Asia/Shanghai"), lambda: date(2026, 3, 1), bytes(32))
        try:
            with pytest.raises(StoreUnavailableError):
                await _newest_day(sandbox)
            first, second = (asyncio.create_task(_newest_day(sandbox)) for _ in range(2))
            await asyncio.sleep(0)
            first.cancel()
            assert await second == 20260301
            assert first.cancelled() and fillings.count == 2
        finally:
            await sandbox.close()

    asyncio.run(work())


async def test_it_is_closed_after_its_filling(fillings: Fillings) -> None:
    sandbox = Sandbox(ZoneInfo("Asia/Shanghai"), lambda: date(2026, 3, 1), bytes(32))
    caller = asyncio.create_task(_newest_day(sandbox))
    await asyncio.sleep(0)
    caller.cancel()
    await sandbox.close()
    assert fillings.count == 1


def _answer(account_id: str, key: str, at_ms: int, sealed_bytes: int) -> tuple[Any, ...]:
    return account_id, key, "request", at_ms, b"fingerprint", bytes(sealed_bytes)


async def test_of_what_test_calls_leave_behind_the_newest_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_ms, chunk = int(time() * 1000), 512 * 1024
    rows = [
        # One account stores far more than its share, another one little.
        *(_answer("greedy", f"{number:02}", now_ms - number, chunk) for number in range(40)),
        _answer("modest", "kept", now_ms - 1000, 100),
        _answer("modest", "expired", now_ms - 25 * 3600 * 1000, 100),
    ]
    sandbox = Sandbox(ZoneInfo("Asia/Shanghai"), lambda: date(2026, 3, 1), bytes(32))
    try:
        await sandbox.sweep()
        insert = Query(idempotency_key.insert())
        for _ in range(2):
            await sandbox.database.write(lambda tx: tx.execute_many(insert, rows))
            await sandbox.sweep()
            kept = await sandbox.database.fetch_all(KEPT)
            assert kept == [*(("greedy", f"{number:02}") for number in range(7)), MODEST]
            await sandbox.database.write_statement(Query(idempotency_key.delete()))
        # Without the regular work too, once there were enough writes.
        monkeypatch.setattr(demo, "_WRITES_PER_SWEEP", 2)
        for row in rows[:20]:
            await sandbox.database.write(lambda tx, row=row: tx.execute_many(insert, [row]))
        assert len(await sandbox.database.fetch_all(KEPT)) <= 7 + 2
    finally:
        await sandbox.close()


_KILLED = """
import os
from tollway.demo.sandbox import SandboxFolder
folder = SandboxFolder()
(folder.path / "sandbox.db").write_bytes(b"rows")
os._exit(9)
"""


def test_folders_of_killed_processes_are_removed_and_those_in_use_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    in_use = SandboxFolder()
    (tmp_path / "tollway-sandbox-not-a-folder").symlink_to(in_use.path)
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", _KILLED], check=False).returncode == 9
        assert len(list(tmp_path.glob("*/sandbox.db"))) == 1
    own = SandboxFolder()
    assert not list(tmp_path.glob("*/sandbox.db"))
    assert in_use.path.exists() and own.path.exists()
    own.close()
    in_use.close()
    assert [each.name for each in tmp_path.iterdir()] == ["tollway-sandbox-not-a-folder"]


def test_a_gateway_without_test_calls_makes_no_folder() -> None:
    sandbox = Sandbox(ZoneInfo("Asia/Shanghai"), lambda: date(2026, 3, 1), bytes(32))
    assert sandbox._folder is None
    asyncio.run(sandbox.close())
