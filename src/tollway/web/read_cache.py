"""A cache for long reads: pages show a result from a moment ago rather than wait for a new one."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, NamedTuple, TypeVar

# A younger result is fresh; an older one is shown while it is read again, up to _SHOWN_S.
_FRESH_S = 15.0
_SHOWN_S = 600.0
# Delays the refresh until the page that triggered it is answered, so that it does not hold up the
# page's other reads.
_AFTER_S = 1.0

logger = logging.getLogger("tollway.web")

T = TypeVar("T")


class _Result(NamedTuple):
    value: Any
    read_at_s: float


class ReadCache:
    """Results by name. Empty results are not cached: the first row should appear at once."""

    def __init__(self) -> None:
        self._results: dict[str, _Result] = {}
        self._reading: dict[str, asyncio.Task[Any]] = {}

    async def get(self, name: str, read: Callable[[], Awaitable[T]]) -> T:
        """The cached result, or a new one if there is none or it is too old."""
        result = self._results.get(name)
        age_s = float("inf") if result is None else monotonic() - result.read_at_s
        if age_s >= _FRESH_S and name not in self._reading:
            after_s = _AFTER_S if age_s < _SHOWN_S else 0.0
            self._reading[name] = asyncio.create_task(self._read(name, read, after_s))
            self._reading[name].add_done_callback(_log_failure)
        if result is None or age_s >= _SHOWN_S:
            # Shielded: a page that is cancelled must not cancel the read for the others.
            value: T = await asyncio.shield(self._reading[name])
        else:
            value = result.value
        return value

    async def _read(self, name: str, read: Callable[[], Awaitable[T]], after_s: float) -> T:
        try:
            await asyncio.sleep(after_s)
            value = await read()
        finally:
            del self._reading[name]
        if value:
            self._results[name] = _Result(value, monotonic())
        else:
            self._results.pop(name, None)
        return value


def _log_failure(task: asyncio.Task[Any]) -> None:
    """Pages that wait for the read get its error; if none waits, the next page retries."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("what a page sums up could not be read: %s", error)
