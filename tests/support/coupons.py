"""Coupon claims for tests."""

from collections.abc import Sequence

from tests.support.stores import Store
from tollway.intake.loading import store_records
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.coupon_claims.records import ClaimRow
from tollway.operations.coupon_claims.storage import ClaimLoader
from tollway.store.database import Database

COUPONS = COUPON_CLAIMS.path
# The beginning of an hour: 2026-01-15 12:00:00 in Shanghai.
NOON_S = 1_768_449_600
WEEK_S = 604_800


def claim(
    code: str, at_s: int, *, sid: str = "s1", claim_type: int = 4, updated_ms: int = 10**12
) -> ClaimRow:
    return ClaimRow(
        sid=sid,
        claim_type=claim_type,
        newest_first=-at_s,
        coupon_code=code,
        coupon_name="外卖红包",
        coupon_type="WAIMAI_COUPON" if claim_type == 4 else "SHANGOU_COUPON",
        money_fen=550,
        min_use_fen=2000,
        begin_at_s=at_s,
        end_at_s=at_s + 86_400,
        app_key="key",
        updated_ms=updated_ms,
    )


def asked(**changes: object) -> dict[str, str]:
    """The fields of a request that succeeds, with changes."""
    fields: dict[str, object] = {
        "startTime": NOON_S,
        "endTime": NOON_S + 3600,
        "page": 1,
        "limit": 10,
        "sid": "s1",
        "type": 4,
    }
    return {name: str(value) for name, value in {**fields, **changes}.items() if value is not None}


async def put_claims(database: Database, claims: Sequence[ClaimRow]) -> int:
    """Stores claims in one transaction; returns how many changed."""
    return await store_records(database, ClaimLoader(), claims)


def load_claims(store: Store, claims: Sequence[ClaimRow]) -> int:
    return store.do(lambda database: put_claims(database, claims))
