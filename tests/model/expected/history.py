"""What a value was at which moment, as far as a client can know from outside.

A change takes effect at some moment between its request and its acknowledgement. So an answer may
show any value that could have been in force between the request for it and its arrival: from the
last change acknowledged before it was sent, to the last one begun before it came.
"""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
_ALWAYS_S = float("-inf")


class Span(NamedTuple):
    """From the request to its answer, on this process's monotonic clock."""

    sent_s: float
    answered_s: float


class History(Generic[T]):
    """The values of one thing, changed by one client at a time.

    `seen_after_s` is how long after its acknowledgement a change may still go unseen.
    """

    def __init__(self, first: T, seen_after_s: float = 0.0) -> None:
        self._values = [first]
        self._begun_s = [_ALWAYS_S]
        self._done_s = [_ALWAYS_S]
        self._seen_after_s = seen_after_s
        self._lock = Lock()

    @property
    def now(self) -> T:
        """The newest value, also if its change is under way."""
        return self._values[-1]

    @contextmanager
    def changing_to(self, value: T) -> Iterator[None]:
        """The change is requested and acknowledged within the block."""
        with self._lock:
            assert len(self._done_s) == len(self._values), "two changes at once"
            self._values.append(value)
            self._begun_s.append(monotonic())
        yield
        with self._lock:
            self._done_s.append(monotonic())

    def within(self, span: Span) -> list[T]:
        """The values that may have been in force at some moment of a span."""
        with self._lock:
            first = bisect_right(self._done_s, span.sent_s - self._seen_after_s) - 1
            last = bisect_right(self._begun_s, span.answered_s)
            return self._values[first:last]

    def forget(self, before_s: float) -> None:
        """Drops values that no request sent since then can see."""
        with self._lock:
            first = bisect_right(self._done_s, before_s - self._seen_after_s) - 1
            del self._values[:first], self._begun_s[:first], self._done_s[:first]
