"""Where a page of orders begins: the counts of a shop's days, kept in memory while they hold.

Every change of a shop's orders gives the shop another version, in the same transaction. A page is
read together with the version, in one transaction, so counts that were read under that version are
still right. The total is then a difference of two running sums, and the day in which the page
begins is found by bisection; the hours of one day are read.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, bindparam, select

from tollway.operations.orders.schema import (
    DAY_HOURS,
    HOUR_MS,
    order_count,
    order_version,
)
from tollway.store.query import Query, Steps

# How many days of all shops are kept, at 16 bytes each; a shop and facet takes as much as some.
_DAYS_MAX = 1_000_000
_DAYS_OF_KEY = 32

_VERSION = Query(
    select(order_version.c.version).where(order_version.c.owner_id == bindparam("owner"))
)
_first, _last = (bindparam(name, type_=BigInteger) for name in ("first_bucket", "last_bucket"))
_counts = (
    select(order_count.c.bucket, order_count.c.orders)
    .where(
        order_count.c.owner_id == bindparam("owner"), order_count.c.facet == bindparam("of_facet")
    )
    .order_by(order_count.c.bucket.desc())
)
_DAYS = Query(_counts.where(order_count.c.hours == DAY_HOURS))
_HOURS = Query(
    _counts.where(
        order_count.c.hours == 1, order_count.c.bucket >= _first, order_count.c.bucket < _last
    )
)


class _Hour(NamedTuple):
    """An hour, or a part of one: its orders come next after a negated time."""

    after: int
    orders: int


class DayCounts:
    """How many orders of one facet the days of a shop have, the newest first."""

    def __init__(self, version: object, days: list[tuple[int, int]]) -> None:
        self.version = version
        # Negated, so that they ascend.
        self._days = array("q", [-day for day, _ in days])
        self._up_to = array("q", accumulate((orders for _, orders in days), initial=0))

    def __len__(self) -> int:
        return len(self._days)

    def between(self, first: int, last: int) -> tuple[int, int]:
        """The positions of the days from first up to, not including, last."""
        return bisect_left(self._days, 1 - last), bisect_left(self._days, 1 - first)

    def total(self, span: tuple[int, int]) -> int:
        return self._up_to[span[1]] - self._up_to[span[0]]

    def locate(self, span: tuple[int, int], offset: int) -> tuple[int, int]:
        """The day in which the order at an offset lies, and how many of the day's come before."""
        wanted = self._up_to[span[0]] + offset
        position = bisect_right(self._up_to, wanted, span[0], span[1] + 1) - 1
        return -self._days[position], wanted - self._up_to[position]


class Positions:
    """The counts of days that are known, by shop and facet, of one database."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], DayCounts] = {}
        self._kept_days = 0

    def steps(self, parts: Mapping[str, Query], rows: Query, values: Mapping[str, Any]) -> Steps:
        """The total in a row of its own, then the rows of the page. `parts` counts the orders of
        the hours that the newest and the oldest end of the window cut in two."""
        days = yield from self._days_of(values)
        span = days.between(values["first_day"], values["last_day"])
        newer = yield from _part(parts["newest"], "newest", values)
        newer += yield from _hours(values, values["newer_first"], values["newer_last"])
        older = yield from _hours(values, values["older_first"], values["older_last"])
        older += yield from _part(parts["oldest"], "oldest", values)
        in_newer, in_days = sum(each.orders for each in newer), days.total(span)
        total = in_newer + in_days + sum(each.orders for each in older)
        offset = values["offset"]
        if offset >= total:
            return [(total,)]
        if offset < in_newer:
            after, skip = _locate(newer, offset)
        elif offset < in_newer + in_days:
            day, skip = days.locate(span, offset - in_newer)
            hours = yield from _hours(values, day * DAY_HOURS, (day + 1) * DAY_HOURS)
            after, skip = _locate(hours, skip)
        else:
            after, skip = _locate(older, offset - in_newer - in_days)
        found = yield rows, {**values, "after": after, "skip": skip}
        return [(total,), *found]

    def _days_of(self, values: Mapping[str, Any]) -> Generator[Any, Any, DayCounts]:
        found = yield _VERSION, values
        # A shop whose orders never changed has none.
        version = found[0][0] if found else None
        key = values["owner"], values["of_facet"]
        known = self._known.get(key)
        if known is None or known.version != version:
            known = DayCounts(version, (yield _DAYS, values))
            self._keep(key, known)
        return known

    def _keep(self, key: tuple[str, str], days: DayCounts) -> None:
        replaced = self._known.get(key, ())
        self._kept_days += len(days) - len(replaced) + _DAYS_OF_KEY * (not replaced)
        if self._kept_days > _DAYS_MAX:
            self._known.clear()
            self._kept_days = len(days)
        self._known[key] = days


def _hours(values: Mapping[str, Any], first: int, last: int) -> Generator[Any, Any, list[_Hour]]:
    """The counted hours from first up to, not including, last; the newest first."""
    if first >= last:
        return []
    found = yield _HOURS, {**values, "first_bucket": first, "last_bucket": last}
    return [_Hour(-HOUR_MS * (hour + 1), orders) for hour, orders in found]


def _part(query: Query, name: str, values: Mapping[str, Any]) -> Generator[Any, Any, list[_Hour]]:
    """The part of an hour at an end of the window, if there is one."""
    if values[f"{name}_after"] >= values[f"{name}_up_to"]:
        return []
    found = yield query, values
    return [_Hour._make(each) for each in found]


def _locate(hours: Iterable[_Hour], offset: int) -> tuple[int, int]:
    """After which time the order at an offset lies, and after how many more orders."""
    for hour in hours:
        if offset < hour.orders:
            return hour.after, offset
        offset -= hour.orders
    raise AssertionError("a count of orders is less than its hours'")
