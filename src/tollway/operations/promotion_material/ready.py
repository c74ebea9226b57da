"""A promotion material as it is answered: encoded once, when it is stored.

Its links carry the slot of each caller. A NUL, which JSON never contains, marks where it goes.
"""

import os

from tollway.contract.envelope import encode_data
from tollway.operations.promotion_material.operation import (
    Benefit,
    Benefits,
    Extension,
    Material,
    PaidCoupon,
    RecommendedItem,
    RecommendedItems,
)
from tollway.operations.promotion_material.records import MaterialRecord

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
