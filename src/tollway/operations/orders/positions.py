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

from tollway.operations.orders.counted_hours import (
    SKIPPED_MAX,
    Hours,
    KnownPositions,
    Start,
    hours_of,
    hours_within,
)
from tollway.operations.orders.day_counts import DayCounts, Guess, Window
from tollway.operations.orders.schema import (
    DAY_HOURS,
    EVERY_OWNER,
    HOUR_MS,
    order_count,
    order_version,
    shop_order,
)
from tollway.store.database import Database, Row
from tollway.store.paging import part_values, split_window
from tollway.store.query import Query, Steps, equals

# The size of the cache for all shops, in units of 16 bytes: a day takes one.
_KEPT_MAX = 2_000_000
_KEPT_OF_SHOP = 64
# How soon a shop's days may be read again, if they changed meanwhile.
_LEARN_AGAIN_S = 1.0
# How many days' hours are read from a server at once.
_LEARNT_DAYS = 32
# So many orders are skipped rather than counting the parts of a window first.
_SKIPPED_UNCOUNTED_MAX = 200
# Where a window may cut an hour in two.
_ENDS = ("newest", "oldest")

VERSION = select(order_version.c.version).where(order_version.c.owner_id == bindparam("owner"))
VERSION_SHARED = select(cast(func.sum(order_version.c.version), BigInteger)).where(
    order_version.c.owner_id.in_([bindparam("owner"), literal_column(f"'{EVERY_OWNER}'")])
)
_VERSION = Query(VERSION)
_of_facet = equals(order_count, owner_id="owner", facet="of_facet")
_of_days = order_count.c.hours == DAY_HOURS
_of_hours = (
    order_count.c.hours == 1,
    order_count.c.bucket >= bindparam("first_bucket", type_=BigInteger),
    order_count.c.bucket < bindparam("last_bucket", type_=BigInteger),
)
_counts = (
    select(order_count.c.bucket, order_count.c.orders)
    .where(_of_facet)
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
        .join_from(version, order_count, and_(_of_facet, *asked), isouter=True)
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


class Positions:
    """The cached counts of one database, by shop and facet."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], DayCounts] = {}
        self._learnt_s: dict[tuple[str, str], float] = {}
        self._kept = 0

    def guess(self, wanted: Filter, facet: str, offset: int) -> Guess | None:
        """Where a page begins; None if the cache lacks something. If the window cuts hours in two,
        one of its first pages is read beside the counts of these parts; before others they are
        counted first."""
        known = self._known.get((wanted.owner_id, facet))
        if known is None:
            return None
        window = known.windows.get((wanted.start_ms, wanted.end_ms))
        if window is None:
            window = _summed_now(known, window_values(wanted, facet))
            if window is None:
                return None
            known.keep_window((wanted.start_ms, wanted.end_ms), window)
            self._forget_if_many(known)
        if not window.to_count:
            return known.guess(window, offset)
        is_page = offset <= _SKIPPED_UNCOUNTED_MAX
        skip = offset if is_page else 0
        start = Start(window.total, -wanted.end_ms, skip, 0)
        return Guess(known, window, start, start.after, skip, is_page)

    def keep_counts(self, wanted: Filter, guess: Guess, counts: tuple[int, int]) -> Window:
        """Adds the parts of hours that were counted to their window."""
        window = guess.window.with_counts(counts)
        guess.known.keep_window((wanted.start_ms, wanted.end_ms), window)
        self._forget_if_many(guess.known)
        return window

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
        search = _search(known, values)
        with suppress(StopIteration):
            _, asked = next(search)
            while await self._learn_hours(database, known, asked):
                # The search finds those now, and asks for others or ends.
                search = _search(known, values)
                _, asked = next(search)
            self.forget(*key)
        self._forget_if_many(known)

    async def _learn_hours(
        self, database: Database, known: DayCounts, asked: Mapping[str, Any]
    ) -> bool:
        """Reads the hours of a day and its neighbours from a server; False if they have another
        version."""
        first_day = asked["first_bucket"] // DAY_HOURS // _LEARNT_DAYS * _LEARNT_DAYS
        days = range(first_day, first_day + _LEARNT_DAYS)
        bounds = {"first_bucket": days.start * DAY_HOURS, "last_bucket": days.stop * DAY_HOURS}
        rows = await database.fetch_all(_HOURS_BESIDE, **{**asked, **bounds})
        version, found = _with_version(rows)
        if version != known.version:
            return False
        hours: dict[int, list[Row]] = {day: [] for day in days}
        for row in found:
            hours[row[0] // DAY_HOURS].append(row)
        for day, its_hours in hours.items():
            known.keep_hours(day, hours_of(its_hours))
        return True

    def steps(self, parts: Mapping[str, Query], rows: Query, values: Mapping[str, Any]) -> Steps:
        """Returns a row with the total, then the row of the page. `parts` counts the orders in the
        hours that the newest and the oldest end of the window cut in two."""
        known = yield from self._current(values)
        counts = [0, 0]
        for number, (name, query) in enumerate(parts.items()):
            if values[f"{name}_after"] < values[f"{name}_up_to"]:
                ((_, counts[number]),) = yield query, values
        start = yield from _search(known, values, counts)
        self._forget_if_many(known)
        if not start.in_hour:
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


def window_values(wanted: Filter, facet: str) -> dict[str, object]:
    hours = split_window(wanted.start_ms, wanted.end_ms, HOUR_MS)
    days = split_window(*hours.whole, DAY_HOURS)
    return {
        "owner": wanted.owner_id,
        "of_facet": facet,
        "tag": wanted.tag,
        "tag_name": wanted.tag_name,
        "newer_first": days.newest[0],
        "newer_last": days.newest[1],
        "first_day": days.whole[0],
        "last_day": days.whole[1],
        "older_first": days.oldest[0],
        "older_last": days.oldest[1],
        **part_values("newest", hours.newest),
        **part_values("oldest", hours.oldest),
    }


def _with_version(rows: Sequence[Row]) -> tuple[object, list[tuple[int, int]]]:
    return rows[0][0], [(bucket, orders) for _, bucket, orders in rows if bucket is not None]


def _search(
    known: DayCounts, values: Mapping[str, Any], counts: Sequence[int] = ()
) -> Generator[Any, Any, Start]:
    """Where a page begins, given how many orders the parts of hours of its window have; asks for
    hours that are not cached yet."""
    window, offset = (yield from _summed(known, values)), values["offset"]
    if window.to_count and counts:
        window = window.with_counts((counts[0], counts[1]))
    day = known.day_of(window, offset)
    if day is not None:
        yield from _hours(known, values, day[0] * DAY_HOURS, (day[0] + 1) * DAY_HOURS)
    start = known.start(window, offset)
    assert start is not None
    return start


def _summed(known: DayCounts, values: Mapping[str, Any]) -> Generator[Any, Any, Window]:
    """A window by the cached counts; asks for hours that are not cached yet."""
    days = known.between(values["first_day"], values["last_day"])
    newer = yield from _hours(known, values, values["newer_first"], values["newer_last"])
    older = yield from _hours(known, values, values["older_first"], values["older_last"])
    in_newer = sum(newer[1::2])
    before_older = in_newer + known.total(days)
    newest, oldest = ((values[f"{end}_after"], values[f"{end}_up_to"]) for end in _ENDS)
    is_cut = newest[0] < newest[1] or oldest[0] < oldest[1]
    return Window(
        newer,
        days,
        older,
        in_newer,
        before_older,
        before_older + sum(older[1::2]),
        (newest, oldest) if is_cut else (),
    )


def _summed_now(known: DayCounts, values: Mapping[str, Any]) -> Window | None:
    """The same without asking: None if hours are not cached."""
    try:
        next(_summed(known, values))
    except StopIteration as end:
        window: Window = end.value
        return window
    return None


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
