"""Where a page of orders begins: a cache of the counts of a shop's days.

Every change of a shop's orders gives the shop another version, in the same transaction. A page is
read together with the version, in one transaction, so counts cached under that version are still
right. The total is then a difference of two running sums, and bisection finds the day in which the
page begins. If everything needed is cached, one statement reads the page and the version.

From a server the counts are read after a call, since it can find a page without them; and for a
shop that changes all the time, once a second at most.
"""

from array import array
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    and_,
    bindparam,
    cast,
    func,
    literal_column,
    select,
)

from tollway.operations.orders.hours import (
    SKIPPED_MAX,
    Hours,
    KnownPositions,
    Start,
    hours_of,
    hours_within,
    start_in,
)
from tollway.operations.orders.schema import (
    DAY_HOURS,
    DAY_MS,
    EVERY_OWNER,
    order_count,
    order_version,
    shop_order,
)
from tollway.store.database import Database, Row
from tollway.store.paging import RunningCounts
from tollway.store.query import Query, Steps

# The size of the cache for all shops, in units of 16 bytes: a day takes one; the overheads of a
# shop, of the hours of a day and of each hour are estimates.
_KEPT_MAX = 2_000_000
_KEPT_OF_SHOP = 64
_KEPT_OF_DAY, _KEPT_OF_HOUR = 14, 1
# For how many days of a shop the hours are cached: ten years, so that a caller that asks for pages
# at random seldom waits for hours.
_HOURS_OF_DAYS_MAX = 4000
# How soon a shop's days may be read again, if they changed meanwhile.
_LEARN_AGAIN_S = 1.0
# How many days' hours are read from a server at once.
_LEARNT_DAYS = 32
# Later than any order.
_NOWHERE = 1

VERSION = select(order_version.c.version).where(order_version.c.owner_id == bindparam("owner"))
VERSION_SHARED = select(cast(func.sum(order_version.c.version), BigInteger)).where(
    order_version.c.owner_id.in_([bindparam("owner"), literal_column(f"'{EVERY_OWNER}'")])
)
_VERSION = Query(VERSION)
_of_facet = (
    order_count.c.owner_id == bindparam("owner"),
    order_count.c.facet == bindparam("of_facet"),
)
_of_days = order_count.c.hours == DAY_HOURS
_of_hours = (
    order_count.c.hours == 1,
    order_count.c.bucket >= bindparam("first_bucket", type_=BigInteger),
    order_count.c.bucket < bindparam("last_bucket", type_=BigInteger),
)
_counts = (
    select(order_count.c.bucket, order_count.c.orders)
    .where(*_of_facet)
    .order_by(order_count.c.bucket.desc())
)
_DAYS = Query(lambda: _counts.where(_of_days))
_HOURS = Query(lambda: _counts.where(*_of_hours))

# Stops at three: a shop may have loaded all its orders with the same time.
_AT_TIMES = Query(
    lambda: select(func.count()).select_from(
        select(shop_order.c.newest_first)
        .where(
            shop_order.c.owner_id == bindparam("owner"),
            shop_order.c.newest_first.in_([bindparam("first"), bindparam("last")]),
        )
        .limit(3)
        .subquery()
    )
)


def _counts_beside(*asked: ColumnElement[bool]) -> Select[Any]:
    """The same counts, each beside their current version, which comes even if there are none."""
    version = VERSION_SHARED.subquery("its_version")
    return (
        select(*version.c, order_count.c.bucket, order_count.c.orders)
        .join_from(version, order_count, and_(*_of_facet, *asked), isouter=True)
        .order_by(order_count.c.bucket.desc())
    )


_DAYS_BESIDE = Query(lambda: _counts_beside(_of_days))
_HOURS_BESIDE = Query(lambda: _counts_beside(*_of_hours))


class Filter(NamedTuple):
    """Which orders of a shop are asked for: those from start up to, not including, end."""

    owner_id: str
    start_ms: int
    end_ms: int
    tag: int | None
    tag_name: str | None


class DayCounts(RunningCounts):
    """How many orders of one facet the days of a shop have, the newest first."""

    def __init__(self, version: object, days: list[tuple[int, int]]) -> None:
        super().__init__(days)
        self.version = version
        # The last window of whole days, since most pages of a shop ask for the same one: where its
        # days are, and how many orders they have.
        self.window: tuple[int, int] | None = None
        self.span = (0, 0)
        self.in_window = 0
        # The hours of the days that were asked for.
        self.hours: dict[int, Hours] = {}
        # The size of cached hours that the cache's total does not include yet.
        self.uncounted = 0
        # For the busy hours in which pages began or ended, by the time after which an hour comes.
        self.marks: dict[int, KnownPositions] = {}

    def keep_hours(self, day: int, hours: Hours) -> None:
        # Drops only the oldest entry, not all: a reader may go through more days than fit.
        self.hours.pop(day, None)
        if len(self.hours) >= _HOURS_OF_DAYS_MAX:
            del self.hours[next(iter(self.hours))]
        self.hours[day] = hours
        self.uncounted += _KEPT_OF_DAY + _KEPT_OF_HOUR * len(hours) // 2

    async def learn_hours(self, database: Database, asked: Mapping[str, Any]) -> bool:
        """Reads the hours of a day and its neighbours from a server; False if they have another
        version."""
        first_day = asked["first_bucket"] // DAY_HOURS // _LEARNT_DAYS * _LEARNT_DAYS
        days = range(first_day, first_day + _LEARNT_DAYS)
        bounds = {"first_bucket": days.start * DAY_HOURS, "last_bucket": days.stop * DAY_HOURS}
        rows = await database.fetch_all(_HOURS_BESIDE, **{**asked, **bounds})
        version, found = _with_version(rows)
        if version != self.version:
            return False
        hours: dict[int, list[Row]] = {day: [] for day in days}
        for row in found:
            hours[row[0] // DAY_HOURS].append(row)
        for day, its_hours in hours.items():
            self.keep_hours(day, hours_of(its_hours))
        return True


class Guess(NamedTuple):
    """Where a page begins if the shop still has the cached version: after the time `after`, which
    is that of its hour or of the nearest mark, and `skip` further orders."""

    known: DayCounts
    start: Start
    after: int
    skip: int
    # The positions of the days that are asked for, if these are whole days.
    span: tuple[int, int] | None = None

    def last_day(self, offset: int, size: int) -> int:
        """A day that the page does not go beyond."""
        if self.span is None:
            return 0
        return self.known.locate(self.span, min(offset + size, self.start.total) - 1)[0]

    def is_to_mark(self, size: int) -> bool:
        """Whether the next reader would skip many orders of the hour to reach the beginning or end
        of this page. Past the end of the hour, positions belong to the next one."""
        if self.skip > SKIPPED_MAX:
            return True
        end = self.start.skip + size
        if end <= SKIPPED_MAX or end > self.start.in_hour:
            return False
        marks = self.known.marks.get(self.start.after)
        return marks is None or marks.nearest(end)[1] > SKIPPED_MAX


def _guess(known: DayCounts, start: Start, span: tuple[int, int] | None = None) -> Guess:
    """Starts from the nearest mark in the hour, if it has any."""
    marks = known.marks.get(start.after)
    after, skip = (start.after, start.skip) if marks is None else marks.nearest(start.skip)
    return Guess(known, start, after, skip, span)


class Positions:
    """The cached counts of one database, by shop and facet."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], DayCounts] = {}
        self._learnt_s: dict[tuple[str, str], float] = {}
        self._kept = 0

    def guess_days(self, wanted: Filter, facet: str, offset: int) -> Guess | None:
        """Where a page of whole days begins; None if the cache lacks something, or there is no such
        page."""
        known = self._known.get((wanted.owner_id, facet))
        if known is None or wanted.start_ms % DAY_MS or wanted.end_ms % DAY_MS:
            return None
        window = wanted.start_ms, wanted.end_ms
        if window != known.window:
            known.window = window
            known.span = known.between(wanted.start_ms // DAY_MS, wanted.end_ms // DAY_MS)
            known.in_window = known.total(known.span)
        span, total = known.span, known.in_window
        if offset >= total:
            return None
        day, skip = known.locate(span, offset)
        hours = known.hours.get(day)
        if hours is None:
            return None
        return _guess(known, Start(total, *start_in(hours, skip)), span)

    def guess(self, values: Mapping[str, Any]) -> Guess | None:
        """The same for any window whose ends cut no hour in two."""
        known = self._known.get((values["owner"], values["of_facet"]))
        if known is None or is_cut(values):
            return None
        search = _search(known, values, {})
        try:
            next(search)
        except StopIteration as end:
            start: Start = end.value
            return None if start.after == _NOWHERE else _guess(known, start)
        return None  # The search needs hours that are not cached.

    async def mark(
        self, database: Database, owner_id: str, guess: Guess, bounds: tuple[int, int], size: int
    ) -> None:
        """Marks where a page began and ended, given the times of its first and last order."""
        _, hour_after, position, in_hour = guess.start
        first, last = bounds
        # Orders of the same time may be on both sides of a page's end.
        found = await database.fetch_one(_AT_TIMES, owner=owner_id, first=first, last=last)
        if found is None or found[0] != (1 if first == last else 2):
            return
        marks = guess.known.marks.setdefault(hour_after, KnownPositions(hour_after))
        ends = ((position, first - 1), (position + size, last))
        far = [end for end in ends if end[0] <= in_hour and marks.nearest(end[0])[1] > SKIPPED_MAX]
        for end in far:
            marks.add(*end)
        self._kept += len(far)
        self._forget_if_many(guess.known)

    def forget(self, owner_id: str, facet: str) -> None:
        """Drops counts that are out of date."""
        self._known.pop((owner_id, facet), None)

    async def learn(self, database: Database, values: Mapping[str, Any]) -> None:
        """Reads what a guess of this page needs from a server, unless it was read just now."""
        key = values["owner"], values["of_facet"]
        known = self._known.get(key)
        if known is None:
            if monotonic() - self._learnt_s.get(key, -_LEARN_AGAIN_S) < _LEARN_AGAIN_S:
                return
            self._learnt_s[key] = monotonic()
            version, days = _with_version(await database.fetch_all(_DAYS_BESIDE, **values))
            known = self._known[key] = DayCounts(version, days)
            self._kept += len(known) + _KEPT_OF_SHOP
        search = _search(known, values, {})
        with suppress(StopIteration):
            _, asked = next(search)
            while await known.learn_hours(database, asked):
                # The search finds those now, and asks for others or ends.
                search = _search(known, values, {})
                _, asked = next(search)
            self.forget(*key)
        self._forget_if_many(known)

    def steps(self, parts: Mapping[str, Query], rows: Query, values: Mapping[str, Any]) -> Steps:
        """Returns a row with the total, then the row of the page. `parts` counts the orders in the
        hours that the newest and the oldest end of the window cut in two."""
        known = yield from self._current(values)
        cut = {}
        for name, query in parts.items():
            if _is_cut(values, name):
                (cut[name],) = yield query, values
        start = yield from _search(known, values, cut)
        self._forget_if_many(known)
        if start.after == _NOWHERE:
            return [(start.total,)]
        found = yield rows, {**values, "after": start.after, "skip": start.skip}
        return [(start.total,), *found]

    def _current(self, values: Mapping[str, Any]) -> Generator[Any, Any, DayCounts]:
        """The counts of the days, read again if they have changed."""
        found = yield _VERSION, values
        # A shop whose counts never changed has none.
        version = found[0][0] if found else None
        key = values["owner"], values["of_facet"]
        known = self._known.get(key)
        if known is None or known.version != version:
            known = self._known[key] = DayCounts(version, (yield _DAYS, values))
            self._kept += len(known) + _KEPT_OF_SHOP
        return known

    def _forget_if_many(self, known: DayCounts) -> None:
        # Replaced entries still count, which only means that the limit is reached sooner.
        self._kept += 1 + known.uncounted
        known.uncounted = 0
        if self._kept > _KEPT_MAX:
            self._known.clear()
            self._learnt_s.clear()
            self._kept = 0


def _with_version(rows: Sequence[Row]) -> tuple[object, list[tuple[int, int]]]:
    return rows[0][0], [(bucket, orders) for _, bucket, orders in rows if bucket is not None]


def is_cut(values: Mapping[str, Any]) -> bool:
    """Whether an end of the window cuts an hour in two."""
    return _is_cut(values, "newest") or _is_cut(values, "oldest")


def _is_cut(values: Mapping[str, Any], end: str) -> bool:
    return bool(values[f"{end}_after"] < values[f"{end}_up_to"])


def _search(
    known: DayCounts, values: Mapping[str, Any], cut: Mapping[str, Row]
) -> Generator[Any, Any, Start]:
    """Where a page begins; asks for hours that are not cached yet."""
    span = known.between(values["first_day"], values["last_day"])
    newer = array("q", cut.get("newest", ()))
    newer += yield from _hours(known, values, values["newer_first"], values["newer_last"])
    older = yield from _hours(known, values, values["older_first"], values["older_last"])
    older += array("q", cut.get("oldest", ()))
    in_newer, in_days = sum(newer[1::2]), known.total(span)
    total, offset = in_newer + in_days + sum(older[1::2]), values["offset"]
    if offset >= total:
        return Start(total, _NOWHERE, 0, 0)
    if offset < in_newer:
        return Start(total, *start_in(newer, offset))
    if offset >= in_newer + in_days:
        return Start(total, *start_in(older, offset - in_newer - in_days))
    day, skip = known.locate(span, offset - in_newer)
    hours = yield from _hours(known, values, day * DAY_HOURS, (day + 1) * DAY_HOURS)
    return Start(total, *start_in(hours, skip))


def _hours(
    known: DayCounts, values: Mapping[str, Any], first: int, last: int
) -> Generator[Any, Any, Hours]:
    """The counted hours from first up to, not including, last."""
    hours: Hours = array("q")
    if first >= last:
        return hours
    newest, oldest = (last - 1) // DAY_HOURS, first // DAY_HOURS
    for day in range(newest, oldest - 1, -1):
        of_day = known.hours.get(day)
        if of_day is None:
            bounds = {"first_bucket": day * DAY_HOURS, "last_bucket": (day + 1) * DAY_HOURS}
            found = yield _HOURS, {**values, **bounds}
            of_day = hours_of(found)
            known.keep_hours(day, of_day)
        hours += of_day
    if last - first == DAY_HOURS * (newest - oldest + 1):
        return hours
    return hours_within(hours, first, last)
