"""The stored claims behind an answer: one page of them, and how many there are.

In an embedded database the counts of a list's hours are kept in memory, under the version that they
were read with. A page is read together with the version: if that is still the same, so are the
total and the start of the page, and the claims come joined, in one row.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, LargeBinary, Select, bindparam, cast, func, select

from tollway.operations.coupon_claims.schema import (
    coupon_claim,
    coupon_claim_hour,
    coupon_claim_version,
)
from tollway.store.database import Database
from tollway.store.paging import (
    Listing,
    RunningCounts,
    part_of,
    part_values,
    read_listed,
    taken_apart,
)
from tollway.store.query import Query

_HOUR_S = 3600
# How many hours are kept, of all lists together, at 16 bytes each; and what a list counts besides.
_KEPT_MAX = 500_000
_KEPT_OF_LIST = 64


class Window(NamedTuple):
    """Which claims are asked for; the start is included, the end is not."""

    sid: str
    claim_type: int
    start_s: int
    end_s: int


class ReadyClaim(NamedTuple):
    newest_first: int
    coupon_code: str
    ready: bytes


_KEY = ("newest_first", "coupon_code")
_OF_SID = (
    coupon_claim.c.sid == bindparam("wanted_sid"),
    coupon_claim.c.claim_type == bindparam("wanted_type"),
)


def _rows(after: ColumnElement[int], skip: ColumnElement[int]) -> Select[Any]:
    return (
        select(*(coupon_claim.c[name] for name in ReadyClaim._fields))
        .where(
            *_OF_SID,
            coupon_claim.c.newest_first > after,
            coupon_claim.c.newest_first <= bindparam("oldest_up_to"),
        )
        .order_by(*(coupon_claim.c[name] for name in _KEY))
        .limit(bindparam("take"))
        .offset(skip)
    )


_OF_LIST = (
    coupon_claim_hour.c.sid == bindparam("wanted_sid"),
    coupon_claim_hour.c.claim_type == bindparam("wanted_type"),
)
_HOURS = select(-_HOUR_S * (coupon_claim_hour.c.hour + 1), coupon_claim_hour.c.claims).where(
    *_OF_LIST,
    coupon_claim_hour.c.hour >= bindparam("first_hour"),
    coupon_claim_hour.c.hour < bindparam("last_hour"),
)
_newest = part_of("newest", coupon_claim.c.newest_first, *_OF_SID)
_oldest = part_of("oldest", coupon_claim.c.newest_first, *_OF_SID)
_LISTING = Listing([_newest, _HOURS, _oldest], _rows, _KEY)
_PAGE = _LISTING.query()

_version = (
    select(coupon_claim_version.c.version)
    .where(
        coupon_claim_version.c.sid == bindparam("wanted_sid"),
        coupon_claim_version.c.claim_type == bindparam("wanted_type"),
    )
    .scalar_subquery()
)
# All hours of a list, and beside each the version; the highest hour first.
_ALL_HOURS = Query(
    select(coupon_claim_hour.c.hour, coupon_claim_hour.c.claims, _version)
    .where(*_OF_LIST)
    .order_by(coupon_claim_hour.c.hour.desc())
)
_page = _LISTING.page_rows.subquery()
_time = func.datetime(bindparam("utc_offset_s") - _page.c.newest_first, "unixepoch")
# Each claim with its time before it. Only SQLite has these functions.
_JOINED = Query(
    select(
        cast(
            func.group_concat(func.concat(_time, _page.c.ready), bindparam("between")), LargeBinary
        ),
        _version,
    )
)


class _Known(NamedTuple):
    version: int
    hours: RunningCounts


class ClaimPages:
    """Pages of the claims of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_embedded = database.dialect == "sqlite"
        self._known: dict[tuple[str, int], _Known] = {}
        self._kept = 0

    async def read(
        self, window: Window, offset: int, size: int
    ) -> tuple[int, Sequence[ReadyClaim]]:
        """The exact total, and the claims of a page."""
        hours = taken_apart(window.start_s, window.end_s, _HOUR_S)
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

    async def read_joined(
        self, window: Window, offset: int, size: int, utc_offset_s: int, between: bytes
    ) -> tuple[int, bytes] | None:
        """The exact total, and the claims of a page in one piece, each after its time; None if they
        must be read in another way."""
        first, first_rest = divmod(window.start_s, _HOUR_S)
        last, last_rest = divmod(window.end_s, _HOUR_S)
        if first_rest or last_rest or not self._is_embedded:
            return None
        for _ in range(2):
            known = self._known.get(window[:2])
            if known is not None:
                span = known.hours.between(first, last)
                total = known.hours.total(span)
                if offset >= total:
                    return None
                hour, skip = known.hours.locate(span, offset)
                row = await self._database.fetch_one(
                    _JOINED,
                    wanted_sid=window.sid,
                    wanted_type=window.claim_type,
                    after=-_HOUR_S * (hour + 1),
                    oldest_up_to=-window.start_s,
                    take=size,
                    skip=skip,
                    utc_offset_s=utc_offset_s,
                    between=between,
                )
                if row is not None and row[0] is not None and row[1] == known.version:
                    return total, row[0]
            await self._learn(window.sid, window.claim_type)
        return None

    async def _learn(self, sid: str, claim_type: int) -> None:
        rows = await self._database.fetch_all(_ALL_HOURS, wanted_sid=sid, wanted_type=claim_type)
        if not rows:
            self._known.pop((sid, claim_type), None)
            return
        # Those that were replaced still count: the most is reached sooner, and that is all.
        self._kept += len(rows) + _KEPT_OF_LIST
        if self._kept > _KEPT_MAX:
            self._known.clear()
            self._kept = len(rows)
        hours = RunningCounts((hour, claims) for hour, claims, _ in rows)
        self._known[sid, claim_type] = _Known(rows[0][2], hours)
