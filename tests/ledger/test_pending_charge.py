"""A charge on its way: it ends once, and the call that waits goes on with what became of it."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable

import pytest

from tollway.ledger.charge_queue import PendingCharge
from tollway.ledger.charges import ActResult, Charge
from tollway.store.database import StoreUnavailableError

pytestmark = pytest.mark.sqlite
RESULT = ActResult(b"{}", is_paid=True)


def pending(
    then: Callable[[ActResult | None], Awaitable[None] | None] | None = None,
) -> PendingCharge:
    charge = Charge("acc", "credits", 1, "orders", "request", "token", 0)
    return PendingCharge(charge, 0.0, then=then)


def failed(error: BaseException) -> BaseException:
    """An error that was raised, and so has a trace."""
    try:
        raise error
    except type(error) as raised:
        return raised


async def wait_for(waiting: PendingCharge) -> ActResult | None:
    return await waiting


async def begun(waiting: PendingCharge) -> asyncio.Task[ActResult | None]:
    """A task that waits for a charge by now."""
    task = asyncio.create_task(wait_for(waiting))
    await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("outcome", [None, RESULT])
def test_it_is_done_once_it_has_ended_and_has_the_result(outcome: ActResult | None) -> None:
    waiting = pending()
    assert waiting.done() is False
    waiting.end(outcome)
    assert waiting.done() is True
    assert waiting.result() is outcome


def test_it_ends_only_once() -> None:
    waiting, seen = pending(), []
    waiting.add_done_callback(lambda ended: seen.append(ended.result()))
    waiting.end(RESULT)
    waiting.end(None)
    waiting.end(StoreUnavailableError("disk full"))
    # The caller goes away after the charge was posted: that changes nothing about the charge.
    waiting.cancel()
    assert waiting.result() is RESULT
    assert seen == [RESULT]


def test_one_whose_caller_goes_away_has_ended_without_a_result() -> None:
    waiting = pending()
    waiting.cancel()
    waiting.end(RESULT)
    with pytest.raises(asyncio.CancelledError):
        waiting.result()


def test_its_callback_runs_when_it_ends_or_at_once_if_it_has_ended() -> None:
    first, seen = pending(), []
    first.add_done_callback(seen.append)
    assert seen == []
    first.end(None)
    assert seen == [first]
    second = pending()
    second.end(RESULT)
    second.add_done_callback(seen.append)
    assert seen == [first, second]


def test_an_error_in_a_callback_is_reported_to_the_loop_and_stops_no_batch() -> None:
    mistake, reported = ValueError("a mistake"), []

    def fail(_: PendingCharge) -> None:
        raise mistake

    async def test() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        waiting = pending()
        waiting.add_done_callback(fail)
        waiting.end(None)
        assert waiting.done()

    asyncio.run(test())
    assert reported == [{"message": "an error after a charge", "exception": mistake}]


def test_an_error_that_all_calls_of_a_batch_share_has_the_same_trace_for_each() -> None:
    error = failed(StoreUnavailableError("disk full"))
    calls = [pending() for _ in range(4)]
    for call in calls:
        call.end(error)
    traces = []
    for call in calls:
        with pytest.raises(StoreUnavailableError) as raised:
            call.result()
        traces.append([frame.name for frame in traceback.extract_tb(raised.value.__traceback__)])
    # Where it came from is at the end of it.
    here = "test_an_error_that_all_calls_of_a_batch_share_has_the_same_trace_for_each"
    assert traces == [[here, "result", "failed"]] * 4


@pytest.mark.parametrize("outcome", [None, RESULT])
def test_its_stage_goes_on_with_the_result(outcome: ActResult | None) -> None:
    seen: list[ActResult | None] = []

    async def more() -> None:
        seen.append(outcome)

    def go_on(result: ActResult | None) -> Awaitable[None]:
        seen.append(result)
        return more()

    waiting = pending(go_on)
    waiting.end(outcome)
    rest = waiting.resume()
    assert rest is not None and seen == [outcome]
    asyncio.run(rest)  # type: ignore[arg-type]
    assert seen == [outcome, outcome]


def test_a_stage_that_does_nothing_more_is_over() -> None:
    waiting = pending()
    waiting.end(RESULT)
    assert waiting.resume() is None


def test_a_stage_does_not_go_on_if_its_charge_has_failed() -> None:
    seen: list[ActResult | None] = []
    waiting = pending(seen.append)
    waiting.end(StoreUnavailableError("disk full"))
    with pytest.raises(StoreUnavailableError):
        waiting.resume()
    assert seen == []


async def test_a_call_that_waits_gets_the_result_when_it_ends() -> None:
    waiting = pending()
    task = await begun(waiting)
    assert not task.done()
    waiting.end(RESULT)
    await asyncio.sleep(0)
    assert task.done() and task.result() is RESULT


async def test_a_call_that_waits_gets_the_error_when_it_fails() -> None:
    waiting = pending()
    task = await begun(waiting)
    error = StoreUnavailableError("disk full")
    waiting.end(error)
    await asyncio.sleep(0)
    assert task.done() and task.exception() is error


def test_one_that_has_ended_is_not_waited_for() -> None:
    waiting = pending()
    waiting.end(RESULT)
    # Without a loop that anything could be waited for in.
    with pytest.raises(StopIteration) as ended:
        next(waiting.__await__())
    assert ended.value.value is RESULT


@pytest.mark.parametrize(
    "steps",
    # The charge may be posted in the very moment in which its caller goes away.
    [["cancel"], ["cancel", "end"], ["end", "cancel"]],
    ids=["while it waits", "just before the end", "just after the end"],
)
def test_a_task_that_is_cancelled_is_cancelled_and_gives_up_its_charge(steps: list[str]) -> None:
    reported: list[object] = []

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, found: reported.append(found))
        waiting = pending()
        task = await begun(waiting)
        for step in steps:
            if step == "cancel":
                task.cancel()
            else:
                waiting.end(RESULT)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        if "end" in steps:
            assert waiting.result() is RESULT
        else:
            with pytest.raises(asyncio.CancelledError):
                waiting.result()

    asyncio.run(test())
    assert reported == []
