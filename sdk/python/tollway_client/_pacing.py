"""Keeps a client under the gateway's limit, so that calls wait here and are not refused there."""

from collections import deque
from heapq import heappop, heappush
from threading import Lock
from time import monotonic
from typing import Callable

# The gateway counts arrivals, and two calls may be closer together there than when they left.
_WINDOW_S = 1.05
DEFAULT_LIMIT = 10


class Pacer:
    """Reserves a moment for each call: never more than the limit in any window, by operation.

    The limit is the gateway's, as its last answer said. Calls of other processes of the account
    are not seen here; if they use up the limit, the answer is 202 and the call is repeated.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._limits: dict[str, int] = {}
        self._reserved: dict[str, deque[float]] = {}
        # Moments that were given back, the earliest first.
        self._free: dict[str, list[float]] = {}

    def reserve(self, name: str) -> "tuple[float, float]":
        """How many seconds to wait before the next call, and its moment."""
        with self._lock:
            now = self._clock()
            free = self._free.setdefault(name, [])
            while free:
                # One that is past is of no use: others may be taken close to it.
                at = heappop(free)
                if at >= now:
                    return at - now, at
            limit = self._limits.get(name, DEFAULT_LIMIT)
            reserved = self._reserved.setdefault(name, deque())
            while len(reserved) > limit:
                reserved.popleft()
            at = now
            if len(reserved) == limit:
                at = max(now, reserved.popleft() + _WINDOW_S)
            reserved.append(at)
            return at - now, at

    def give_back(self, name: str, at: float) -> None:
        """Of a call that is given up while it waits: the next one gets its moment."""
        with self._lock:
            heappush(self._free.setdefault(name, []), at)

    def learn(self, name: str, policy: str) -> None:
        """Takes the limit from a RateLimit-Policy header, such as `"orders";q=10;w=1`."""
        for part in policy.split(";"):
            key, _, value = part.strip().partition("=")
            if key == "q" and value.isascii() and value.isdigit() and int(value) > 0:
                with self._lock:
                    self._limits[name] = int(value)
