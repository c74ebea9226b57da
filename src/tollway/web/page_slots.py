"""The slots of pages: how many are made at once, and how much of the event loop they take."""

import asyncio
from collections.abc import Awaitable, Generator
from time import monotonic, perf_counter
from typing import Any, Generic, TypeVar

from tollway.store.concurrency import TurnSlots

T = TypeVar("T")
# Of the event loop, pages take one part in so many once they have had so much at a stretch, which
# is more than people ask for.
_ONE_IN = 4
_BURST_S = 0.5


class PageSlots(TurnSlots):
    """Slots that are given on later if pages have taken more than their part of the event loop.

    No call goes on while a page is made, and a long page takes as long as dozens of calls. With a
    page in every turn of the loop, a call would wait for several of them.
    """

    def __init__(self, number: int, busy: str) -> None:
        super().__init__(number, busy)
        # Until when the part of the pages is used up.
        self._used_until_s = 0.0

    def leave_after(self, took_s: float) -> None:
        """Gives back the slot of a page that took the loop for so long."""
        now_s = monotonic()
        since_s = max(self._used_until_s, now_s - _BURST_S * _ONE_IN)
        self._used_until_s = since_s + took_s * _ONE_IN
        rest_s = self._used_until_s - now_s
        if rest_s > 0:
            asyncio.get_running_loop().call_later(rest_s, self.leave)
        else:
            self.leave()


class LoopTime(Generic[T]):
    """Awaits something, and measures how long it takes the event loop: not what it waits for."""

    def __init__(self, work: Awaitable[T]) -> None:
        self._work = work
        self._taken_s = self._began_s = 0.0

    def taken_s(self) -> float:
        """Since this was last asked."""
        now_s = perf_counter()
        taken_s = self._taken_s + (now_s - self._began_s if self._began_s else 0.0)
        self._taken_s, self._began_s = 0.0, self._began_s and now_s
        return taken_s

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        step, given = steps.send, None
        while True:
            self._began_s = perf_counter()
            try:
                awaited = step(given)
            except StopIteration as finished:
                result: T = finished.value
                return result
            finally:
                self._taken_s += perf_counter() - self._began_s
                self._began_s = 0.0
            try:
                given, step = (yield awaited), steps.send
            except BaseException as error:
                given, step = error, steps.throw
