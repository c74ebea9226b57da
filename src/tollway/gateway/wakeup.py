"""An event between a signal handler, threads and processes."""

import os
import select
from contextlib import suppress
from time import monotonic

# A signal that comes just before the main thread starts to wait, or that the system delivers to
# another thread, does not end the wait, and Python runs its handler only after that.
_LOOK_INTERVAL_S = 0.25


class Wakeup:
    """An event that a signal handler may set. A `threading.Event` would deadlock if the signal came
    while its own thread is inside `wait` or `clear`, holding the event's lock.

    Forked processes share it. A process that is killed while it sets the event leaves no lock
    behind, unlike with an event of `multiprocessing`.
    """

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def set(self) -> None:
        os.eventfd_write(self._descriptor, 1)

    def clear(self) -> bool:
        """Clears it; returns whether it was set. If several clear it at once, one gets True."""
        with suppress(BlockingIOError):
            return bool(os.eventfd_read(self._descriptor))
        return False

    def is_set(self) -> bool:
        return self._is_set_within(0)

    def wait(self, timeout_s: float = float("inf")) -> bool:
        ends_at_s = monotonic() + timeout_s
        while not self._is_set_within(min(timeout_s, _LOOK_INTERVAL_S)):
            timeout_s = ends_at_s - monotonic()
            if timeout_s <= 0:
                return False
        return True

    def _is_set_within(self, seconds: float) -> bool:
        # A new one each time: only one thread at a time may use a poll object.
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
