"""A circuit breaker: a carrier that does not answer must not slow down the rest of the gateway.

After several messages in a row without an answer, or refused because the carrier's gateway does not
accept the link, nothing is sent for a while. Then one message is let through as a probe: if it is
answered, the others follow; if not, the pause starts over. The number of messages in flight is
limited too, so that a slow carrier delays a bounded number of calls.

Nothing else counts as a failure: an unusable answer is still an answer, and so is one that turns a
single message away; a cancelled message says nothing. Look-ups of pending waybills are neither
counted nor used as the probe, since one that is never answered would keep the breaker open.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum

from tollway.carriers.connectors.connector import AnswerUnusableError, NotSentError, TurnedAwayError


class State(Enum):
    """Whether messages are let through."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Breaker:
    """The breaker of one carrier, with a monotonic clock."""

    def __init__(
        self,
        wp_code: str,
        now_s: Callable[[], float],
        *,
        failures_max: int = 5,
        pause_s: float = 15.0,
        in_flight_max: int = 256,
    ) -> None:
        self._wp_code = wp_code
        self._now_s = now_s
        self._failures_max = failures_max
        self._pause_s = pause_s
        self._in_flight_max = in_flight_max
        self._failures = 0
        self._opened_at_s: float | None = None
        self._is_probing = False
        self.in_flight = 0

    @property
    def state(self) -> State:
        if self._opened_at_s is None:
            return State.CLOSED
        has_paused = self._now_s() - self._opened_at_s >= self._pause_s
        return State.HALF_OPEN if has_paused else State.OPEN

    @property
    def is_refusing(self) -> bool:
        """Whether a message would not be admitted now."""
        return self._is_shut(self.state) or self.in_flight >= self._in_flight_max

    @contextmanager
    def message(self) -> Iterator[None]:
        """Around one message: what its block raises is a failure, unless there was an answer. Being
        turned away counts as one: a single bad message must not stop those of others."""
        is_probe = self._enter()
        self.in_flight += 1
        try:
            yield
        except (AnswerUnusableError, TurnedAwayError):
            self._answered(is_probe=is_probe)
            raise
        except Exception:
            self._failed(is_probe=is_probe)
            raise
        except BaseException:
            # Cancelled: the carrier might still have answered. The next message is the probe.
            if is_probe:
                self._is_probing = False
            raise
        else:
            self._answered(is_probe=is_probe)
        finally:
            self.in_flight -= 1

    @contextmanager
    def uncounted_message(self) -> Iterator[None]:
        """Around one message whose outcome says nothing about the next one. It is refused during
        the pause; after the pause it may run beside the probe."""
        self._check(is_shut=self.state is State.OPEN)
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    def _enter(self) -> bool:
        """Admits a message; True if it is the probe."""
        state = self.state
        self._check(is_shut=self._is_shut(state))
        self._is_probing = state is State.HALF_OPEN
        return self._is_probing

    def _check(self, *, is_shut: bool) -> None:
        if is_shut:
            raise NotSentError(
                "Carrier {wp_code} has not answered, or has refused the link, {failures} times in "
                "a row: nothing is sent to it for a while.",
                wp_code=self._wp_code,
                failures=self._failures_max,
            )
        if self.in_flight >= self._in_flight_max:
            raise NotSentError(
                "Carrier {wp_code} has {count} messages to answer already.",
                wp_code=self._wp_code,
                count=self.in_flight,
            )

    def _is_shut(self, state: State) -> bool:
        return state is State.OPEN or (state is State.HALF_OPEN and self._is_probing)

    def _failed(self, *, is_probe: bool) -> None:
        if is_probe:
            self._open()
        elif self._opened_at_s is None:
            self._failures += 1
            if self._failures >= self._failures_max:
                self._open()

    def _answered(self, *, is_probe: bool) -> None:
        # A message from before the breaker opened says nothing about the carrier now.
        if is_probe or self._opened_at_s is None:
            self._failures = 0
            self._opened_at_s = None
            self._is_probing = False

    def _open(self) -> None:
        self._opened_at_s = self._now_s()
        self._is_probing = False
