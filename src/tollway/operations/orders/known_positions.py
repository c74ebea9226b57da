"""Known positions within the hours of a busy shop, so that a page skips few orders.

The counts say in which hour a page begins, and how many orders of that hour come before it. Those
would have to be read, and a busy hour has many. So the ends of pages that were read are cached
together with the counts: the next page, and the same page again, begin there.
"""

from array import array
from bisect import bisect_right
from typing import NamedTuple

# A position is kept only where a page would otherwise skip more orders than this.
SKIPPED_MAX = 32


class Start(NamedTuple):
    """Where a page begins: in the hour after the negated time `after`, which has `in_hour` orders,
    `skip` of them before the page. `total` is the number of all orders."""

    total: int
    after: int
    skip: int
    in_hour: int


class KnownPositions:
    """Some positions in an hour, each with the negated time after which its order comes."""

    def __init__(self, after: int) -> None:
        self._positions = array("q", [0])
        self._afters = array("q", [after])

    def nearest(self, position: int) -> tuple[int, int]:
        """The time of the last known position up to this one, and how many orders lie between."""
        found = bisect_right(self._positions, position) - 1
        return self._afters[found], position - self._positions[found]

    def add(self, position: int, after: int) -> None:
        """Records that exactly `position` orders of the hour come up to a time."""
        found = bisect_right(self._positions, position)
        self._positions.insert(found, position)
        self._afters.insert(found, after)
