"""The counted hours of a shop, and known positions within busy ones.

The counts say in which hour a page begins, and how many orders of that hour come before it. Those
would have to be read, and a busy hour has many. So the ends of pages that were read are cached
together with the counts: the next page, and the same page again, begin there.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from tollway.operations.orders.schema import HOUR_MS
from tollway.store.database import Row

# Hours, or parts of one, the newest first: for each the negated time after which its orders come,
# then how many it has. A list of pairs would take eight times the memory.
Hours: TypeAlias = "array[int]"

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


def hours_of(counted: Iterable[Row]) -> Hours:
    """The hours of these rows: the number of an hour, and its orders."""
    return array("q", [each for hour, orders in counted for each in (_after(hour), orders)])


def hours_within(hours: Hours, first: int, last: int) -> Hours:
    """Those from the hour `first` up to, not including, `last`."""
    start, end = (bisect_left(hours[::2], _after(hour)) for hour in (last - 1, first - 1))
    return hours[2 * start : 2 * end]


def _after(hour: int) -> int:
    return -HOUR_MS * (hour + 1)


def start_in(hours: Hours, offset: int) -> tuple[int, int, int]:
    """For the order at an offset: the time after which its hour comes, how many orders of the hour
    are before it, and how many the hour has."""
    for after, orders in zip(hours[::2], hours[1::2], strict=True):
        if offset < orders:
            return after, offset, orders
        offset -= orders
    raise AssertionError("the counts of hours are less than those of their day")
