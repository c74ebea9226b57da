"""The days of a product as they are answered, kept in memory.

They are neighbours, each figure of all days one piece of bytes: so the part of it that a series
shows is a slice, whatever the series.
"""

from array import array
from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from tollway.contract.envelope import encode_data
from tollway.operations.product_analysis.ready import rate

SERIES_DAYS = 30
# How many days more than those of a series are read at once, at most.
_MORE_MAX = 366
# How many days of a product are known at most: all of them are made again when more are read.
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
    """The figures of a day as they are stored; the last three are answered of today only."""

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
        """What the lists of a DailySeries have between their brackets, in its order."""
        first, end = days.start - self.days.start, days.stop - self.days.start
        return (
            self._rates.between(first, end),
            _labels(days),
            self._payments.between(first, end),
            self._buyers.between(first, end),
            self._visitors.between(first, end),
        )


def days_to_read(known: range, wanted: range) -> range:
    """The days to read if those that are wanted are not all known.

    A product that is asked for day by day will be asked for the next day too: so if some are known,
    as many days more are read as there are known ones, on the side that is not known. One that is
    asked for ever further back begins again with the days that are wanted.
    """
    if not known or known.stop < wanted.start or wanted.stop < known.start:
        return wanted
    more = min(len(known), _MORE_MAX)
    start = wanted.start - more if wanted.start < known.start else known.start
    end = wanted.stop + more if wanted.stop > known.stop else known.stop
    if end - start > KNOWN_DAYS_MAX:
        return wanted
    return range(max(1, start), min(end, date.max.toordinal() + 1))
