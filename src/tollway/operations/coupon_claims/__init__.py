"""Coupon claims: the coupons that were claimed under one sid within at most seven days."""

from tollway.intake.loading import RecordKind
from tollway.operations.coupon_claims.demo import fill, world_records
from tollway.operations.coupon_claims.export import EXPORTS
from tollway.operations.coupon_claims.handler import CouponClaimsHandler
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.coupon_claims.records import ClaimRecord, ClaimRow, ready_claim
from tollway.operations.coupon_claims.schema import coupon_claim
from tollway.operations.coupon_claims.storage import RETAINED_CLAIMS, ClaimLoader
from tollway.operations.demo_data import DemoPart
from tollway.operations.remaking import ReadyRecords
from tollway.operations.subject import Subject
from tollway.store.database import Row
from tollway.store.sealing import Sealer


def _ready(row: Row, _: Sealer) -> tuple[bytes]:
    return (ready_claim(ClaimRow._make(row[:-1])),)


SUBJECT = Subject(
    operation=COUPON_CLAIMS,
    make_handler=lambda services: CouponClaimsHandler(services.reading, services.zone),
    records=RecordKind(
        name="coupon-claims",
        help="Load claimed coupons; loading a file again changes nothing.",
        make_loader=lambda _: ClaimLoader(),
        record_types=(ClaimRecord,),
        is_pushed=True,
        spoken_for=("channel", "sid"),
    ),
    ready=ReadyRecords(coupon_claim, _ready),
    retained=RETAINED_CLAIMS,
    demo=DemoPart(fill, world_records),
    more_calls=EXPORTS,
)
