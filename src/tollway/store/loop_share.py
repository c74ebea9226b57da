"""How long work takes the event loop, and the part of it that one kind of work may take."""

from collections.abc import Awaitable, Generator
from time import monotonic, perf_counter
from typing import Any, Generic, TypeVar

T = TypeVar("T")
# One part of the event loop in so many.
_ONE_IN = 4
_BURST_S = 0.5


class LoopShare:
    """A quarter of the event loop, once work has taken half a second of it at a stretch: more than
    people ask for. No call goes on meanwhile, and some work takes as long as dozens of calls."""

    def __init__(self) -> None:
        # Until when the share is used up.
        self._used_until_s = 0.0

    def use(self, took_s: float) -> None:
        """Counts work that took the loop for so long."""
        since_s = max(self._used_until_s, monotonic() - _BURST_S * _ONE_IN)
        self._used_until_s = since_s + took_s * _ONE_IN

    def rest_s(self) -> float:
        """After how long more work may begin; negative if at once."""
        return self._used_until_s - monotonic()


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
        step, given, awaited = steps.send, None, None
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
                # An error that stays here keeps itself alive by its traceback, and with it a
                # connection that the server would end.
                given = None
            try:
                given, step = (yield awaited), steps.send
            except BaseException as error:
                given, step = error, steps.throw
            finally:
                awaited = None
