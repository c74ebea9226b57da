"""Promotion material: the records of such a file, and where they are stored.

One record is one material of one promotion id, with its benefits and recommended items inside, so
such a file is JSON Lines. A later record of the same material replaces the earlier one.
"""

from collections.abc import Sequence
from typing import Annotated, Literal
from urllib.parse import parse_qs, urlsplit

import msgspec
from sqlalchemy import bindparam, or_
from sqlalchemy.dialects.postgresql import insert

from tollway.store.database import Transaction
from tollway.store.promotion_tables import promotion_material
from tollway.store.query import Query

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


_insert = insert(promotion_material).values(
    {column.name: bindparam(column.name) for column in promotion_material.c}
)
_said = [column for column in promotion_material.c if not column.primary_key]
_UPSERT = Query(
    _insert.on_conflict_do_update(
        index_elements=["promotion_id", "id"],
        set_={column.name: _insert.excluded[column.name] for column in _said},
        where=or_(*(column.is_distinct_from(_insert.excluded[column.name]) for column in _said)),
    )
)


class PromotionMaterials:
    """The loader of promotion material."""

    months = None
    owner_of = None

    def check(self, values: dict[str, object]) -> MaterialRecord:
        record = msgspec.convert(values, MaterialRecord, strict=False)
        if record.remain_count > record.total_count:
            raise ValueError("Expected no more than total_count - at `$.remain_count`")
        if record.display_start_ms >= record.display_end_ms:
            raise ValueError("Expected a time after display_start_ms - at `$.display_end_ms`")
        links = [record.promotion_url, record.paid_coupon_url, *(each.url for each in record.items)]
        if any("pid" in parse_qs(urlsplit(link).query) for link in links):
            raise ValueError("Expected links without pid: each caller's own is put in")
        return record

    async def store(self, transaction: Transaction, records: Sequence[MaterialRecord]) -> int:
        return await transaction.execute_many(_UPSERT, map(_row, records))


def _row(record: MaterialRecord) -> dict[str, object]:
    row = msgspec.structs.asdict(record)
    row["benefits"] = msgspec.json.encode(record.benefits).decode()
    row["items"] = msgspec.json.encode(record.items).decode()
    return row
