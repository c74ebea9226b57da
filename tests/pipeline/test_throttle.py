"""The sliding second against its definition, with a clock that the test moves.

The definition is checked by counting, not by a second implementation. To show that the check can
fail at all, limiters that are wrong in the usual ways are put through it as well.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import NamedTuple, Protocol

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tollway.contract.reasons import Reason
from tollway.ledger.caller_cache import Caller
from tollway.pipeline.bodies import NO_BODY
from tollway.pipeline.call import Admission, Call
from tollway.pipeline.throttle import SlidingSecond, Throttle

SECOND_NS = 1_000_000_000
MILLISECOND_NS = 1_000_000


class Step(NamedTuple):
    """Some time passes, then a call comes."""

    wait_ns: int
    key: str
    limit: int


class Limiter(Protocol):
    def admit(self, key: object, limit: int) -> Admission | None: ...


class Clock:
    def __init__(self) -> None:
        # Not 0: a monotonic clock starts anywhere.
        self.now_ns = 123_456_789

    def __call__(self) -> int:
        return self.now_ns


# Waits that cluster at the edges of the window, where limiters go wrong.
WAITS = (
    st.sampled_from([0, 0, 1, SECOND_NS - 1, SECOND_NS, SECOND_NS + 1, SECOND_NS // 2])
    | st.integers(0, 300).map(lambda ms: ms * MILLISECOND_NS)
    | st.integers(0, 2 * SECOND_NS)
)
STEPS = st.lists(st.builds(Step, WAITS, st.sampled_from("ab"), st.just(3)), max_size=60)
STEPS_OF_ANY_LIMIT = st.lists(
    st.builds(Step, WAITS, st.sampled_from("ab"), st.integers(1, 5)), max_size=60
)


def check(make: Callable[[Clock], Limiter], steps: list[Step]) -> None:
    """Never more than the limit in any second, and no refusal while there were fewer."""
    clock = Clock()
    limiter = make(clock)
    admitted: defaultdict[str, list[int]] = defaultdict(list)
    for step in steps:
        clock.now_ns += step.wait_ns
        in_last_second = sum(clock.now_ns - at < SECOND_NS for at in admitted[step.key])
        admission = limiter.admit(step.key, step.limit)
        if admission is None:
            assert in_last_second >= step.limit, "refused although fewer were admitted"
        else:
            assert in_last_second < step.limit, "admitted over the limit"
            assert admission == Admission(step.limit, step.limit - in_last_second - 1)
            admitted[step.key].append(clock.now_ns)
    limits = {step.limit for step in steps}
    if len(limits) == 1:
        # The same once more from the other end: no window of a second, wherever it begins.
        for times in admitted.values():
            for begin in times:
                inside = sum(begin <= at < begin + SECOND_NS for at in times)
                assert inside <= min(limits), "a second with more than the limit"


@given(STEPS)
def test_the_definition_holds(steps: list[Step]) -> None:
    check(SlidingSecond, steps)


@given(STEPS_OF_ANY_LIMIT)
def test_the_definition_holds_while_the_limit_is_changed(steps: list[Step]) -> None:
    check(SlidingSecond, steps)


@given(STEPS_OF_ANY_LIMIT)
def test_what_remains_is_reported_without_counting(steps: list[Step]) -> None:
    clock = Clock()
    windows = SlidingSecond(clock)
    for step in steps:
        clock.now_ns += step.wait_ns
        remaining = windows.remaining(step.key, step.limit)
        assert windows.remaining(step.key, step.limit) == remaining
        admission = windows.admit(step.key, step.limit)
        assert (admission is None) == (remaining == 0)
        assert admission is None or admission.remaining == remaining - 1


class FixedSecond:
    """Counts by the second of the clock: twice the limit passes around its turn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: Counter[tuple[object, int]] = Counter()

    def admit(self, key: object, limit: int) -> Admission | None:
        slot = key, self._clock() // SECOND_NS
        if self._counts[slot] >= limit:
            return None
        self._counts[slot] += 1
        return Admission(limit, limit - self._counts[slot])


class CountsRefusals(SlidingSecond):
    """Lets a refused call count, so that one who keeps trying is never admitted again."""

    def admit(self, key: object, limit: int) -> Admission | None:
        admission = super().admit(key, limit)
        if admission is None:
            self._windows[key].append(self._clock_ns())
        return admission


class SharedByAll(SlidingSecond):
    """One window for all accounts."""

    def admit(self, key: object, limit: int) -> Admission | None:  # noqa: ARG002
        return super().admit("all", limit)


@pytest.mark.parametrize("wrong", [FixedSecond, CountsRefusals, SharedByAll])
def test_a_wrong_limiter_is_caught(wrong: Callable[[Clock], Limiter]) -> None:
    @settings(derandomize=True, max_examples=500, phases=[Phase.generate], database=None)
    @given(STEPS)
    def tried(steps: list[Step]) -> None:
        check(wrong, steps)

    with pytest.raises(AssertionError):
        tried()


def test_memory_is_bounded_by_what_one_second_admits() -> None:
    clock = Clock()
    windows = SlidingSecond(clock)
    for number in range(50_000):
        clock.now_ns += 10 * MILLISECOND_NS
        assert windows.admit(f"account {number}", 10)
        assert len(windows) <= 101


def test_a_burst_of_very_many_keys_is_forgotten_once_its_second_is_over() -> None:
    clock = Clock()
    windows = SlidingSecond(clock)
    for number in range(20_000):
        windows.admit(number, 10)
    assert len(windows) == 20_000
    clock.now_ns += SECOND_NS
    for _ in range(10_001):
        windows.admit("another", 10**9)
    assert len(windows) == 1


def test_refused_calls_take_no_memory() -> None:
    windows = SlidingSecond(Clock())
    for _ in range(1000):
        windows.admit("a", 3)
    assert [len(window) for window in windows._windows.values()] == [3]


@given(STEPS)
def test_what_is_taken_back_never_counts(steps: list[Step]) -> None:
    clock = Clock()
    windows = SlidingSecond(clock)
    for step in steps:
        clock.now_ns += step.wait_ns
        remaining = windows.remaining(step.key, step.limit)
        if windows.admit(step.key, step.limit) is not None:
            windows.take_back(step.key)
            assert windows.remaining(step.key, step.limit) == remaining
            windows.admit(step.key, step.limit)


def test_what_was_forgotten_cannot_be_taken_back() -> None:
    windows = SlidingSecond(Clock())
    windows.take_back("never admitted")
    assert len(windows) == 0


def test_a_limit_that_is_free_again_by_the_time_of_its_refusal_holds_no_call_up() -> None:
    clock = Clock()
    throttle = Throttle(SlidingSecond(clock), 10, clock)
    call = Call("request", "GET", "/", b"", {}, NO_BODY, 0.0)
    call.caller = Caller("token", "account", is_test=False, expires_at_s=None, permissions={})
    call.operation_name = "orders"
    throttle(call)
    refusal = throttle.take_back(call, clock.now_ns - 1)
    assert (refusal.reason, call.admission) == (Reason.THROTTLED, None)
    assert throttle.left_for(call) == Admission(10, 10)
