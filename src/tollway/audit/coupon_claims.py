"""The counts of coupon claims by hour against the claims; every code at most once."""

from sqlalchemy import exists, func, select, union_all

from tollway.audit.check import NO_COUNT, Check, bucket_of, check_each, count_reporter, within
from tollway.operations.coupon_claims.schema import coupon_claim, coupon_claim_hour
from tollway.store.database import Row

_HOUR_S = 3600
_claim, _hour = coupon_claim.c, coupon_claim_hour.c

_there = (
    select(func.count())
    .select_from(coupon_claim)
    .where(
        _claim.sid == _hour.sid,
        _claim.claim_type == _hour.claim_type,
        within(_claim.newest_first, _hour.hour, _HOUR_S),
    )
    .scalar_subquery()
)
_counts = select(*_hour, _there.label("there")).subquery("counts")
_its_hour = bucket_of(_claim.newest_first, _HOUR_S)
_uncounted = (
    select(_claim.sid, _claim.claim_type, _its_hour, NO_COUNT, NO_COUNT)
    .where(
        ~exists().where(
            _hour.sid == _claim.sid, _hour.claim_type == _claim.claim_type, _hour.hour == _its_hour
        )
    )
    .distinct()
)


def _subject(bucket: Row) -> str:
    sid, claim_type, hour = bucket
    return f"sid {sid}, type {claim_type}, hour {hour}"


CLAIM_HOURS = Check(
    "claim_hours",
    "coupon claims are counted right by hour",
    coupon_claim,
    union_all(select(_counts).where(_counts.c.claims != _counts.c.there), _uncounted),
    count_reporter("claims", _subject),
)

# In SQLite an index keeps codes unique; in PostgreSQL only within a month. Across months only the
# code that stores claims does, so the audit checks it.
_codes = select(
    coupon_claim.c.coupon_code,
    func.lag(coupon_claim.c.coupon_code).over(order_by=coupon_claim.c.coupon_code).label("before"),
).subquery("codes")


CODES_ONCE = check_each(
    "codes_once",
    "every coupon code exists once",
    coupon_claim,
    select(_codes.c.coupon_code).where(_codes.c.coupon_code == _codes.c.before),
    "code_twice",
    "the coupon code {coupon_code} exists twice",
)
