"""The stored material behind an answer."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import bindparam, select

from tollway.operations.promotion_material.schema import promotion_material
from tollway.store.database import Database
from tollway.store.query import Query


class StoredBenefit(msgspec.Struct, frozen=True):
    start_ms: int
    end_ms: int
    condition: int
    discount: int


class StoredItem(msgspec.Struct, frozen=True):
    item_id: int
    url: str


class StoredMaterial(msgspec.Struct, frozen=True):
    """One row; `benefits` and `items` are JSON, see the table."""

    promotion_type: str
    condition_type: str
    discount_type: str
    total_count: int
    remain_count: int
    display_start_ms: int
    display_end_ms: int
    seller_id: str
    nick: str
    shop_title: str
    shop_picture_url: str
    promotion_url: str
    paid_coupon_item_id: str
    paid_coupon_url: str
    benefits: str
    items: str


# Only what is on display. A promotion id has hundreds of materials, not millions: skipping to a
# page costs little, and which of them are on display changes with every second.
_PAGE = Query(
    select(*(promotion_material.c[name] for name in StoredMaterial.__struct_fields__))
    .where(
        promotion_material.c.promotion_id == bindparam("wanted"),
        promotion_material.c.display_start_ms <= bindparam("now_ms"),
        promotion_material.c.display_end_ms > bindparam("now_ms"),
    )
    .order_by(promotion_material.c.display_start_ms.desc(), promotion_material.c.id.desc())
    .limit(bindparam("count"))
    .offset(bindparam("skip"))
)
_benefits = msgspec.json.Decoder(list[StoredBenefit])
_items = msgspec.json.Decoder(list[StoredItem])


async def read_page(
    database: Database, promotion_id: int, now_ms: int, *, page: int, size: int
) -> Sequence[StoredMaterial]:
    """One page of what is on display now, the newest first."""
    rows = await database.fetch_all(
        _PAGE, wanted=promotion_id, now_ms=now_ms, count=size, skip=(page - 1) * size
    )
    return [StoredMaterial(*row) for row in rows]


def benefits_of(stored: StoredMaterial) -> list[StoredBenefit]:
    return _benefits.decode(stored.benefits)


def items_of(stored: StoredMaterial) -> list[StoredItem]:
    return _items.decode(stored.items)
