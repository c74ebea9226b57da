"""The coupon-claim query: its request, its response, and its descriptor."""

from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec

from tollway.contract.fields import Choice, Field, Line, Whole
from tollway.contract.language import Phrase
from tollway.contract.operation import PAGE_MAX, Encoding, Operation, Unit
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.time_fields import Seconds, span_s

CLAIM_TYPES = Choice(((4, Phrase("food delivery", "外卖")), (6, Phrase("flash purchase", "闪购"))))
SID = Line(max_length=64)
LIMIT_MAX = 1000
WINDOW_MAX_S = 7 * 24 * 3600
_WINDOW_MAX = Phrase(f"{WINDOW_MAX_S} seconds (7 days)", f"{WINDOW_MAX_S} 秒（7 天）")


class CouponClaimsRequest(msgspec.Struct, frozen=True):
    startTime: Annotated[
        int | datetime, Field(Seconds(), "Start of the claim window, seconds timestamp; included.")
    ]
    endTime: Annotated[
        int | datetime,
        Field(
            Seconds(),
            "End of the claim window, seconds timestamp; excluded. At most 7 days after startTime.",
        ),
    ]
    page: Annotated[int, Field(Whole(1, PAGE_MAX), "Page number, starting at 1.")]
    limit: Annotated[int, Field(Whole(1, LIMIT_MAX), "Rows per page, maximum 1000.")]
    sid: Annotated[str, Field(SID, "Channel user identifier.")]
    type: Annotated[
        int,
        Field(CLAIM_TYPES, "4 = food delivery; 6 = flash purchase."),
    ]


class CouponRecord(msgspec.Struct, frozen=True):
    """One claimed coupon; every field is a string."""

    couponTime: str
    money: str
    minUseMoney: str
    couponName: str
    couponType: str
    couponCode: str
    beginTime: str
    endTime: str
    appKey: str
    sid: str


class CouponClaims(msgspec.Struct, frozen=True):
    """The payload."""

    total: int
    dataList: list[CouponRecord]
    withholding_money: int


def check_window(request: CouponClaimsRequest, zone: ZoneInfo) -> None:
    asked_s = span_s(request.startTime, request.endTime, zone)
    if asked_s <= 0:
        raise Refusal(Reason.WINDOW_BACKWARDS, start="startTime", end="endTime")
    if asked_s > WINDOW_MAX_S:
        raise Refusal(
            Reason.WINDOW_TOO_LONG,
            start="startTime",
            end="endTime",
            span=Phrase(f"{asked_s} seconds", f"{asked_s} 秒"),
            longest=_WINDOW_MAX,
        )


COUPON_CLAIMS = Operation(
    name="coupon_claims",
    title="Coupon-claim query",
    method="POST",
    path="/papi/tool/waimai/partner_couponList",
    encoding=Encoding.FORM,
    request_type=CouponClaimsRequest,
    response_type=CouponClaims,
    unit=Unit.CREDITS,
    default_price=1,
    check=check_window,
    own_reasons=(Reason.WINDOW_BACKWARDS, Reason.WINDOW_TOO_LONG),
)
