"""What an answer has, in the spellings of the wire."""

import msgspec


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
