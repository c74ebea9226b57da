"""A cache of the days of a product as they are answered.

The days are contiguous, and each figure is one bytes object for all of them: so whatever a series
shows is a slice.
"""

from array import array
from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from tollway.contract.envelope import encode_data
from tollway.operations.product_analysis.ready_days import rate

SERIES_DAYS = 30
# How many days are read at once beyond those of a series, at most.
_MORE_MAX = 366
# How many days of a product are cached at most: reading more makes all of them again.
KNOWN_DAYS_MAX = 4 * 366


def day_number(day: date) -> int:
    """How a day is stored: 2026-01-31 is 20260131."""
    return day.year * 10_000 + day.month * 100 + day.day


@lru_cache(maxsize=512)
def series_of(last: date) -> range:
    """The days of the series that ends on a day; fewer where the calendar itself begins."""
    end = last.toordinal()
    return range(max(1, end - SERIES_DAYS + 1), end + 1)


@lru_cache(maxsize=512)
def _labels(days: range) -> bytes:
    return encode_data([date.fromordinal(day).strftime("%m-%d") for day in days])[1:-1]


class DayFigures(NamedTuple):
    """The figures of a day as they are stored; the last three are answered for today only."""

    visitors: int
    buyers: int
    payment_fen: int
    collections: int
    pieces_paid: int
    pieces_carted: int


class _Joined:
    """Encoded values with a comma after each."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self._text = b",".join([*values, b""])
        self._starts = array("I", accumulate((len(value) + 1 for value in values), initial=0))

    def between(self, first: int, end: int) -> bytes:
        """The values from first up to, not including, end, with commas between them."""
        return self._text[self._starts[first] : self._starts[end] - 1]


class KnownDays:
    """The days of a product in one version of the figures; those without data count as zero."""

    def __init__(self, days: range, figures: Mapping[int, DayFigures]) -> None:
        """`figures` are those that are stored, by the days' ordinals."""
        self.days = days
        self.figures = figures
        found = [figures.get(day) for day in days]
        self._rates = _Joined(
            [encode_data(rate(each.buyers, each.visitors)) if each else b"0.0" for each in found]
        )
        self._payments = _Joined(
            [encode_data(each.payment_fen / 100) if each else b"0.0" for each in found]
        )
        self._buyers = _Joined([b"%d" % each.buyers if each else b"0" for each in found])
        self._visitors = _Joined([b"%d" % each.visitors if each else b"0" for each in found])

    def series(self, days: range) -> tuple[bytes, bytes, bytes, bytes, bytes]:
        """The contents of the lists of a DailySeries, without brackets, in its order."""
        first, end = days.start - self.days.start, days.stop - self.days.start
        return (
            self._rates.between(first, end),
            _labels(days),
            self._payments.between(first, end),
            self._buyers.between(first, end),
            self._visitors.between(first, end),
        )


def days_to_read(known: range, wanted: range) -> range:
    """The days to read if not all wanted days are cached.

    Callers that ask for a product day by day will ask for the next day too: so if the wanted days
    adjoin cached ones, as many days are read ahead as are cached, on the missing side. When the
    cache would grow too large, it starts again with only the wanted days.
    """
    if not known or known.stop < wanted.start or wanted.stop < known.start:
        return wanted
    more = min(len(known), _MORE_MAX)
    start = wanted.start - more if wanted.start < known.start else known.start
    end = wanted.stop + more if wanted.stop > known.stop else known.stop
    if end - start > KNOWN_DAYS_MAX:
        return wanted
    return range(max(1, start), min(end, date.max.toordinal() + 1))
