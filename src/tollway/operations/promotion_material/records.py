"""One promotion material as it comes in, with its benefits and recommended items inside."""

from typing import Annotated, Literal
from urllib.parse import parse_qs, urlsplit

import msgspec

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern="^[^\\x00]*$")]


Name = Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern="^[^\\x00]*$")]


Url = Annotated[str, msgspec.Meta(max_length=2000, pattern="^(https?://[^\\x00\\s]+)?$")]


Number = Annotated[int, msgspec.Meta(ge=0, lt=10**18)]


PromotionType = Literal["1", "2", "3", "4"]


_LIST_MAX = msgspec.Meta(max_length=200)


class BenefitRecord(msgspec.Struct, frozen=True):
    """Threshold and face value in cents; pieces or percent where the material's types say so."""

    start_ms: Number
    end_ms: Number
    condition: Number
    discount: Number


class ItemRecord(msgspec.Struct, frozen=True):
    item_id: Number
    url: Url


class MaterialRecord(msgspec.Struct, frozen=True):
    promotion_id: Annotated[int, msgspec.Meta(ge=1, lt=10**18)]
    id: Id
    promotion_type: PromotionType
    condition_type: Literal["1", "2"]
    discount_type: Literal["1", "2"]
    total_count: Number
    remain_count: Number
    display_start_ms: Number
    display_end_ms: Number
    seller_id: Id
    nick: Name
    shop_title: Name
    promotion_url: Url
    shop_picture_url: Url = ""
    paid_coupon_item_id: Annotated[str, msgspec.Meta(max_length=64)] = ""
    paid_coupon_url: Url = ""
    benefits: Annotated[list[BenefitRecord], _LIST_MAX] = []
    items: Annotated[list[ItemRecord], _LIST_MAX] = []


def checked_material(values: dict[str, object]) -> MaterialRecord:
    """The typed record; raises msgspec.ValidationError or ValueError with what is wrong."""
    record = msgspec.convert(values, MaterialRecord, strict=False)
    if record.remain_count > record.total_count:
        raise ValueError("Expected no more than total_count - at `$.remain_count`")
    if record.display_start_ms >= record.display_end_ms:
        raise ValueError("Expected a time after display_start_ms - at `$.display_end_ms`")
    links = [record.promotion_url, record.paid_coupon_url, *(each.url for each in record.items)]
    if any("pid" in parse_qs(urlsplit(link).query) for link in links):
        raise ValueError("Expected links without pid: each caller's own is put in")
    return record
