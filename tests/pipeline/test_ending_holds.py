"""The commit that ends a hold, by itself: how long it is tried, and what is said of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charges import Act, ActResult, Charge, ClosingAct
from tollway.pipeline import ending_holds
from tollway.pipeline.ending_holds import Closings
from tollway.store.database import StoreBusyError, StoreError

pytestmark = pytest.mark.sqlite

PRICE = 5
DONE = ActResult(b"answer", is_paid=False, captured=PRICE)
USUAL, LATE = cast(tuple[Act, Act], ("usual", "late"))
ACT = ClosingAct(USUAL, LATE, "carrier R1 gave YT1")
CHARGE = Charge("acc_x", "credits", PRICE, "waybills", "request", "tok_x", 0, ACT)


class Batcher:
    """One whose commits end so, one after the other; without any more, they do not end."""

    def __init__(self, *commits: ActResult | Exception) -> None:
        self._outcomes = iter(commits)
        self.posted: list[object] = []

    async def settle(self, charge: Charge) -> ActResult:
        self.posted.append(charge.act)
        outcome = next(self._outcomes, None)
        if outcome is None:
            await asyncio.Event().wait()
        if isinstance(outcome, Exception):
            raise outcome
        assert outcome is not None
        return outcome


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending_holds, "_PAUSE_S", 0.0)
    monkeypatch.setattr(ending_holds, "_STOP_S", 0.0)


def run(
    batcher: Batcher, work: Callable[[Closings, Awaitable[ActResult]], Awaitable[None]]
) -> None:
    async def limited() -> None:
        ending = Closings()
        async with asyncio.timeout(30):
            await work(ending, ending.post(cast(Any, batcher), CHARGE, ACT))

    asyncio.run(limited())


async def is_silent(_: Closings, call: Awaitable[ActResult]) -> None:
    with pytest.raises(Refusal) as refused:
        await call
    assert refused.value.reason is Reason.CARRIER_SILENT
    assert refused.value.values["cost"] == PRICE


def test_what_fails_is_tried_again_while_its_call_waits() -> None:
    async def work(_: Closings, call: Awaitable[ActResult]) -> None:
        assert await call == DONE

    batcher = Batcher(StoreError("away"), StoreBusyError("slow"), DONE)
    run(batcher, work)
    assert batcher.posted == [ACT] * 3


def test_once_its_call_was_answered_without_it_the_caller_is_to_be_notified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(ending: Closings, call: Awaitable[ActResult]) -> None:
        await is_silent(ending, call)
        await asyncio.gather(*ending._under_way)

    monkeypatch.setattr(ending_holds, "_CALL_WAITS_S", 0.0)
    batcher = Batcher(StoreError("away"), StoreError("away"), DONE)
    run(batcher, work)
    assert batcher.posted == [ACT, LATE, LATE]


def test_it_is_given_up_in_the_end_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ending_holds, "_TRIED_FOR_S", -1.0)
    run(Batcher(StoreError("away")), is_silent)
    assert caplog.messages == ["carrier R1 gave YT1; this could not be stored: away"]


@pytest.mark.parametrize("error", [ValueError("a mistake"), Refusal(Reason.CARRIER_SILENT, cost=5)])
def test_what_is_no_failure_of_the_database_is_not_tried_again(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    batcher = Batcher(error)
    run(batcher, is_silent)
    assert batcher.posted == [ACT]
    said = (
        [] if isinstance(error, Refusal) else [f"{ACT.outcome}; to store this failed unexpectedly"]
    )
    assert caplog.messages == said


def test_a_stop_does_not_wait_for_a_commit_that_does_not_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work(ending: Closings, call: Awaitable[ActResult]) -> None:
        waiting = asyncio.ensure_future(is_silent(ending, call))
        while not ending._under_way:  # noqa: ASYNC110 - it can only be polled
            await asyncio.sleep(0)
        await ending.finish()
        await waiting

    run(Batcher(), work)
    assert caplog.messages == ["carrier R1 gave YT1; this was not stored before the stop"]


def test_a_stop_with_nothing_under_way_waits_for_nothing() -> None:
    asyncio.run(Closings().finish())
