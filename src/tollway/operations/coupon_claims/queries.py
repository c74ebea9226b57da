"""The stored claims behind an answer: one page of them, and how many there are.

The counts of a list's hours are cached in memory, with the version they were read with. A page is
read together with the current version: if that is still the same, the total and the start of the
page are right, and the claims come joined in one row. If a window cuts hours in two, its first page
brings the counts of those parts along, and they are cached for the next pages. A server can find a
page without any counts, so for a list that changes all the time they are read once a second at
most.
"""

from collections.abc import Sequence
from math import inf
from time import monotonic
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    LargeBinary,
    ScalarSelect,
    Select,
    and_,
    bindparam,
    cast,
    func,
    literal_column,
    or_,
    select,
)

from tollway.operations.coupon_claims.schema import (
    EVERY_LIST,
    coupon_claim,
    coupon_claim_hour,
    coupon_claim_version,
)
from tollway.store.database import Database, Row
from tollway.store.paging import (
    Listing,
    RunningCounts,
    part_count,
    part_of,
    part_values,
    read_listed,
    split_window,
)
from tollway.store.query import JointQuery, Query, equals

_HOUR_S = 3600
# How many hours are cached for all lists together, at 16 bytes each; and the overhead of a list.
_KEPT_MAX = 500_000
_KEPT_OF_LIST = 64
# What the count of a part of an hour takes, in the same unit.
_KEPT_OF_PART = 12
# How many of them a list has: two for each window.
_PARTS_MAX = 64
# So many claims are skipped rather than counting the parts of a window first.
_SKIPPED_MAX = 200
# How soon a server's counts may be read again, if they changed meanwhile.
_LEARN_AGAIN_S = 1.0
# For how many lists the time of that read is remembered.
_NOTED_MAX = 5_000

_List = tuple[str, int]


class Window(NamedTuple):
    """Which claims are asked for; the start is included, the end is not."""

    sid: str
    claim_type: int
    start_s: int
    end_s: int


class JoinedPage(NamedTuple):
    """A page, how far the time zone of its times is ahead of UTC, and the separator of claims."""

    offset: int
    size: int
    utc_offset_s: int
    between: bytes


class ReadyClaim(NamedTuple):
    newest_first: int
    coupon_code: str
    ready: bytes


_KEY = ("newest_first", "coupon_code")
_OF_SID = equals(coupon_claim, sid="wanted_sid", claim_type="wanted_type")


def _rows(after: ColumnElement[int], skip: ColumnElement[int]) -> Select[Any]:
    return (
        select(*(coupon_claim.c[name] for name in ReadyClaim._fields))
        .where(
            _OF_SID,
            coupon_claim.c.newest_first > after,
            coupon_claim.c.newest_first <= bindparam("oldest_up_to"),
        )
        .order_by(*(coupon_claim.c[name] for name in _KEY))
        .limit(bindparam("take"))
        .offset(skip)
    )


_OF_LIST = equals(coupon_claim_hour, sid="wanted_sid", claim_type="wanted_type")


def _counts() -> list[Select[Any]]:
    hours = select(-_HOUR_S * (coupon_claim_hour.c.hour + 1), coupon_claim_hour.c.claims).where(
        _OF_LIST,
        coupon_claim_hour.c.hour >= bindparam("first_hour"),
        coupon_claim_hour.c.hour < bindparam("last_hour"),
    )
    newest = part_of("newest", coupon_claim.c.newest_first, _OF_SID)
    oldest = part_of("oldest", coupon_claim.c.newest_first, _OF_SID)
    return [newest, hours, oldest]


_LISTING = Listing(_counts, _rows, _KEY)
_PAGE = _LISTING.query()

_version = coupon_claim_version.c
_of_list = and_(
    _version.sid == bindparam("wanted_sid"), _version.claim_type == bindparam("wanted_type")
)
_of_every_list = and_(_version.sid == EVERY_LIST[0], _version.claim_type == EVERY_LIST[1])
_VERSIONS: dict[str, ScalarSelect[Any]] = {
    "sqlite": select(_version.version).where(_of_list).scalar_subquery(),
    # Only a server removes the counts of all lists at once, with a month.
    "postgresql": select(cast(func.sum(_version.version), BigInteger))
    .where(or_(_of_list, _of_every_list))
    .scalar_subquery(),
}


def _claims(dialect: str, *parts: str) -> Select[Any]:
    """The claims of a page, each with its time before it, all in one piece; the version; and how
    many claims some parts of hours have."""
    # Only the columns that are needed: SQLite extracts each one from every row.
    needed = (coupon_claim.c.newest_first, coupon_claim.c.ready)
    page = _LISTING.page_rows().with_only_columns(*needed).subquery()
    time_s = bindparam("utc_offset_s", type_=BigInteger) - page.c.newest_first
    between = bindparam("between", type_=LargeBinary)
    timed: ColumnElement[Any]
    if dialect == "sqlite":
        # The operator takes half as long as the function `concat`.
        timed = func.datetime(time_s, "unixepoch").op("||")(page.c.ready)
        joined: ColumnElement[Any] = cast(func.group_concat(timed, between), LargeBinary)
    else:
        utc: ColumnElement[str] = literal_column("'UTC'")
        time = func.to_char(
            func.timezone(utc, func.to_timestamp(time_s)),
            literal_column("'YYYY-MM-DD HH24:MI:SS'"),
        )
        timed = func.convert_to(time, literal_column("'UTF8'")).op("||")(page.c.ready)
        joined = func.string_agg(timed, between)
    counts = [part_count(name, coupon_claim.c.newest_first, _OF_SID) for name in parts]
    return select(joined, _VERSIONS[dialect], *counts)


def _all_hours(dialect: str) -> Select[Any]:
    """All hours of a list, and beside each the version; the highest hour first."""
    return (
        select(coupon_claim_hour.c.hour, coupon_claim_hour.c.claims, _VERSIONS[dialect])
        .where(_OF_LIST)
        .order_by(coupon_claim_hour.c.hour.desc())
    )


_JOINED = JointQuery(lambda: _claims("sqlite"), lambda: _claims("postgresql"))
_JOINED_AND_COUNTED = JointQuery(
    lambda: _claims("sqlite", "newest", "oldest"), lambda: _claims("postgresql", "newest", "oldest")
)
_ALL_HOURS = Query(lambda: _all_hours("sqlite"), lambda: _all_hours("postgresql"))


# From a time in seconds up to, not including, another one within the same hour.
_Part = tuple[int, int]


class _Known(NamedTuple):
    version: int
    hours: RunningCounts
    # How many claims the parts of hours have that windows began or ended with.
    parts: dict[_Part, int]


class _Start(NamedTuple):
    """The parameters to read a page, if the cached counts are still current. The total is without
    the parts that the query counts."""

    known: _Known
    total: int
    query: JointQuery
    asked: dict[str, object]
    to_count: tuple[_Part, _Part] | None


class ClaimPages:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._row_at_once = database.row_at_once
        self._is_server = database.dialect != "sqlite"
        self._learn_again_s = _LEARN_AGAIN_S if self._is_server else 0.0
        self._known: dict[_List, _Known] = {}
        self._learnt_s: dict[_List, float] = {}
        self._kept = 0

    async def read(
        self, window: Window, offset: int, size: int
    ) -> tuple[int, Sequence[ReadyClaim]]:
        """The exact total, and the claims of a page."""
        hours = split_window(window.start_s, window.end_s, _HOUR_S)
        values: dict[str, object] = {
            "wanted_sid": window.sid,
            "wanted_type": window.claim_type,
            "first_hour": hours.whole[0],
            "last_hour": hours.whole[1],
            **part_values("newest", hours.newest),
            **part_values("oldest", hours.oldest),
        }
        total, rows = await read_listed(self._database, _PAGE, offset, size, values)
        return total, [ReadyClaim._make(row) for row in rows]

    def read_at_once(self, window: Window, page: JoinedPage) -> tuple[int, bytes] | None:
        """Like `read_joined`, without waiting; None if the caller has to use that instead."""
        if self._row_at_once is None:
            return None
        while (start := self._start(window, page)) is not None:
            found = self._found(window, start, self._row_at_once(start.query, start.asked))
            if found is not None:
                return found
        return None

    async def read_joined(self, window: Window, page: JoinedPage) -> tuple[int, bytes] | None:
        """The exact total, and the claims of a page in one piece, each after its time; None if the
        caller has to use `read` instead."""
        found = await self._read_known(window, page)
        if found is None and await self._learn(window.sid, window.claim_type):
            found = await self._read_known(window, page)
        return found

    async def _read_known(self, window: Window, page: JoinedPage) -> tuple[int, bytes] | None:
        while (start := self._start(window, page)) is not None:
            row = await self._database.fetch_one(start.query, **start.asked)
            found = self._found(window, start, row)
            if found is not None:
                return found
        return None

    def _start(self, window: Window, page: JoinedPage) -> _Start | None:
        """Where a page begins, by the cached counts; None without such counts. Before a page far
        back can be found, the parts of its window may have to be counted."""
        known = self._known.get(window[:2])
        if known is None:
            return None
        newest, whole, oldest = split_window(window.start_s, window.end_s, _HOUR_S)
        span = known.hours.between(*whole)
        in_whole = known.hours.total(span)
        in_newest = known.parts.get(newest) if newest[0] < newest[1] else 0
        in_oldest = known.parts.get(oldest) if oldest[0] < oldest[1] else 0
        asked: dict[str, object] = {
            "wanted_sid": window.sid,
            "wanted_type": window.claim_type,
            "after": -window.end_s,
            "oldest_up_to": -window.start_s,
            "take": page.size,
            "skip": page.offset,
            "utc_offset_s": page.utc_offset_s,
            "between": page.between,
        }
        if in_newest is None or in_oldest is None:
            if page.offset > _SKIPPED_MAX:
                asked["skip"] = asked["take"] = 0
            asked |= {**part_values("newest", newest), **part_values("oldest", oldest)}
            return _Start(known, in_whole, _JOINED_AND_COUNTED, asked, (newest, oldest))
        in_hours = in_newest + in_whole
        total = in_hours + in_oldest
        if page.offset >= total:
            asked["skip"] = asked["take"] = 0
        elif page.offset >= in_hours:
            asked["after"], asked["skip"] = -_HOUR_S * whole[0], page.offset - in_hours
        elif page.offset >= in_newest:
            hour, asked["skip"] = known.hours.locate(span, page.offset - in_newest)
            asked["after"] = -_HOUR_S * (hour + 1)
        if self._is_server:
            # Bounds the page at its oldest hour, so that the server skips older months.
            last = min(page.offset + page.size, total) - 1 - in_newest
            if 0 <= last < in_whole:
                asked["oldest_up_to"] = -_HOUR_S * known.hours.locate(span, last)[0]
        return _Start(known, total, _JOINED, asked, None)

    def _found(self, window: Window, start: _Start, row: Row | None) -> tuple[int, bytes] | None:
        """The total and the claims; None if the cached counts are out of date, or lacked what was
        now counted."""
        if row is None or row[1] != start.known.version:
            self._known.pop(window[:2], None)
            return None
        total = start.total
        if start.to_count is not None:
            self._keep_parts(start.known, start.to_count, row[2:])
            total += row[2] + row[3]
            if start.asked["take"] == 0:
                return None
        return total, row[0] or b""

    def _keep_parts(self, known: _Known, parts: tuple[_Part, _Part], counts: Row) -> None:
        for part, count in zip(parts, counts, strict=True):
            if len(known.parts) >= _PARTS_MAX:
                del known.parts[next(iter(known.parts))]
            else:
                self._kept += _KEPT_OF_PART
            known.parts[part] = count
        if self._kept > _KEPT_MAX:
            self._forget_all()

    async def _learn(self, sid: str, claim_type: int) -> bool:
        """Caches the counts of a list, unless they are cached or were read just now."""
        key = sid, claim_type
        now_s = monotonic()
        if key in self._known or now_s - self._learnt_s.get(key, -inf) < self._learn_again_s:
            return False
        # Callers can ask for any number of lists that do not exist.
        if len(self._learnt_s) >= _NOTED_MAX:
            self._learnt_s.clear()
        self._learnt_s[key] = now_s
        rows = await self._database.fetch_all(_ALL_HOURS, wanted_sid=sid, wanted_type=claim_type)
        if not rows:
            return False
        # Replaced entries still count, which only means that the limit is reached sooner.
        self._kept += len(rows) + _KEPT_OF_LIST
        if self._kept > _KEPT_MAX:
            self._forget_all()
            self._kept = len(rows)
        hours = RunningCounts((hour, claims) for hour, claims, _ in rows)
        self._known[key] = _Known(rows[0][2], hours, {})
        return True

    def _forget_all(self) -> None:
        self._known.clear()
        self._learnt_s.clear()
        self._kept = 0
