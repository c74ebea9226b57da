"""Stage: the exact sliding second.

Of one account's calls to one operation, never more than the limit are admitted in any 1,000 ms, and
none is refused while fewer were admitted in the last 1,000 ms. A refused call does not count.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from time import monotonic_ns

from tollway.contract.reasons import Reason, Refusal
from tollway.toll.call import Admission, Call

_SECOND_NS = 1_000_000_000


class SlidingSecond:
    """The admissions of the last second, by key.

    Windows are kept in the order of their last admission, and those that a second has passed by are
    dropped from the front. So memory is bounded by what was admitted in one second, however many
    keys there ever were. The clock is monotonic: setting the system's time changes nothing.
    """

    def __init__(self, clock_ns: Callable[[], int] = monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._windows: OrderedDict[object, deque[int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    def admit(self, key: object, limit: int) -> Admission | None:
        """Admits and counts, or gives None."""
        now_ns = self._clock_ns()
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = deque()
        else:
            while window and now_ns - window[0] >= _SECOND_NS:
                window.popleft()
            if len(window) >= limit:
                return None
            self._windows.move_to_end(key)
        window.append(now_ns)
        self._forget_idle(now_ns)
        return Admission(limit, limit - len(window))

    def remaining(self, key: object, limit: int) -> int:
        """How many could be admitted now; counts nothing."""
        now_ns = self._clock_ns()
        window = self._windows.get(key, ())
        return max(0, limit - sum(now_ns - at_ns < _SECOND_NS for at_ns in window))

    def _forget_idle(self, now_ns: int) -> None:
        # Two at most: one more than can have been added, so the idle ones become fewer.
        for _ in range(2):
            oldest = next(iter(self._windows))
            if now_ns - self._windows[oldest][-1] < _SECOND_NS:
                return
            del self._windows[oldest]


class Throttle:
    """Admits a call, or refuses it with 202."""

    def __init__(self, windows: SlidingSecond, default_limit: int) -> None:
        self._windows = windows
        self._default_limit = default_limit

    def __call__(self, call: Call) -> None:
        limit = self._limit(call)
        call.admission = self._windows.admit((call.account_id, call.operation_name), limit)
        if call.admission is None:
            raise Refusal(Reason.THROTTLED, limit=limit)

    def standing(self, call: Call) -> Admission:
        """Where the account stands, for a call that never came as far as being admitted."""
        limit = self._limit(call)
        key = (call.account_id, call.operation_name)
        return Admission(limit, self._windows.remaining(key, limit))

    def _limit(self, call: Call) -> int:
        permission = call.passport.permissions.get(call.operation_name)
        return (permission and permission.rate_limit) or self._default_limit
