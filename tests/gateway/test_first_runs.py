"""Regular work begins in turns when a gateway starts, and goes on as each piece of it likes."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tollway.gateway.worker import FirstRuns

pytestmark = pytest.mark.sqlite
_PATIENCE_S = 20


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, _PATIENCE_S))


def test_one_begins_when_the_one_before_has_ended() -> None:
    under_way: list[str] = []
    most = 0

    async def work() -> None:
        nonlocal most
        under_way.append("one more")
        most = max(most, len(under_way))
        for _ in range(5):
            await asyncio.sleep(0)
        under_way.pop()

    async def test() -> None:
        runs = FirstRuns()
        await asyncio.gather(*[runs.in_turn(work)() for _ in range(6)])
        assert most == 1
        # They do so without turns.
        await asyncio.gather(*[work() for _ in range(6)])
        assert most == 6

    run(test())


def test_one_that_takes_long_is_not_waited_for() -> None:
    async def test() -> None:
        runs, others_are_done = FirstRuns(), asyncio.Event()
        done: list[str] = []

        async def long() -> None:
            await others_are_done.wait()
            done.append("long")

        async def short() -> None:
            done.append("short")

        turns = [runs.in_turn(each) for each in (long, short, short)]
        first = asyncio.create_task(turns[0]())
        await asyncio.gather(turns[1](), turns[2]())
        others_are_done.set()
        await first
        assert done == ["short", "short", "long"]

    run(test())


@pytest.mark.parametrize("turns", range(8))
def test_one_that_is_stopped_while_it_waits_does_not_begin(turns: int) -> None:
    """Also if the one before ends in the same moment, so many turns of the loop earlier."""

    async def test() -> None:
        runs, may_end, begun = FirstRuns(), asyncio.Event(), False

        async def first() -> None:
            await may_end.wait()

        async def second() -> None:
            nonlocal begun
            begun = True

        tasks = [asyncio.create_task(runs.in_turn(each)()) for each in (first, second)]
        await asyncio.sleep(0)
        may_end.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        tasks[1].cancel()
        had_begun = begun
        await asyncio.gather(*tasks, return_exceptions=True)
        assert begun == had_begun

    run(test())


def test_one_that_fails_lets_the_next_begin_and_later_runs_wait_for_none() -> None:
    async def test() -> None:
        runs, done = FirstRuns(), 0

        async def fail() -> None:
            raise ValueError("as it must")

        async def work() -> None:
            nonlocal done
            done += 1

        failing, working = runs.in_turn(fail), runs.in_turn(work)
        with pytest.raises(ValueError, match="as it must"):
            await failing()
        await working()
        never = asyncio.create_task(runs.in_turn(asyncio.Event().wait)())  # type: ignore[arg-type]
        await working()
        assert done == 2
        never.cancel()

    run(test())
