"""The stored claims behind an answer: how many each hour has, and the rows of one page."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, func, select

from tollway.store.database import Database
from tollway.store.paging import page_slices
from tollway.store.query import Query
from tollway.store.schema import coupon_claim, coupon_claim_hour

_HOUR_S = 3600


class Window(NamedTuple):
    """Which claims are asked for; the start is included, the end is not."""

    sid: str
    claim_type: int
    start_s: int
    end_s: int


class Claim(NamedTuple):
    newest_first: int
    coupon_code: str
    coupon_name: str
    coupon_type: str
    money_fen: int
    min_use_fen: int
    begin_at_s: int
    end_at_s: int
    app_key: str


_HOURS = Query(
    select(coupon_claim_hour.c.hour, coupon_claim_hour.c.claims)
    .where(
        coupon_claim_hour.c.sid == bindparam("wanted_sid"),
        coupon_claim_hour.c.claim_type == bindparam("wanted_type"),
        coupon_claim_hour.c.hour.between(bindparam("first_hour"), bindparam("last_hour")),
    )
    .order_by(coupon_claim_hour.c.hour.desc())
)
# Times are stored negated, so the end of a stretch comes first.
_IN_STRETCH = (
    coupon_claim.c.sid == bindparam("wanted_sid"),
    coupon_claim.c.claim_type == bindparam("wanted_type"),
    coupon_claim.c.newest_first > bindparam("end"),
    coupon_claim.c.newest_first <= bindparam("start"),
)
_COUNT = Query(select(func.count()).select_from(coupon_claim).where(*_IN_STRETCH))
_ROWS = Query(
    select(*(coupon_claim.c[name] for name in Claim._fields))
    .where(*_IN_STRETCH)
    .order_by(coupon_claim.c.newest_first, coupon_claim.c.coupon_code)
    .limit(bindparam("take"))
    .offset(bindparam("skip"))
)


async def read_counts(database: Database, window: Window) -> list[tuple[int, int]]:
    """(hour, claims of it within the window), newest hour first.

    Only the hours that the window cuts are counted row by row: two of them at the most.
    """
    hours = await database.fetch_all(
        _HOURS,
        wanted_sid=window.sid,
        wanted_type=window.claim_type,
        first_hour=window.start_s // _HOUR_S,
        last_hour=(window.end_s - 1) // _HOUR_S,
    )
    counts = []
    for hour, claims in hours:
        part = _within(window, hour, hour)
        is_cut = part.end_s - part.start_s < _HOUR_S
        counts.append((hour, await _count(database, part) if is_cut and claims else claims))
    return counts


async def read_page(
    database: Database, window: Window, counts: Sequence[tuple[int, int]], offset: int, size: int
) -> list[Claim]:
    """The rows of a page: one run that begins in the hour that the counts name."""
    slices = page_slices(counts, offset, size)
    if not slices:
        return []
    stretch = _within(window, first_hour=slices[-1].bucket, last_hour=slices[0].bucket)
    rows = await database.fetch_all(
        _ROWS,
        **_bounds(stretch),
        skip=slices[0].skip,
        take=sum(each.take for each in slices),
    )
    return [Claim._make(row) for row in rows]


async def _count(database: Database, stretch: Window) -> int:
    row = await database.fetch_one(_COUNT, **_bounds(stretch))
    assert row is not None
    count: int = row[0]
    return count


def _within(window: Window, first_hour: int, last_hour: int) -> Window:
    """The part of a window that lies in a run of hours."""
    return window._replace(
        start_s=max(window.start_s, first_hour * _HOUR_S),
        end_s=min(window.end_s, (last_hour + 1) * _HOUR_S),
    )


def _bounds(stretch: Window) -> dict[str, object]:
    return {
        "wanted_sid": stretch.sid,
        "wanted_type": stretch.claim_type,
        "start": -stretch.start_s,
        "end": -stretch.end_s,
    }
