"""No call waits in the queue of charges, or for its batch, without an end."""

import asyncio
from functools import partial

import pytest
from msgspec.structs import replace

from tests.ledger.queue_bench import OnQueue, QueueBench, charge
from tests.support.in_loop import InLoop
from tollway.ledger.charge_queue import PendingCharge
from tollway.ledger.charges import OutdatedCallerError
from tollway.store.database import CommitUnknownError, StoreBusyError

TOO_LATE = "^waited too long to be charged$"
IN_DOUBT = "^the charge takes too long$"


@pytest.fixture
def bench(on_queue: OnQueue) -> InLoop[QueueBench]:
    return InLoop(partial(on_queue, timeout_s=1))


async def test_a_call_waits_in_the_queue_until_its_timeout_and_no_longer(bench: QueueBench) -> None:
    bench.commit.clear()
    posted = bench.settle("posted")
    await bench.at(0)
    early = bench.settle("early")
    await bench.at(0.5)
    late = bench.settle("late")
    await bench.at(1)
    assert not early.done()
    await bench.at(1.25)
    assert early.done() and not late.done() and not posted.done()
    with pytest.raises(StoreBusyError, match=TOO_LATE):
        await early
    await bench.at(1.5)
    bench.commit.set()
    await asyncio.gather(posted, late)
    assert bench.batches == [["posted"], ["late"]]


@pytest.mark.parametrize(("committed_s", "is_charged"), [(1.125, True), (1.1875, False)])
async def test_a_call_that_has_waited_too_long_is_found_before_the_next_look(
    bench: QueueBench, committed_s: float, is_charged: bool
) -> None:
    bench.commit.clear()
    bench.settle("posted")
    await bench.at(0.125)
    behind = bench.settle("behind")
    await bench.at(committed_s)
    bench.commit.set()
    await bench.at(committed_s)
    assert behind.done()
    assert bench.batches == ([["posted"], ["behind"]] if is_charged else [["posted"]])
    if not is_charged:
        with pytest.raises(StoreBusyError, match=TOO_LATE):
            await behind


async def test_a_call_whose_batch_has_not_begun_is_withdrawn_and_the_others_stay(
    bench: QueueBench,
) -> None:
    bench.turn.clear()
    early = bench.settle("early")
    await bench.at(0.5)
    late = bench.settle("late")
    await bench.at(1)
    assert not early.done()
    await bench.at(1.25)
    assert early.done() and not late.done()
    with pytest.raises(StoreBusyError, match=TOO_LATE):
        await early
    bench.turn.set()
    await late
    assert bench.batches == [["late"]]


async def test_a_call_whose_batch_has_begun_waits_two_seconds_more_and_is_then_in_doubt(
    bench: QueueBench,
) -> None:
    bench.turn.clear()
    bench.commit.clear()
    early = bench.settle("early")
    await bench.at(0.5)
    late = bench.settle("late")
    bench.turn.set()
    await bench.at(3)
    assert not early.done()
    await bench.at(3.25)
    assert early.done() and not late.done()
    with pytest.raises(CommitUnknownError, match=IN_DOUBT):
        await early
    bench.commit.set()
    # The commit came about after all: for the other one it is no doubt.
    assert await late is None
    assert bench.batches == [["early", "late"]]


async def test_a_call_that_has_waited_before_is_in_the_order_of_arrival_and_has_less_time_left(
    bench: QueueBench,
) -> None:
    bench.results["again"] = [OutdatedCallerError()]
    began_s = bench.loop.time()
    with pytest.raises(OutdatedCallerError) as outdated:
        await bench.settle("again")
    assert outdated.value.since_s == began_s
    bench.commit.clear()
    posted = bench.settle("posted")
    await bench.at(0.5)
    later = bench.settle("later")
    again = bench.queue.settle(replace(charge("again"), since_s=outdated.value.since_s))
    await bench.at(1)
    assert not again.done()
    await bench.at(1.25)
    assert again.done() and not later.done()
    with pytest.raises(StoreBusyError, match=TOO_LATE):
        await again
    bench.commit.set()
    await asyncio.gather(posted, later)
    assert bench.batches == [["again"], ["posted"], ["later"]]


async def test_a_call_from_another_queue_is_in_the_order_of_arrival_too(bench: QueueBench) -> None:
    bench.commit.clear()
    posted = bench.settle("posted")
    await bench.at(0.5)
    later = bench.settle("later")
    bench.queue.add(busy := PendingCharge(charge("busy"), 0.25))
    await bench.at(1.5)
    assert busy.done() and not later.done()
    with pytest.raises(StoreBusyError, match=TOO_LATE):
        await busy
    bench.commit.set()
    await asyncio.gather(posted, later)


async def test_one_timer_looks_after_all_calls_and_only_as_long_as_there_are_any(
    bench: QueueBench,
) -> None:
    for began_s in (0, 10):
        await bench.at(began_s)
        bench.commit.clear()
        posted = bench.settle_all(range(3))
        await bench.at(began_s)
        assert bench.loop.timers == 1
        # It looks again, also if there was nothing to do.
        await bench.at(began_s + 0.75)
        assert bench.loop.timers == 1
        behind = bench.settle("behind")
        await bench.at(began_s + 2)
        assert behind.done() and not posted[0].done()
        bench.commit.set()
        await asyncio.gather(*posted)
        await bench.at(began_s + 2.25)
        assert bench.loop.timers == 0
