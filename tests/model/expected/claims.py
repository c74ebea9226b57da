"""All coupon claims at one moment, and any page of a window of them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

Record = Mapping[str, Any]
_REQUIRED = (
    "coupon_code",
    "sid",
    "app_key",
    "type",
    "claim_time",
    "begin_time",
    "end_time",
    "coupon_name",
    "money",
    "min_use_money",
)
_ZONE = ZoneInfo("Asia/Shanghai")


class Claims:
    """Claims by their codes; never changed, but replaced by others."""

    def __init__(self, claims: Mapping[str, Record]) -> None:
        self.claims = claims

    def with_records(self, records: Sequence[Record]) -> tuple["Claims", int]:
        """The claims after records came in, and how many that changed: the last of a code stays."""
        claims = dict(self.claims)
        claims.update({each["coupon_code"]: _whole(each) for each in records})
        changed = sum(self.claims.get(code) != claim for code, claim in claims.items())
        return Claims(claims), changed

    def page(self, asked: Mapping[str, Any], price: int) -> dict[str, Any]:
        """The answer's data."""
        found = [
            each
            for each in self.claims.values()
            if each["sid"] == asked["sid"]
            and each["type"] == asked["type"]
            and asked["startTime"] <= each["claim_time"] < asked["endTime"]
        ]
        found.sort(key=lambda each: (-each["claim_time"], each["coupon_code"]))
        first = (asked["page"] - 1) * asked["limit"]
        return {
            "total": len(found),
            "dataList": [_shown(each) for each in found[first : first + asked["limit"]]],
            "withholding_money": price,
        }


def is_good_claim(record: Record) -> bool:
    """Whether a record is stored, and not rejected."""
    if any(record.get(name) is None for name in _REQUIRED):
        return False
    kind, name = record["type"], record.get("coupon_type")
    fits = name in (None, "WAIMAI_COUPON") if kind == 4 else kind == 6 and name is not None
    amounts = [Decimal(str(record[field])) for field in ("money", "min_use_money")]
    return (
        fits
        and record["end_time"] >= record["begin_time"]
        and all(each >= 0 and each == round(each, 2) for each in amounts)
    )


def _whole(record: Record) -> Record:
    """The record as it is compared with another one: amounts by their worth."""
    kind = "WAIMAI_COUPON" if record["type"] == 4 else record["coupon_type"]
    amounts = {field: Decimal(str(record[field])) for field in ("money", "min_use_money")}
    return {**record, **amounts, "coupon_type": kind}


def _shown(claim: Record) -> dict[str, str]:
    return {
        "couponTime": f"{datetime.fromtimestamp(claim['claim_time'], _ZONE):%Y-%m-%d %H:%M:%S}",
        "money": f"{claim['money']:.2f}",
        "minUseMoney": f"{claim['min_use_money']:.2f}",
        "couponName": claim["coupon_name"],
        "couponType": claim["coupon_type"],
        "couponCode": claim["coupon_code"],
        "beginTime": str(claim["begin_time"]),
        "endTime": str(claim["end_time"]),
        "appKey": claim["app_key"],
        "sid": claim["sid"],
    }
