"""The table of promotion material.

Benefits and recommended items are JSON inside their record: they are only ever read and replaced
with it. One row is one material, and a page is one read. `ready` is the material as it is answered,
encoded, with a NUL in place of the caller's slot in links.
"""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, String, Table

from tollway.store.schema import metadata

promotion_material = Table(
    "promotion_material",
    metadata,
    Column("promotion_id", BigInteger, primary_key=True),
    Column("id", String, primary_key=True),
    Column("promotion_type", String, nullable=False),
    Column("condition_type", String, nullable=False),
    Column("discount_type", String, nullable=False),
    Column("total_count", BigInteger, nullable=False),
    Column("remain_count", BigInteger, nullable=False),
    Column("display_start_ms", BigInteger, nullable=False),
    Column("display_end_ms", BigInteger, nullable=False),
    Column("seller_id", String, nullable=False),
    Column("nick", String, nullable=False),
    Column("shop_title", String, nullable=False),
    Column("shop_picture_url", String, nullable=False),
    Column("promotion_url", String, nullable=False),
    Column("paid_coupon_item_id", String, nullable=False),
    Column("paid_coupon_url", String, nullable=False),
    Column("benefits", String, nullable=False),
    Column("items", String, nullable=False),
    Column("ready", LargeBinary, nullable=False),
    Index("promotion_material_display", "promotion_id", "display_start_ms", "id"),
    sqlite_with_rowid=False,
)
