"""A small batch waits for more calls where that pays, and never long."""

import asyncio
from time import monotonic

import pytest

from tests.ledger.charging_bench import Bench, OnBench
from tollway.ledger import charge_queue
from tollway.ledger.charge_queue import CpuContention

# Calls that wait here are let go after less than a second, on a machine that is not busy.
LET_GO_WITHIN_S = 10


async def posted_for_s(bench: Bench, calls: range, lasts_s: float) -> None:
    """Posts a batch whose commit takes so long; one call more arrives meanwhile."""
    bench.database.gate.clear()
    posted = [bench.settle(number) for number in calls]
    await bench.database.has_begun.wait()
    bench.late = bench.settle(calls.stop)
    await asyncio.sleep(lasts_s)
    bench.database.gate.set()
    await asyncio.gather(*posted)


@pytest.mark.postgresql
@pytest.mark.parametrize(("is_short", "commits"), [(True, 2), (False, 3)])
def test_a_small_batch_waits_for_those_that_come_back_if_the_cores_are_short(
    on_bench: OnBench, monkeypatch: pytest.MonkeyPatch, is_short: bool, commits: int
) -> None:
    monkeypatch.setattr(CpuContention, "is_short", lambda _: is_short)

    async def test(bench: Bench) -> None:
        await posted_for_s(bench, range(8), 1)
        if not is_short:
            await bench.late
        await asyncio.gather(bench.late, *(bench.settle(number) for number in range(9, 17)))
        assert bench.database.commits == commits
        assert await bench.left() == 83

    on_bench(test, wait_s=60)


@pytest.mark.postgresql
@pytest.mark.parametrize(("took_s", "wait_s"), [(0, 3600), (3600, 0.01)])
def test_a_batch_waits_no_longer_than_the_last_one_took_nor_than_the_setting(
    on_bench: OnBench, monkeypatch: pytest.MonkeyPatch, took_s: float, wait_s: float
) -> None:
    now_s = 1000.0
    monkeypatch.setattr(CpuContention, "is_short", lambda _: True)
    monkeypatch.setattr(charge_queue, "monotonic", lambda: now_s)

    async def test(bench: Bench) -> None:
        nonlocal now_s
        bench.database.gate.clear()
        posted = [bench.settle(number) for number in range(8)]
        await bench.database.has_begun.wait()
        late = bench.settle(8)
        now_s += took_s
        bench.database.gate.set()
        # The late one has no company, however long it waits.
        async with asyncio.timeout(LET_GO_WITHIN_S):
            await asyncio.gather(late, *posted)
        assert await bench.left() == 91

    on_bench(test, timeout_s=2 * 3600, wait_s=wait_s)


@pytest.mark.postgresql
def test_calls_that_come_one_at_a_time_wait_for_no_others(
    on_bench: OnBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CpuContention, "is_short", lambda _: True)

    async def test(bench: Bench) -> None:
        await posted_for_s(bench, range(1), 2)
        began_s = monotonic()
        await bench.late
        await bench.settle(2)
        assert monotonic() - began_s < 2

    on_bench(test, wait_s=60)
