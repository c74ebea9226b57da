"""One promotion material as it comes in, with its benefits and recommended items inside; and ready,
as it is answered: encoded once, when it is stored.

The links of a ready material carry the slot of each caller. A NUL, which JSON never contains, marks
where it goes.
"""

import os
from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import parse_qs, urlsplit

import msgspec

from tollway.contract.envelope import encode_data
from tollway.intake.record_check import RecordCheck, check_since_2000
from tollway.intake.record_fields import (
    MILLISECONDS_OR_ZERO,
    Id,
    IdOrEmpty,
    MillisecondsOrZero,
    Name,
    Number,
    Url,
)
from tollway.intake.record_problems import RecordError
from tollway.operations.promotion_material.operation import (
    Benefit,
    Benefits,
    Extension,
    Material,
    PaidCoupon,
    RecommendedItem,
    RecommendedItems,
)

PromotionType = Literal["1", "2", "3", "4"]
_LIST_MAX = msgspec.Meta(max_length=200)


class BenefitRecord(msgspec.Struct, frozen=True):
    """Threshold and face value in cents; pieces or percent where the material's types say so."""

    start_ms: MillisecondsOrZero
    end_ms: MillisecondsOrZero
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
    display_start_ms: MillisecondsOrZero
    display_end_ms: MillisecondsOrZero
    seller_id: Id
    nick: Name
    shop_title: Name
    promotion_url: Url
    shop_picture_url: Url = ""
    paid_coupon_item_id: IdOrEmpty = ""
    paid_coupon_url: Url = ""
    benefits: Annotated[list[BenefitRecord], _LIST_MAX] = []
    items: Annotated[list[ItemRecord], _LIST_MAX] = []


_check = RecordCheck(MaterialRecord)


def checked_material(values: dict[str, object]) -> MaterialRecord:
    """The typed record; raises RecordError if it is wrong."""
    record = _check(values)
    if record.remain_count > record.total_count:
        raise RecordError("remain_count", "it is more than total_count", "a number that is not")
    for field, at_ms in _times(record):
        check_since_2000(field, at_ms / 1000, MILLISECONDS_OR_ZERO)
    if record.display_start_ms >= record.display_end_ms:
        raise RecordError("display_end_ms", "it is not after display_start_ms", "a later time")
    for number, benefit in enumerate(record.benefits):
        # An end of 0 is none.
        if 0 < benefit.end_ms < benefit.start_ms:
            field = f"benefits[{number}].end_ms"
            raise RecordError(field, "it is before start_ms", "a later time")
    for field, link in _links(record):
        problem = _link_problem(link)
        if problem:
            expected = "a whole address without pid: each caller's own is put in"
            raise RecordError(field, problem, expected)
    return record


def _times(record: MaterialRecord) -> Iterator[tuple[str, int]]:
    yield "display_start_ms", record.display_start_ms
    yield "display_end_ms", record.display_end_ms
    for number, benefit in enumerate(record.benefits):
        yield f"benefits[{number}].start_ms", benefit.start_ms
        yield f"benefits[{number}].end_ms", benefit.end_ms


def _link_problem(link: str) -> str:
    try:
        parameters = parse_qs(urlsplit(link).query, keep_blank_values=True)
    except ValueError:
        return "it is not an address"
    return "it has the parameter pid" if "pid" in parameters else ""


def _links(record: MaterialRecord) -> Iterator[tuple[str, str]]:
    yield "promotion_url", record.promotion_url
    yield "paid_coupon_url", record.paid_coupon_url
    for number, item in enumerate(record.items):
        yield f"items[{number}].url", item.url


_MARK = b"\0"
# Stands for the mark while a record is encoded. Random, so that no text contains it.
_SLOT = os.urandom(16).hex()


def ready_material(record: MaterialRecord) -> bytes:
    """The material as it is answered, marked where a slot goes."""
    material = Material(
        promotion_type=record.promotion_type,
        condition_type=record.condition_type,
        discount_type=record.discount_type,
        total_count=record.total_count,
        remain_count=record.remain_count,
        display_start_time=str(record.display_start_ms),
        display_end_time=str(record.display_end_ms),
        promotion_list=Benefits(
            [
                Benefit(
                    str(each.start_ms), str(each.end_ms), str(each.condition), str(each.discount)
                )
                for each in record.benefits
            ]
        ),
        promotion_extend=_extension(record),
        seller_id=record.seller_id,
        nick=record.nick,
        shop_title=record.shop_title,
        shop_picture_url=record.shop_picture_url,
    )
    return encode_data(material).replace(_SLOT.encode(), _MARK)


def with_slots(ready: bytes, slot: str) -> bytes:
    """The materials of a page, with the caller's slot in the links."""
    return ready.replace(_MARK, slot.encode())


def _extension(record: MaterialRecord) -> Extension:
    items = [RecommendedItem(each.item_id, with_slot(each.url, _SLOT)) for each in record.items]
    coupon = PaidCoupon(record.paid_coupon_item_id, with_slot(record.paid_coupon_url, _SLOT))
    return Extension(RecommendedItems(items), coupon, with_slot(record.promotion_url, _SLOT))


def with_slot(url: str, slot: str) -> str:
    """The link with the slot in its query; an empty link stays empty."""
    if not url:
        return ""
    address, hash_sign, fragment = url.partition("#")
    separator = "&" if "?" in address else "?"
    return f"{address}{separator}pid={slot}{hash_sign}{fragment}"
