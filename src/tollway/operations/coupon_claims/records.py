"""One coupon claim as it comes in, and as it is stored."""

from decimal import Decimal
from typing import NamedTuple

import msgspec

from tollway.intake.record_fields import Id, Name, Seconds, fen_of
from tollway.operations.coupon_claims.counts import HOUR_S, Hour

DELIVERY, FLASH = 4, 6
DELIVERY_COUPON = "WAIMAI_COUPON"


class ClaimRecord(msgspec.Struct, frozen=True):
    """One line of a file. `coupon_type` may be left out for food delivery, which has but one."""

    coupon_code: Id
    sid: Id
    type: int
    claim_time: Seconds
    coupon_name: Name
    money: Decimal
    min_use_money: Decimal
    begin_time: Seconds
    end_time: Seconds
    app_key: Id
    coupon_type: Name | None = None


class ClaimRow(NamedTuple):
    """A claim as it is stored: the table's columns, in their order."""

    sid: str
    claim_type: int
    newest_first: int
    coupon_code: str
    coupon_name: str
    coupon_type: str
    money_fen: int
    min_use_fen: int
    begin_at_s: int
    end_at_s: int
    app_key: str

    @property
    def place(self) -> tuple[str, int, int, str]:
        """The position of the claim in the list: its key."""
        return self[:4]

    @property
    def hour(self) -> Hour:
        """The bucket it is counted in."""
        return self.sid, self.claim_type, -self.newest_first // HOUR_S


def checked_claim(values: dict[str, object]) -> ClaimRow:
    """The claim as it is stored; raises msgspec.ValidationError or ValueError if it is wrong."""
    record = msgspec.convert(values, ClaimRecord, strict=False)
    if record.end_time < record.begin_time:
        raise ValueError("Expected a time not before begin_time - at `$.end_time`")
    return ClaimRow(
        record.sid,
        record.type,
        -record.claim_time,
        record.coupon_code,
        record.coupon_name,
        _coupon_type(record),
        fen_of(record.money, "money"),
        fen_of(record.min_use_money, "min_use_money"),
        record.begin_time,
        record.end_time,
        record.app_key,
    )


def _coupon_type(record: ClaimRecord) -> str:
    if record.type == DELIVERY:
        if record.coupon_type not in (None, DELIVERY_COUPON):
            raise ValueError(f"Expected {DELIVERY_COUPON} for type 4 - at `$.coupon_type`")
        return DELIVERY_COUPON
    if record.type != FLASH:
        raise ValueError("Expected 4 (food delivery) or 6 (flash purchase) - at `$.type`")
    if record.coupon_type is None:
        raise ValueError("Object missing required field `coupon_type` for type 6")
    return record.coupon_type
