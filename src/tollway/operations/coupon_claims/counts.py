"""How many coupon claims each hour has: totals and pages are computed from it."""

from collections import Counter
from collections.abc import Iterable

from sqlalchemy import and_, bindparam, func, select

from tollway.operations.coupon_claims.schema import (
    EVERY_LIST,
    coupon_claim_hour,
    coupon_claim_version,
)
from tollway.store.database import Transaction
from tollway.store.paging import BucketCounts
from tollway.store.query import Query

HOUR_S = 3600
Hour = tuple[str, int, int]  # sid, claim type, number of the hour since 1970

_COUNTS = BucketCounts(coupon_claim_hour.c.claims, coupon_claim_version)
_of_hours = and_(
    coupon_claim_hour.c.hour >= bindparam("first_hour"),
    coupon_claim_hour.c.hour < bindparam("end_hour"),
)
_HOURS_TOTAL = Query(lambda: select(func.sum(coupon_claim_hour.c.claims)).where(_of_hours))
_FORGET_HOURS = Query(lambda: coupon_claim_hour.delete().where(_of_hours))


async def forget_hours(transaction: Transaction, start_s: int, end_s: int) -> int:
    """Removes the counts of whole hours, of every sid; returns how many claims they had."""
    hours = {"first_hour": start_s // HOUR_S, "end_hour": end_s // HOUR_S}
    total = await transaction.fetch_one(_HOURS_TOTAL, **hours)
    await transaction.execute(_FORGET_HOURS, **hours)
    await _COUNTS.give_versions(transaction, [EVERY_LIST])
    return int(total[0] or 0) if total else 0


async def recount(transaction: Transaction, *, left: Iterable[Hour], come: Iterable[Hour]) -> None:
    counts = Counter(come)
    counts.subtract(Counter(left))
    await _COUNTS.change(transaction, counts)
    # Also if no hour has more or fewer: a part of one may have.
    await _COUNTS.give_versions(transaction, {hour[:2] for hour in counts})
