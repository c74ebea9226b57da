"""The queue of charges: which calls share a batch and what each gets."""

import asyncio

import pytest

from tests.ledger.queue_bench import DONE, JOINT, OnQueue, QueueBench, act, charge
from tollway.ledger.charge_queue import PendingCharge
from tollway.ledger.charges import Act, BusyError, NoCapacityError, OverLimitError, ShortageError
from tollway.store.database import StoreUnavailableError

KINDS: dict[str, Act] = {"a": act, "j": JOINT}


def test_calls_that_come_during_a_commit_share_the_next_batches(on_queue: OnQueue) -> None:
    async def test(bench: QueueBench) -> None:
        bench.commit.clear()
        first = bench.settle("first")
        await bench.at(0)
        others = bench.settle_all(range(5))
        await bench.at(0)
        assert bench.batches == [["first"]] and not first.done()
        bench.commit.set()
        assert await asyncio.gather(first, *others) == [None] * 6
        assert bench.batches == [["first"], ["0", "1", "2"], ["3", "4"]]
        sizes = bench.metrics.render()
        assert b"tollway_settle_batch_calls_count 3.0" in sizes
        assert b"tollway_settle_batch_calls_sum 6.0" in sizes
        assert b'tollway_settle_batch_calls_bucket{le="2.0"} 2.0' in sizes

    on_queue(test, batch_max=3)


@pytest.mark.parametrize("kind", [None, act, JOINT], ids=["plain", "alone", "joint"])
def test_a_batch_that_waits_for_its_turn_takes_along_as_many_as_it_can_hold(
    on_queue: OnQueue, kind: Act | None
) -> None:
    async def test(bench: QueueBench) -> None:
        bench.turn.clear()
        calls = [bench.settle(name, kind) for name in "ab"]
        await bench.at(0)
        calls += [bench.settle(name, kind) for name in "cde"]
        await bench.at(0)
        bench.turn.set()
        await asyncio.gather(*calls)
        assert bench.batches == [["a", "b", "c"], ["d", "e"]]

    on_queue(test, batch_max=3)


def test_work_that_begins_again_takes_no_more_calls(on_queue: OnQueue) -> None:
    async def test(bench: QueueBench) -> None:
        bench.commit.clear()
        first = bench.settle("first")
        await bench.at(0)
        later = bench.settle("later")
        # What posts a batch begins it again after its commit, and compares.
        bench.commit.set()
        await asyncio.gather(first, later)
        assert bench.batches == [["first"], ["later"]]

    on_queue(test)


@pytest.mark.parametrize(
    ("kinds", "batches"),
    [
        ("aaa", ["aa", "a"]),
        ("aa", ["aa"]),
        ("jjjj", ["jjjj"]),
        ("ajja", ["ajja"]),
        ("ajajaj", ["ajaj", "aj"]),
        ("jjjaa", ["jjjaa"]),
        ("jaaj", ["jaaj"]),
    ],
)
def test_a_batch_has_few_calls_that_are_done_alone(
    on_queue: OnQueue, kinds: str, batches: list[str]
) -> None:
    async def test(bench: QueueBench) -> None:
        await asyncio.gather(*(bench.settle(kind, KINDS[kind]) for kind in kinds))
        assert ["".join(batch) for batch in bench.batches] == batches

    on_queue(test, alone_max=2)


@pytest.mark.parametrize(
    ("before", "meanwhile", "batches"),
    [
        ("a", "aa", ["aa", "a"]),
        ("aa", "a", ["aa", "a"]),
        ("aa", "ja", ["aaj", "a"]),
        ("jj", "aaa", ["jjaa", "a"]),
        ("ja", "jja", ["jajja"]),
    ],
)
def test_few_are_done_alone_also_of_those_that_a_batch_takes_along(
    on_queue: OnQueue, before: str, meanwhile: str, batches: list[str]
) -> None:
    async def test(bench: QueueBench) -> None:
        bench.turn.clear()
        calls = [bench.settle(kind, KINDS[kind]) for kind in before]
        await bench.at(0)
        calls += [bench.settle(kind, KINDS[kind]) for kind in meanwhile]
        bench.turn.set()
        await asyncio.gather(*calls)
        assert ["".join(batch) for batch in bench.batches] == batches

    on_queue(test, alone_max=2)


def test_without_such_a_bound_a_batch_is_full_of_calls_that_are_done_alone(
    on_queue: OnQueue,
) -> None:
    async def test(bench: QueueBench) -> None:
        await asyncio.gather(*(bench.settle(kind, act) for kind in "abcde"))
        assert ["".join(batch) for batch in bench.batches] == ["abcd", "e"]

    on_queue(test, batch_max=4)


def test_a_call_whose_caller_has_gone_away_is_not_begun(on_queue: OnQueue) -> None:
    async def test(bench: QueueBench) -> None:
        gone = bench.settle_all(["in the queue"])
        bench.turn.clear()
        stays = bench.settle("stays")
        gone += bench.settle_all(["in its batch"])
        gone[0].cancel()
        await bench.at(0)
        gone[1].cancel()
        gone += bench.settle_all(["taken along"])
        gone[2].cancel()
        bench.turn.set()
        await stays
        assert bench.batches == [["stays"]]
        # If all have gone away, nothing is posted.
        bench.settle("alone").cancel()
        await bench.at(0)
        assert bench.batches == [["stays"]]
        await bench.settle("next")
        assert bench.batches == [["stays"], ["next"]]

    on_queue(test)


def test_a_call_gets_its_own_result(on_queue: OnQueue) -> None:
    async def test(bench: QueueBench) -> None:
        refusal = ValueError("refused")
        bench.results |= {"acts": [DONE], "refused": [refusal]}
        calls = bench.settle_all(["plain", "acts", "refused", "other"])
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert found == [None, DONE, refusal, None]
        assert bench.shortages == []

    on_queue(test)


def test_a_batch_that_fails_fails_each_of_its_calls_and_none_after_it(on_queue: OnQueue) -> None:
    async def test(bench: QueueBench) -> None:
        bench.turn.clear()
        calls = bench.settle_all(range(2))
        await bench.at(0)
        calls += bench.settle_all(["taken along"])
        bench.fails_with = StoreUnavailableError("disk full")
        bench.turn.set()
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert found == [bench.fails_with] * 3
        assert b"tollway_settle_batch_calls_sum 3.0" in bench.metrics.render()
        bench.fails_with = None
        assert await bench.settle("next") is None

    on_queue(test)


def test_a_shortage_is_reported_with_what_is_left(on_queue: OnQueue) -> None:
    async def test(bench: QueueBench) -> None:
        bench.results["short"] = [ShortageError(7)]
        with pytest.raises(ShortageError):
            await bench.settle("short")
        assert bench.shortages == [("acc", "credits", 7)]

    on_queue(test)


def test_a_call_that_is_over_the_limit_by_little_is_tried_once_more(on_queue: OnQueue) -> None:
    async def test(bench: QueueBench) -> None:
        bench.results |= {
            "admitted then": [OverLimitError(0.1, 0)],
            "refused then": [OverLimitError(0.0625, 0), OverLimitError(0.0625, 0)],
        }
        admitted, refused = bench.settle_all(bench.results)
        with pytest.raises(OverLimitError):
            await refused
        assert bench.loop.time() == 0.0625 and not admitted.done()
        assert await admitted is None
        assert bench.loop.time() == 0.1
        assert bench.batches == [list(bench.results), ["refused then"], ["admitted then"]]

    on_queue(test)


def test_a_call_that_is_over_the_limit_by_more_is_refused_at_once(on_queue: OnQueue) -> None:
    async def test(bench: QueueBench) -> None:
        bench.results["over"] = [OverLimitError(0.101, 0)]
        with pytest.raises(OverLimitError):
            await bench.settle("over")
        assert bench.loop.time() == 0

    on_queue(test)


def test_a_call_without_capacity_comes_back_before_those_that_came_later_and_is_done_alone(
    on_queue: OnQueue,
) -> None:
    async def test(bench: QueueBench) -> None:
        bench.commit.clear()
        bench.results["left"] = [NoCapacityError()]
        left, other = bench.settle("left", JOINT), bench.settle("other")
        await bench.at(0.125)
        later = bench.settle("later", JOINT)
        bench.commit.set()
        await asyncio.gather(left, other, later)
        assert bench.begun == [
            [charge("left", JOINT), charge("other")],
            [charge("left", act), charge("later", JOINT)],
        ]

    on_queue(test)


def test_a_busy_call_goes_where_such_calls_wait_if_there_is_such_a_place(
    on_queue: OnQueue,
) -> None:
    busy: list[PendingCharge] = []

    async def test(bench: QueueBench) -> None:
        bench.results["busy"] = [BusyError()]
        waiting, other = bench.settle_all(["busy", "other"])
        await other
        await bench.at(1)
        assert busy == [waiting] and not waiting.done()
        assert bench.batches == [["busy", "other"]]

    on_queue(test, on_busy=busy.append)
