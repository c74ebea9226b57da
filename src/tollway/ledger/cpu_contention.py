"""Whether CPU cores are short: whether this thread is often runnable but has no core to run on.

Linux counts this for each thread. Elsewhere the cores count as free.
"""

from contextlib import suppress
from pathlib import Path
from time import monotonic

_COUNTED = Path("/proc/thread-self/schedstat")
# How often the count is read, and the share of time spent waiting from which cores are short.
_READ_S = 0.25
_SHORT = 0.1


class CpuContention:
    """Compares the last two counts of the thread that asks."""

    def __init__(self) -> None:
        self._read_at_s = 0.0
        self._waited_s = 0.0
        self._is_short = False

    def is_short(self) -> bool:
        now_s = monotonic()
        if now_s >= self._read_at_s + _READ_S:
            # A container may hide the file, or show an empty one.
            with suppress(OSError, ValueError, IndexError):
                waited_s = int(_COUNTED.read_text(encoding="ascii").split()[1]) / 1e9
                share = (waited_s - self._waited_s) / (now_s - self._read_at_s)
                self._is_short = share >= _SHORT
                self._waited_s = waited_s
            self._read_at_s = now_s
        return self._is_short
