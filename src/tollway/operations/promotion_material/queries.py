"""The stored material behind an answer."""

from collections.abc import Sequence

from sqlalchemy import bindparam, select

from tollway.operations.promotion_material.schema import promotion_material
from tollway.store.database import Database
from tollway.store.query import Query

# Only what is on display. A promotion id has hundreds of materials, not millions: skipping to a
# page costs little, and which of them are on display changes with every second.
_PAGE = Query(
    select(promotion_material.c.ready)
    .where(
        promotion_material.c.promotion_id == bindparam("wanted"),
        promotion_material.c.display_start_ms <= bindparam("now_ms"),
        promotion_material.c.display_end_ms > bindparam("now_ms"),
    )
    .order_by(promotion_material.c.display_start_ms.desc(), promotion_material.c.id.desc())
    .limit(bindparam("count"))
    .offset(bindparam("skip"))
)


async def read_page(
    database: Database, promotion_id: int, now_ms: int, *, page: int, size: int
) -> Sequence[bytes]:
    """One page of what is on display now, ready, the newest first."""
    rows = await database.fetch_all(
        _PAGE, wanted=promotion_id, now_ms=now_ms, count=size, skip=(page - 1) * size
    )
    return [row[0] for row in rows]
