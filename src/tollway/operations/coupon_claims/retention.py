"""How long coupon claims are kept: old ones go by whole days, together with their counts."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import BigInteger, bindparam, func, select

from tollway.operations.coupon_claims.counts import HOUR_S, forget_hours
from tollway.operations.coupon_claims.schema import coupon_claim, coupon_claim_hour
from tollway.operations.coupon_claims.storage import remove_old
from tollway.operations.subject import Removal, Retained
from tollway.store.database import Database, Transaction
from tollway.store.months import DAY_S, Month
from tollway.store.query import Query

# Materialized, so that the old hours are read first, from their index. Otherwise a planner may read
# the counts of all hours, because those are in the order of the lists.
_old_hours = (
    select(coupon_claim_hour.c.sid, coupon_claim_hour.c.claim_type, coupon_claim_hour.c.claims)
    .where(
        coupon_claim_hour.c.hour < bindparam("before_hour", type_=BigInteger),
        coupon_claim_hour.c.claims > 0,
    )
    .cte("old_hour")
    .prefix_with("MATERIALIZED")
)
_list = (_old_hours.c.sid, _old_hours.c.claim_type)
_OLD_CLAIMS = Query(
    lambda: select(*_list, func.sum(_old_hours.c.claims)).group_by(*_list).order_by(*_list)
)


def _day_start_s(before_ms: int) -> int:
    return before_ms // 1000 // DAY_S * DAY_S


async def _removals(database: Database, before_ms: int) -> Sequence[Removal]:
    before_s = _day_start_s(before_ms)
    lists = await database.fetch_long(_OLD_CLAIMS, before_hour=before_s // HOUR_S)
    return [
        partial(remove_old, sid=sid, claim_type=claim_type, before_s=before_s)
        for sid, claim_type, _ in lists
    ]


async def _count_old(database: Database, before_ms: int) -> int:
    hour = _day_start_s(before_ms) // HOUR_S
    old = await database.fetch_long(_OLD_CLAIMS, before_hour=hour)
    return sum(int(claims or 0) for _, _, claims in old)


async def _forget_month(transaction: Transaction, month: Month) -> int:
    return await forget_hours(transaction, month.start_s, month.end_s)


RETAINED_CLAIMS = Retained(
    kind="claims",
    keep_days=lambda settings: settings.keep_claims_days,
    table=coupon_claim,
    removals=_removals,
    count_old=_count_old,
    forget_month=_forget_month,
)
