"""Charging: concurrent calls share commits, and a commit that fails charges no call."""

import asyncio
import threading
from collections.abc import Callable
from time import monotonic

import pytest

from tests.ledger.charging_bench import Bench, OnBench
from tollway.ledger import charge_queue
from tollway.ledger.accounts import open_account
from tollway.ledger.charges import IdempotencyKey, ShortageError
from tollway.ledger.entries import newest_entries, top_up
from tollway.ledger.runtime import Runtime
from tollway.store.database import (
    CommitUnknownError,
    Database,
    StoreBusyError,
    StoreUnavailableError,
)

# Calls that wait here are let go after less than a second, on a machine that is not busy.
LET_GO_WITHIN_S = 10


async def test_calls_that_arrive_during_a_commit_share_the_next_one(bench: Bench) -> None:
    bench.database.slow_commit.clear()
    first = bench.settle(0)
    await asyncio.to_thread(bench.database.has_worked.wait)
    others = [bench.settle(number) for number in range(1, 64)]
    assert not first.done()
    bench.database.slow_commit.set()
    await asyncio.gather(first, *others)
    assert bench.database.commits == 2
    assert await bench.left() == 36


@pytest.mark.sqlite
async def test_a_batch_that_waits_for_other_writers_takes_along_what_comes_meanwhile(
    bench: Bench,
) -> None:
    bench.database.gate.clear()
    first = bench.settle(0)
    await bench.database.has_begun.wait()
    others = [bench.settle(number) for number in range(1, 64)]
    gone = bench.settle(64)
    gone.cancel()
    bench.database.gate.set()
    await asyncio.gather(first, *others)
    assert bench.database.commits == 1
    assert await bench.left() == 36


async def test_an_error_after_a_charge_leaves_the_other_calls_of_its_batch_alone(
    bench: Bench,
) -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: reported.append(context["exception"])
    )
    mistake = ValueError("a mistake")

    def fail(_: object) -> None:
        raise mistake

    first, other = bench.settle(0), bench.settle(1)
    first.add_done_callback(fail)
    await other
    assert reported == [mistake]
    assert first.done() and await bench.left() == 98


async def test_a_task_that_is_cancelled_before_its_batch_begins_is_not_charged(
    bench: Bench,
) -> None:
    bench.database.gate.clear()
    first = bench.settle(0)
    await bench.database.has_begun.wait()

    async def pay() -> object:
        return await bench.settle(1)

    gone = asyncio.create_task(pay())
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    bench.database.gate.set()
    await first
    await bench.settle(2)
    assert await bench.left() == 98


async def test_no_call_is_answered_before_the_commit(bench: Bench) -> None:
    bench.database.gate.clear()
    waiting = [bench.settle(number) for number in range(5)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    bench.database.gate.set()
    await asyncio.gather(*waiting)


async def test_a_commit_that_fails_fails_every_waiter_and_charges_no_call(bench: Bench) -> None:
    bench.database.fails_with = StoreUnavailableError("disk full")
    waiting = [bench.settle(number) for number in range(10)]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StoreUnavailableError}
    assert await bench.left() == 100
    bench.database.fails_with = None
    await bench.settle(11)
    assert await bench.left() == 99
    entries = await newest_entries(bench.inner, bench.account_id, "credits", 100)
    assert [entry.request_id for entry in entries] == ["r11", None]


async def test_exactly_what_the_balance_covers_is_charged_and_the_rest_refused(
    bench: Bench,
) -> None:
    waiting = [bench.settle(number) for number in range(130)]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(outcome, ShortageError) for outcome in outcomes] == (
        [False] * 100 + [True] * 30
    )
    assert bench.shortages == [(bench.account_id, "credits", 0)] * 30
    assert await bench.left() == 0


async def test_more_than_a_batch_holds_is_settled_in_several(bench: Bench) -> None:
    waiting = [bench.settle(number) for number in range(1100)]
    await asyncio.gather(*waiting, return_exceptions=True)
    assert bench.database.commits == 3
    assert await bench.left() == 0


async def test_a_caller_that_has_gone_away_before_its_commit_is_not_charged(bench: Bench) -> None:
    bench.database.gate.clear()
    first = bench.settle(0)
    await bench.database.has_begun.wait()
    gone, stays = bench.settle(1), bench.settle(2)
    gone.cancel()
    bench.database.gate.set()
    await asyncio.gather(first, stays)
    assert await bench.left() == 98


@pytest.mark.parametrize("error", [None, StoreUnavailableError("disk full")])
async def test_one_that_goes_away_during_its_commit_changes_nothing_for_others(
    bench: Bench, error: Exception | None
) -> None:
    bench.database.fails_with = error
    bench.database.gate.clear()
    calls = [bench.settle(number) for number in range(102)]
    await bench.database.has_begun.wait()
    calls[101].cancel()
    bench.database.gate.set()
    ended = await asyncio.gather(*calls[:101], return_exceptions=True)
    assert ended.count(None) == (100 if error is None else 0)
    assert await bench.left() == (0 if error is None else 100)


def test_a_call_that_waits_behind_a_slow_batch_is_let_go_and_not_charged(
    on_bench: OnBench,
) -> None:
    async def test(bench: Bench) -> None:
        bench.database.gate.clear()
        first = bench.settle(0)
        await bench.database.has_begun.wait()
        behind = [bench.settle(number) for number in range(1, 4)]
        # While the slow batch is still being posted.
        outcomes = await asyncio.wait_for(
            asyncio.gather(*behind, return_exceptions=True), LET_GO_WITHIN_S
        )
        assert {type(outcome) for outcome in outcomes} == {StoreBusyError}
        bench.database.gate.set()
        await asyncio.gather(first, return_exceptions=True)
        await bench.settle(4)
        posted = await newest_entries(bench.inner, bench.account_id, "credits", 100)
        assert {entry.request_id for entry in posted}.isdisjoint({"r1", "r2", "r3"})

    on_bench(test, timeout_s=0.2)


def test_a_call_whose_batch_has_not_begun_is_withdrawn_from_it(on_bench: OnBench) -> None:
    async def test(bench: Bench) -> None:
        if bench.inner.is_shared:
            return  # There a batch begins when it is sent.
        bench.database.gate.clear()
        waiting = [bench.settle(number) for number in range(3)]
        outcomes = await asyncio.wait_for(
            asyncio.gather(*waiting, return_exceptions=True), LET_GO_WITHIN_S
        )
        assert {type(outcome) for outcome in outcomes} == {StoreBusyError}
        bench.database.gate.set()
        await bench.settle(3)
        assert await bench.left() == 99

    on_bench(test, timeout_s=0.2)


async def test_a_call_whose_batch_is_being_posted_too_long_is_in_doubt_and_charged_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.database.slow_commit.clear()
    waiting = [bench.settle(number) for number in range(3)]
    await asyncio.to_thread(bench.database.has_worked.wait)
    # The batch has begun: only now a minute passes.
    monkeypatch.setattr(charge_queue, "monotonic", lambda: monotonic() + 60)
    outcomes = await asyncio.wait_for(
        asyncio.gather(*waiting, return_exceptions=True), LET_GO_WITHIN_S
    )
    assert {type(outcome) for outcome in outcomes} == {CommitUnknownError}
    bench.database.slow_commit.set()
    await bench.settle(3)
    assert await bench.left() == 96
    posted = await newest_entries(bench.inner, bench.account_id, "credits", 100)
    assert [entry.request_id for entry in posted] == ["r3", "r2", "r1", "r0", None]


async def test_a_call_that_waited_too_long_is_not_charged(
    database: Database, new_name: Callable[[], str]
) -> None:
    account = await open_account(database, Runtime(), new_name())
    await top_up(database, Runtime(), account.id, "credits", 100)
    bench = Bench(database, account.id, timeout_s=-1)
    with pytest.raises(StoreBusyError):
        await bench.settle(0)
    assert (bench.database.commits, await bench.left()) == (0, 100)


async def test_kept_answers_are_packed_and_sealed_outside_of_the_event_loop(bench: Bench) -> None:
    threads = set()

    def seal(data: bytes) -> bytes:
        threads.add(threading.current_thread())
        return data

    def keyed(number: int) -> IdempotencyKey:
        return IdempotencyKey(f"key {number}", b"1", b"1".__eq__, seal, b"x" * 4096)

    calls = [bench.settle(number, keyed(number)) for number in range(64)]
    await asyncio.gather(*calls)
    assert await bench.left() == 36
    assert threads
    assert threading.current_thread() not in threads
