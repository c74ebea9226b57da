"""An event loop with a time of its own, which passes at once: no test waits, every moment is exact.

The time stands as long as anything is to be done, and then goes on to the next timer.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

# What goes on for longer waits for something that never happens.
_END_S = 3600.0


class _Selector(selectors.SelectSelector):
    """Waits for nothing from outside: time passes instead."""

    def __init__(self, pass_time: Callable[[float], None]) -> None:
        super().__init__()
        self._pass_time = pass_time

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._pass_time(_END_S if timeout is None else timeout)
        return super().select(0)


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """Begins at 0 s. `timers` are those that were set and have neither run nor been cancelled."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._timers: list[asyncio.TimerHandle] = []
        super().__init__(_Selector(self._pass_time))
        self.failed: list[object] = []
        self.set_exception_handler(lambda _, context: self.failed.append(context))

    def time(self) -> float:
        return self._now_s

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = super().call_at(when, callback, *args, context=context)
        self._timers.append(timer)
        return timer

    @property
    def timers(self) -> int:
        waiting = [each for each in self._timers if not each.cancelled()]
        return sum(each.when() > self._now_s for each in waiting)

    def _pass_time(self, passed_s: float) -> None:
        self._now_s += passed_s
        assert self._now_s < _END_S, "it waits for something that never happens"


def in_fake_time(loop: FakeTimeLoop, work: Coroutine[None, None, None]) -> None:
    """Runs a test in such a loop. What fails in a callback fails the test too."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work)
    assert not loop.failed
