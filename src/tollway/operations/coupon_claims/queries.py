"""The stored claims behind an answer: one page of them, and how many there are."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, bindparam, select

from tollway.operations.coupon_claims.schema import coupon_claim, coupon_claim_hour
from tollway.store.database import Database
from tollway.store.paging import Listing, part_of, part_values, read_listed, taken_apart

_HOUR_S = 3600


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


_HOURS = select(-_HOUR_S * (coupon_claim_hour.c.hour + 1), coupon_claim_hour.c.claims).where(
    coupon_claim_hour.c.sid == bindparam("wanted_sid"),
    coupon_claim_hour.c.claim_type == bindparam("wanted_type"),
    coupon_claim_hour.c.hour >= bindparam("first_hour"),
    coupon_claim_hour.c.hour < bindparam("last_hour"),
)
_newest = part_of("newest", coupon_claim.c.newest_first, *_OF_SID)
_oldest = part_of("oldest", coupon_claim.c.newest_first, *_OF_SID)
_PAGE = Listing([_newest, _HOURS, _oldest], _rows, _KEY).query()


async def read_page(
    database: Database, window: Window, offset: int, size: int
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
    total, rows = await read_listed(database, _PAGE, offset, size, values)
    return total, [ReadyClaim._make(row) for row in rows]
