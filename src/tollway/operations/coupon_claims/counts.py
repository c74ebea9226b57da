"""How many coupon claims each hour has, stored with the claims.

Totals and pages are computed from these counts, so they change in the same transaction as the
claims. The list's version changes too, so that readers notice cached counts that are out of date.
"""

from collections import Counter
from collections.abc import Iterable

from sqlalchemy import and_, bindparam, func, literal_column, select

from tollway.operations.coupon_claims.schema import (
    EVERY_LIST,
    coupon_claim_hour,
    coupon_claim_version,
)
from tollway.store.cache_versions import new_version
from tollway.store.database import Transaction
from tollway.store.many_rows import adds, upserts
from tollway.store.query import Query, equals

HOUR_S = 3600
Hour = tuple[str, int, int]  # sid, claim type, number of the hour since 1970

_COUNT_UP = adds(coupon_claim_hour, "claims")
# A separate statement: an INSERT with a negative count would violate the check constraint, even if
# it ends in an UPDATE.
_COUNT_DOWN = Query(
    lambda: (
        coupon_claim_hour.update()
        .values(claims=coupon_claim_hour.c.claims - bindparam("fewer"))
        .where(equals(coupon_claim_hour, sid="its_sid", claim_type="its_type", hour="its_hour"))
    )
)
_FORGET_EMPTY = Query(
    lambda: coupon_claim_hour.delete().where(
        equals(coupon_claim_hour, sid="its_sid", claim_type="its_type", hour="its_hour"),
        coupon_claim_hour.c.claims == literal_column("0"),
    )
)
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
    await _give_versions(transaction, [EVERY_LIST])
    return int(total[0] or 0) if total else 0


async def recount(transaction: Transaction, *, left: Iterable[Hour], come: Iterable[Hour]) -> None:
    counts = Counter(come)
    counts.subtract(Counter(left))
    # A fixed lock order prevents deadlocks.
    up = [(*hour, more) for hour, more in sorted(counts.items()) if more > 0]
    down = [(-more, *hour) for hour, more in sorted(counts.items()) if more < 0]
    await transaction.put_rows(_COUNT_UP, up)
    await transaction.execute_many(_COUNT_DOWN, down)
    # Also if no hour has more or fewer: a part of one may have.
    await _give_versions(transaction, {hour[:2] for hour in counts})


async def _give_versions(transaction: Transaction, lists: Iterable[tuple[str, int]]) -> None:
    versions = [(*each, new_version()) for each in sorted(lists)]
    await transaction.put_rows(upserts(coupon_claim_version), versions)


async def forget_empty(transaction: Transaction, hours: Iterable[Hour]) -> None:
    """Removes the counts of these hours that have no claim left."""
    await transaction.execute_many(_FORGET_EMPTY, sorted(set(hours)))
