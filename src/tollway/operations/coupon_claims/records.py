"""One coupon claim as it comes in, as it is stored, and ready: as it is answered, except for its
time, which depends on the gateway's time zone."""

from functools import lru_cache
from typing import Annotated, NamedTuple

import msgspec

from tollway.contract.envelope import encode_data
from tollway.intake.record_check import RecordCheck, check_not_ahead, check_since_2000
from tollway.intake.record_fields import (
    SECONDS_OR_ZERO,
    Id,
    Milliseconds,
    Name,
    Number,
    Seconds,
    SecondsOrZero,
    Yuan,
    fen_of,
)
from tollway.intake.record_problems import RecordError, shown_number
from tollway.operations.coupon_claims.counts import HOUR_S, Hour
from tollway.operations.coupon_claims.operation import CouponRecord

DELIVERY, FLASH = 4, 6
DELIVERY_COUPON = "WAIMAI_COUPON"
_TYPES = f"{DELIVERY} for food delivery, or {FLASH} for flash purchase"
# What a claim begins with in an answer; its time follows.
BEFORE_TIME = b'{"couponTime":"'
# The fields that differ between claims of one coupon, left empty.
_OWN = b'"couponCode":"","beginTime":"","endTime":""'


class ClaimRecord(msgspec.Struct, frozen=True):
    """One line of a file. `coupon_type` may be left out for food delivery, which has but one;
    without `updated_at` a claim counts as of when it was received."""

    coupon_code: Id
    sid: Id
    type: Annotated[Number, msgspec.Meta(description=_TYPES)]
    claim_time: Seconds
    coupon_name: Name
    money: Yuan
    min_use_money: Yuan
    begin_time: SecondsOrZero
    end_time: SecondsOrZero
    app_key: Id
    coupon_type: Name | None = None
    updated_at: Milliseconds | None = None


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
    updated_ms: int

    @property
    def place(self) -> tuple[str, int, int, str]:
        """The position of the claim in the list: its key."""
        return self[:4]

    @property
    def content(self) -> tuple[object, ...]:
        """What the claim says, without the time of its update."""
        return self[:-1]

    @property
    def hour(self) -> Hour:
        """The bucket that counts the claim."""
        return self.sid, self.claim_type, -self.newest_first // HOUR_S


class UndatedClaim(ClaimRow):
    """A claim without `updated_at`: the time of its receipt stands in."""

    __slots__ = ()


_check = RecordCheck(ClaimRecord)


def checked_claim(values: dict[str, object], received_s: int) -> ClaimRow:
    """The claim as it is stored; raises RecordError if it is wrong."""
    record = _check(values)
    check_not_ahead("claim_time", record.claim_time)
    if record.updated_at is not None:
        check_not_ahead("updated_at", record.updated_at / 1000)
    row_type = UndatedClaim if record.updated_at is None else ClaimRow
    check_since_2000("begin_time", record.begin_time, SECONDS_OR_ZERO)
    check_since_2000("end_time", record.end_time, SECONDS_OR_ZERO)
    if record.end_time < record.begin_time:
        raise RecordError("end_time", "it is before begin_time", "a time that is not")
    return row_type(
        record.sid,
        record.type,
        -record.claim_time,
        record.coupon_code,
        record.coupon_name,
        _coupon_type(record),
        fen_of(record.money),
        fen_of(record.min_use_money),
        record.begin_time,
        record.end_time,
        record.app_key,
        received_s * 1000 if record.updated_at is None else record.updated_at,
    )


def ready_claim(row: ClaimRow) -> bytes:
    """What follows the time of a claim in an answer."""
    sid, _, _, code, name, coupon_type, money_fen, min_use_fen, begin_at_s, end_at_s, app_key, _ = (
        row
    )
    before, after = _around_own(sid, name, coupon_type, money_fen, min_use_fen, app_key)
    own = (encode_data(code), begin_at_s, end_at_s)
    return before + b'"couponCode":%b,"beginTime":"%d","endTime":"%d"' % own + after


@lru_cache(maxsize=1024)
def _around_own(
    sid: str, coupon_name: str, coupon_type: str, money_fen: int, min_use_fen: int, app_key: str
) -> tuple[bytes, bytes]:
    """The parts of a ready claim around its code and times: many claims share one coupon."""
    record = CouponRecord(
        couponTime="",
        money=_yuan(money_fen),
        minUseMoney=_yuan(min_use_fen),
        couponName=coupon_name,
        couponType=coupon_type,
        couponCode="",
        beginTime="",
        endTime="",
        appKey=app_key,
        sid=sid,
    )
    # Quotation marks within texts are escaped, so no text can match.
    before, _, after = encode_data(record).partition(_OWN)
    return before.removeprefix(BEFORE_TIME), after


def _yuan(fen: int) -> str:
    return f"{fen // 100}.{fen % 100:02}"


def _coupon_type(record: ClaimRecord) -> str:
    if record.type == DELIVERY:
        if record.coupon_type not in (None, DELIVERY_COUPON):
            expected = f"{DELIVERY_COUPON} with type {DELIVERY}"
            raise RecordError("coupon_type", "it is another", expected)
        return DELIVERY_COUPON
    if record.type != FLASH:
        problem = shown_number(str(record.type))
        raise RecordError("type", problem, _TYPES)
    if record.coupon_type is None:
        raise RecordError("coupon_type", "it is missing", f"it with type {FLASH}")
    return record.coupon_type
