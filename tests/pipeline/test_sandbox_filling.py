"""When the sandbox is filled: with the first call that needs it, and once more on a new day."""

import asyncio
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import func, select

from tollway.demo import sandbox as demo
from tollway.demo.sandbox import Sandbox
from tollway.operations.product_analysis.schema import product_day
from tollway.store.database import StoreUnavailableError
from tollway.store.query import Query

# It is in SQLite whatever the gateway serves.
pytestmark = pytest.mark.sqlite

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
        sandbox = Sandbox(ZoneInfo("Asia/Shanghai"), lambda: today)
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


def test_a_caller_that_goes_away_or_a_failure_does_not_spoil_it(fillings: Fillings) -> None:
    fillings.failures = 1

    async def work() -> None:
        sandbox = Sandbox(ZoneInfo("Asia/Shanghai"), lambda: date(2026, 3, 1))
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


def test_it_is_closed_after_its_filling(fillings: Fillings) -> None:
    async def work() -> None:
        sandbox = Sandbox(ZoneInfo("Asia/Shanghai"), lambda: date(2026, 3, 1))
        caller = asyncio.create_task(_newest_day(sandbox))
        await asyncio.sleep(0)
        caller.cancel()
        await sandbox.close()
        assert fillings.count == 1

    asyncio.run(work())
