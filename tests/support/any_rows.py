"""Rows of some table, which show whether a write was done: any table will do."""

from sqlalchemy import bindparam, func, select

from tollway.operations.product_analysis.schema import product
from tollway.store.database import Reader
from tollway.store.query import Query

ADD = Query(
    product.insert().values(
        product_id=bindparam("product_id"), title="t", picture_url="", shop_name="s"
    )
)
COUNT = Query(select(func.count()).select_from(product))


async def stored(reader: Reader) -> int:
    """How many rows there are."""
    row = await reader.fetch_one(COUNT)
    assert row is not None
    (count,) = row
    return int(count)
