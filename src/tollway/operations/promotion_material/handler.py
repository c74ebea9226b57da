"""The work of promotion material: reads what is on display and puts the caller's slot in the links.

Nothing is cached: what is on display depends on the moment, and the links on the caller.
"""

from collections.abc import Callable
from time import time

from tollway.contract.envelope import encode_data
from tollway.contract.operation import CallInfo
from tollway.operations.promotion_material.operation import (
    Benefit,
    Benefits,
    Extension,
    Material,
    Materials,
    PaidCoupon,
    PromotionMaterial,
    PromotionMaterialRequest,
    RecommendedItem,
    RecommendedItems,
    Result,
)
from tollway.operations.promotion_material.queries import (
    StoredMaterial,
    benefits_of,
    items_of,
    read_page,
)
from tollway.store.database import Database


class PromotionMaterialHandler:
    """Answers promotion material from one database."""

    def __init__(self, database: Database, now_s: Callable[[], float] = time) -> None:
        self._database = database
        self._now_s = now_s

    async def __call__(self, request: PromotionMaterialRequest, call: CallInfo) -> bytes:
        page = await read_page(
            self._database,
            request.promotion_id,
            int(self._now_s() * 1000),
            page=request.page_num,
            size=request.page_size,
        )
        slot = f"mm_{request.platform_user_id}_{request.site_id}_{request.adzone_id}"
        materials = Materials([_material(stored, slot) for stored in page])
        return encode_data(PromotionMaterial(call.price, Result(materials)))


def _material(stored: StoredMaterial, slot: str) -> Material:
    return Material(
        promotion_type=stored.promotion_type,
        condition_type=stored.condition_type,
        discount_type=stored.discount_type,
        total_count=stored.total_count,
        remain_count=stored.remain_count,
        display_start_time=str(stored.display_start_ms),
        display_end_time=str(stored.display_end_ms),
        promotion_list=Benefits(
            [
                Benefit(
                    str(each.start_ms), str(each.end_ms), str(each.condition), str(each.discount)
                )
                for each in benefits_of(stored)
            ]
        ),
        promotion_extend=_extension(stored, slot),
        seller_id=stored.seller_id,
        nick=stored.nick,
        shop_title=stored.shop_title,
        shop_picture_url=stored.shop_picture_url,
    )


def _extension(stored: StoredMaterial, slot: str) -> Extension:
    items = [RecommendedItem(each.item_id, with_slot(each.url, slot)) for each in items_of(stored)]
    coupon = PaidCoupon(stored.paid_coupon_item_id, with_slot(stored.paid_coupon_url, slot))
    return Extension(RecommendedItems(items), coupon, with_slot(stored.promotion_url, slot))


def with_slot(url: str, slot: str) -> str:
    """The link with the slot in its query; an empty link stays empty."""
    if not url:
        return ""
    address, hash_sign, fragment = url.partition("#")
    separator = "&" if "?" in address else "?"
    return f"{address}{separator}pid={slot}{hash_sign}{fragment}"
