"""One page of claims, and how many there are: one statement."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Select, bindparam, cast, func, select, true

from tollway.store.database import Database
from tollway.store.paging import TAKE, counts_of, start_in, taken_apart, the_only, total_of
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


_CLAIMS = [coupon_claim.c[name] for name in Claim._fields]
_OF_SID = (
    coupon_claim.c.sid == bindparam("wanted_sid"),
    coupon_claim.c.claim_type == bindparam("wanted_type"),
)


def _part(name: str) -> Select[Any]:
    """A part of an hour as a bucket, counted claim by claim."""
    after, up_to = bindparam(f"{name}_after"), bindparam(f"{name}_up_to")
    return (
        select(cast(after, BigInteger).label("after"), func.count().label("listed"))
        .select_from(coupon_claim)
        .where(
            *_OF_SID, coupon_claim.c.newest_first > after, coupon_claim.c.newest_first <= up_to
        )
    )


def _page() -> Query:
    hours = select(
        (-_HOUR_S * (coupon_claim_hour.c.hour + 1)).label("after"),
        coupon_claim_hour.c.claims.label("listed"),
    ).where(
        coupon_claim_hour.c.sid == bindparam("wanted_sid"),
        coupon_claim_hour.c.claim_type == bindparam("wanted_type"),
        coupon_claim_hour.c.hour >= bindparam("first_hour"),
        coupon_claim_hour.c.hour < bindparam("last_hour"),
    )
    counts = counts_of("counts", _part("newest"), hours, _part("oldest"))
    begin = start_in("begin", counts)
    page = (
        select(*_CLAIMS)
        .where(
            *_OF_SID,
            coupon_claim.c.newest_first > the_only(begin.c.after),
            coupon_claim.c.newest_first <= bindparam("oldest_up_to"),
        )
        .order_by(coupon_claim.c.newest_first, coupon_claim.c.coupon_code)
        .limit(TAKE)
        .offset(func.coalesce(the_only(begin.c.skip), 0))
        .cte("page")
    )
    alone = select(total_of(counts).label("total")).cte("alone")
    return Query(
        select(*page.c, alone.c.total)
        .select_from(alone)
        .outerjoin(page, true())
        .order_by(page.c.newest_first, page.c.coupon_code)
    )


_PAGE = _page()


async def read_page(
    database: Database, window: Window, offset: int, size: int
) -> tuple[int, Sequence[Claim]]:
    """The exact total, and the claims of a page."""
    hours = taken_apart(window.start_s, window.end_s, _HOUR_S)
    rows = await database.fetch_all(
        _PAGE,
        wanted_sid=window.sid,
        wanted_type=window.claim_type,
        newest_after=-hours.newest[1],
        newest_up_to=-hours.newest[0],
        first_hour=hours.whole[0],
        last_hour=hours.whole[1],
        oldest_after=-hours.oldest[1],
        oldest_up_to=-hours.oldest[0],
        offset=offset,
        take=size,
    )
    # The total stands in every row; a row without a claim is there for the total alone.
    return rows[0][-1], [Claim._make(row[:-1]) for row in rows if row[0] is not None]
