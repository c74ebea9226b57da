"""How long the stages of some calls took: chosen, written, found and dropped again."""

import asyncio
from typing import Any

import pytest

from tests.support.stores import Store
from tollway.ledger import call_timings
from tollway.ledger.call_timings import CallTimings, StageTime, stage_times
from tollway.ledger.request_log import first_id
from tollway.store.database import Database, StoreBusyError

_NOW_MS = 1_800_000_000_000
_DAY_MS = 86_400_000


def an_id(at_ms: int) -> str:
    return f"{first_id(at_ms)}{'0' * 13}"


def test_ten_calls_of_a_second_are_timed_also_if_the_clock_goes_back(store: Store) -> None:
    async def work(database: Database) -> list[int]:
        timings = CallTimings(database)
        return [sum(timings.is_due(at_s) for _ in range(100)) for at_s in (1000.0, 1001.5, 500.0)]

    assert store.do(work) == [10, 10, 10]


def test_calls_without_an_account_use_up_none_of_the_ten(store: Store) -> None:
    async def work(database: Database) -> int:
        timings = CallTimings(database)
        for number in range(100):
            at_s = 1000.0 + number / 500
            assert timings.is_due(at_s)
            timings.give_back(at_s)
        return sum(timings.is_due(1000.5) for _ in range(100))

    assert store.do(work) == 10


def test_of_a_crowd_without_accounts_few_are_timed(store: Store) -> None:
    async def work(database: Database) -> tuple[int, list[bool]]:
        timings, timed = CallTimings(database), 0
        for number in range(1000):
            at_s = 1000.0 + number / 100_000
            if timings.is_due(at_s):
                timed += 1
                timings.give_back(at_s)
        # Neither a call soon after them nor one after the clock was set back waits any longer.
        return timed, [timings.is_due(1000.02), timings.is_due(500.0)]

    timed, later = store.do(work)
    assert timed <= 11
    assert later == [True, True]


def test_times_are_found_by_their_account_alone_and_dropped_after_days(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_timings, "_WRITE_AFTER_S", 0)
    stages = [StageTime("route", 3), StageTime("settle", 2100)]
    old, late = an_id(_NOW_MS), an_id(_NOW_MS + 3 * _DAY_MS)

    async def written(database: Database, request_id: str) -> dict[str, int]:
        CallTimings(database).add("acc_timed", request_id, stages)
        async with asyncio.timeout(20):
            while not (found := await stage_times(database, "acc_timed", request_id)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return found

    async def work(database: Database) -> tuple[dict[str, int], ...]:
        first = await written(database, old)
        other = await stage_times(database, "acc_other", old)
        await written(database, late)
        return first, other, await stage_times(database, "acc_timed", old)

    assert store.do(work) == ({"route": 3, "settle": 2100}, {}, {})


def test_a_call_that_ends_during_a_write_is_written_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_timings, "_WRITE_AFTER_S", 0)
    stages = [StageTime("route", 3)]
    first, second = an_id(_NOW_MS), an_id(_NOW_MS + 1)

    async def work(database: Database) -> dict[str, int]:
        is_writing, may_end = asyncio.Event(), asyncio.Event()
        write = database.write

        async def gated(work: Any) -> Any:
            is_writing.set()
            await may_end.wait()
            return await write(work)

        monkeypatch.setattr(database, "write", gated)
        timings = CallTimings(database)
        timings.add("acc_timed", first, stages)
        running = timings._running
        assert running is not None
        await is_writing.wait()
        timings.add("acc_timed", second, stages)
        may_end.set()
        await running
        return await stage_times(database, "acc_timed", second)

    assert store.do(work) == {"route": 3}


def test_what_cannot_be_written_is_lost_and_said_and_no_more_waits_than_it_may(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(call_timings, "_WRITE_AFTER_S", 0)

    async def work(database: Database) -> int:
        async def refused(_: Any) -> Any:
            raise StoreBusyError("another process writes")

        monkeypatch.setattr(database, "write", refused)
        timings = CallTimings(database)
        for number in range(1000):
            timings.add("acc_timed", an_id(_NOW_MS + number), [StageTime("route", 3)])
        waiting, running = len(timings._waiting), timings._running
        assert running is not None
        await running
        return waiting

    assert store.do(work) == 100
    assert "the times of some calls are lost: another process writes" in caplog.text
