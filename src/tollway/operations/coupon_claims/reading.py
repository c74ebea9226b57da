"""The stored claims behind an answer: one page of them, and how many there are."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Select, bindparam, cast, func, select

from tollway.store.database import Database
from tollway.store.paging import Listing, taken_apart
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


_KEY = ("newest_first", "coupon_code")
_OF_SID = (
    coupon_claim.c.sid == bindparam("wanted_sid"),
    coupon_claim.c.claim_type == bindparam("wanted_type"),
)


def _part(name: str) -> Select[Any]:
    """A part of an hour as a bucket, counted claim by claim."""
    after, up_to = bindparam(f"{name}_after"), bindparam(f"{name}_up_to")
    return (
        select(cast(after, BigInteger), func.count())
        .select_from(coupon_claim)
        .where(
            *_OF_SID, coupon_claim.c.newest_first > after, coupon_claim.c.newest_first <= up_to
        )
    )


def _rows(after: ColumnElement[int], skip: ColumnElement[int]) -> Select[Any]:
    return (
        select(*(coupon_claim.c[name] for name in Claim._fields))
        .where(
            *_OF_SID,
            coupon_claim.c.newest_first > after,
            coupon_claim.c.newest_first <= bindparam("oldest_up_to"),
        )
        .order_by(*(coupon_claim.c[name] for name in _KEY))
        .limit(bindparam("take"))
        .offset(skip)
    )


_HOURS = select(-_HOUR_S * (coupon_claim_hour.c.hour + 1), coupon_claim_hour.c.claims).where(
    coupon_claim_hour.c.sid == bindparam("wanted_sid"),
    coupon_claim_hour.c.claim_type == bindparam("wanted_type"),
    coupon_claim_hour.c.hour >= bindparam("first_hour"),
    coupon_claim_hour.c.hour < bindparam("last_hour"),
)
_LISTING = Listing([_part("newest"), _HOURS, _part("oldest")], _rows, _KEY)


async def read_page(
    database: Database, window: Window, offset: int, size: int
) -> tuple[int, Sequence[Claim]]:
    """The exact total, and the claims of a page."""
    hours = taken_apart(window.start_s, window.end_s, _HOUR_S)
    values: dict[str, object] = {
        "wanted_sid": window.sid,
        "wanted_type": window.claim_type,
        "newest_after": -hours.newest[1],
        "newest_up_to": -hours.newest[0],
        "first_hour": hours.whole[0],
        "last_hour": hours.whole[1],
        "oldest_after": -hours.oldest[1],
        "oldest_up_to": -hours.oldest[0],
    }
    total, rows = await _LISTING.page(database, offset, size, values)
    return total, [Claim._make(row) for row in rows]
