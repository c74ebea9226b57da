"""Where the cores are short, a small batch waits for the calls that come back, and never long."""

import asyncio
from functools import partial

import pytest

from tests.ledger.queue_bench import OnQueue, QueueBench
from tests.support.in_loop import InLoop
from tollway.ledger.charge_queue import CpuContention


@pytest.fixture(autouse=True)
def _cores_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CpuContention, "is_short", lambda _: True)


@pytest.fixture
def bench(on_queue: OnQueue) -> InLoop[QueueBench]:
    return InLoop(partial(on_queue, wait_s=60))


async def posted(bench: QueueBench, last: int, now: int, took_s: float = 0.5) -> None:
    """A batch of so many calls that took so long; so many more have come meanwhile."""
    bench.commit.clear()
    calls = bench.settle_all(f"last {nth}" for nth in range(last))
    await bench.at(bench.loop.time())
    bench.settle_all(f"now {nth}" for nth in range(now))
    await asyncio.sleep(took_s)
    bench.commit.set()
    await asyncio.gather(*calls)
    await asyncio.sleep(0)


def sizes(bench: QueueBench) -> list[int]:
    return [len(batch) for batch in bench.begun]


@pytest.mark.parametrize(
    ("last", "now", "wanted"),
    [(8, 1, 9), (2, 1, 3), (1, 2, 3), (31, 1, 32), (32, 1, 32), (1, 31, 32), (40, 31, 32)],
)
async def test_a_small_batch_waits_for_as_many_as_were_answered_or_for_enough(
    bench: QueueBench, last: int, now: int, wanted: int
) -> None:
    await posted(bench, last, now)
    more = bench.settle_all(range(wanted - now - 1))
    await bench.at(0.75)
    assert sizes(bench) == [last], "it waits for one more"
    await bench.settle("the last")
    assert bench.loop.time() == 0.75
    assert sizes(bench) == [last, wanted]
    assert all(call.done() for call in more)


@pytest.mark.parametrize(
    ("last", "now"), [(1, 1), (8, 32), (1, 32)], ids=["one at a time", "enough", "enough at once"]
)
async def test_calls_that_come_one_at_a_time_and_a_batch_with_enough_wait_for_no_others(
    bench: QueueBench, last: int, now: int
) -> None:
    await posted(bench, last, now)
    assert sizes(bench) == [last, now]
    assert bench.loop.time() == 0.5


def test_no_batch_waits_where_cores_are_free(
    on_queue: OnQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CpuContention, "is_short", lambda _: False)

    async def test(bench: QueueBench) -> None:
        await posted(bench, 8, 1)
        assert sizes(bench) == [8, 1]

    on_queue(test, wait_s=60)


@pytest.mark.parametrize(
    ("took_s", "wait_s", "waits_s"), [(0.5, 60, 0.5), (3, 60, 3), (3, 0.25, 0.25), (3, 0, 0)]
)
def test_a_batch_waits_no_longer_than_the_last_one_took_nor_than_the_setting(
    on_queue: OnQueue, took_s: float, wait_s: float, waits_s: float
) -> None:
    async def test(bench: QueueBench) -> None:
        await bench.at(100)
        await posted(bench, 8, 1, took_s)
        if waits_s:
            await bench.at(100 + took_s + waits_s - 0.0625)
            assert sizes(bench) == [8]
        await bench.at(100 + took_s + waits_s)
        assert sizes(bench) == [8, 1]

    on_queue(test, wait_s=wait_s)


@pytest.mark.parametrize("comes_s", [0, 1, 2])
async def test_calls_that_come_long_after_the_last_batch_are_posted_at_once(
    bench: QueueBench, comes_s: float
) -> None:
    if comes_s:
        await posted(bench, 2, 0)
    # The batch took half a second, and a wait would have ended after another half.
    await bench.at(comes_s)
    before = len(bench.begun)
    bench.settle_all(range(2))
    await asyncio.sleep(0)
    assert len(bench.begun) == before + 1


async def test_a_batch_that_has_waited_is_followed_by_one_that_waits_again(
    bench: QueueBench,
) -> None:
    await posted(bench, 2, 1)
    bench.commit.clear()
    await bench.at(1)
    assert sizes(bench) == [2, 1]
    bench.settle_all(range(2))
    await bench.at(1.25)
    bench.commit.set()
    await bench.at(1.25)
    bench.settle("the last")
    await bench.at(1.25)
    assert sizes(bench) == [2, 1, 3]
