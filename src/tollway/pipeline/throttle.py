"""Stage: the exact sliding second.

In any 1,000 ms, never more of an account's calls to an operation are admitted than the limit, and
none is refused while fewer were admitted in the last 1,000 ms. A refused call does not count.

Each process counts for itself. Where several gateways share a database, charging counts for all of
them, and this stage takes back the calls that charging refuses.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from time import monotonic_ns

from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.caller_cache import Caller, Rate
from tollway.pipeline.call import Admission, Call

_SECOND_NS = 1_000_000_000
# Looked up once: an enum member takes four times as long to look up as a global.
_THROTTLED = Reason.THROTTLED


class SlidingSecond:
    """The admissions of the last second, by key.

    Windows are in the order of their last admission, and those older than a second are dropped from
    the front. So memory is bounded by what was admitted in one second, however many keys there ever
    were. The clock is monotonic: setting the system's time changes nothing.
    """

    def __init__(self, clock_ns: Callable[[], int] = monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._windows: OrderedDict[object, deque[int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    def admit(self, key: object, limit: int) -> Admission | None:
        """Admits and counts, or returns None."""
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
        if len(self._windows) > 1:
            self._forget_idle(now_ns)
        return Admission(limit, limit - len(window))

    def remaining(self, key: object, limit: int) -> int:
        """How many calls could be admitted now; counts nothing."""
        window = self._windows.get(key)
        if window is None:
            return limit
        now_ns = self._clock_ns()
        return max(0, limit - sum(now_ns - at_ns < _SECOND_NS for at_ns in window))

    def take_back(self, key: object) -> None:
        """Undoes the admission of a call that was refused after all. Removes the newest one, so
        that none counts for too long."""
        window = self._windows.get(key)
        if window is not None:
            window.pop()
            if not window:
                del self._windows[key]

    def _forget_idle(self, now_ns: int) -> None:
        # Two at most: one more than was added, so that idle windows become fewer.
        for _ in range(2):
            oldest = next(iter(self._windows))
            if now_ns - self._windows[oldest][-1] < _SECOND_NS:
                return
            del self._windows[oldest]


class Throttle:
    """Admits a call, or refuses it with 202."""

    def __init__(
        self,
        windows: SlidingSecond,
        default_limit: int,
        clock_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._windows = windows
        self._default_limit = default_limit
        self._clock_ns = clock_ns
        # The windows that are full over all nodes, and until when: at most a second.
        self._full_until_ns: dict[object, int] = {}

    def __call__(self, call: Call) -> Refusal | None:
        caller, name = call.caller, call.operation_name
        limit, key = caller.rates.get(name) or self._rate(caller, name)
        if not self._full_until_ns or not self._is_full(key):
            call.admission = self._windows.admit(key, limit)
        if call.admission is None:
            call.left = Admission(limit, 0)
            return Refusal(_THROTTLED, limit=limit)
        return None

    def renew_limit(self, call: Call) -> None:
        """Gives an admitted call the limit that its caller has now, for charging to check."""
        if call.admission is not None:
            limit, _ = self._rate(call.caller, call.operation_name)
            call.admission = Admission(limit, min(limit - 1, call.admission.remaining))

    def take_back(self, call: Call, until_ns: int) -> Refusal:
        """Refuses a call that was admitted here, because the nodes together admitted enough. Until
        a slot can be free again, further calls are refused here."""
        limit, key = self._rate(call.caller, call.operation_name)
        call.admission = None
        self._windows.take_back(key)
        # Moved to the end, so that expired windows come first.
        self._full_until_ns.pop(key, None)
        self._full_until_ns[key] = until_ns
        for oldest in list(self._full_until_ns):
            if self._is_full(oldest):
                break
        return Refusal(_THROTTLED, limit=limit)

    def left_for(self, call: Call) -> Admission:
        """What is left of the limit, for a call that was refused before it was admitted."""
        return call.left or self.left(call.caller, call.operation_name)

    def left(self, caller: Caller, operation_name: str) -> Admission:
        """What is left of an account's limit for an operation."""
        limit, key = self._rate(caller, operation_name)
        return Admission(limit, 0 if self._is_full(key) else self._windows.remaining(key, limit))

    def _is_full(self, key: object) -> bool:
        until_ns = self._full_until_ns.get(key)
        if until_ns is None:
            return False
        if self._clock_ns() < until_ns:
            return True
        del self._full_until_ns[key]
        return False

    def _rate(self, caller: Caller, operation_name: str) -> Rate:
        rate = caller.rates.get(operation_name)
        if rate is None:
            permission = caller.permissions.get(operation_name)
            limit = (permission and permission.rate_limit) or self._default_limit
            rate = caller.rates[operation_name] = Rate(limit, (caller.account_id, operation_name))
        return rate
