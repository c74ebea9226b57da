"""The stored material behind an answer."""

from typing import NamedTuple

from sqlalchemy import LargeBinary, bindparam, cast, func, literal_column, select

from tollway.operations.promotion_material.schema import promotion_material
from tollway.store.database import Database
from tollway.store.query import JointQuery, Query

# Only what is on display. A promotion id has hundreds of materials, not millions: skipping to a
# page costs little, and which of them are on display changes with every second.
_page = (
    select(promotion_material.c.ready)
    .where(
        promotion_material.c.promotion_id == bindparam("wanted"),
        promotion_material.c.display_start_ms <= bindparam("now_ms"),
        promotion_material.c.display_end_ms > bindparam("now_ms"),
    )
    .order_by(promotion_material.c.display_start_ms.desc(), promotion_material.c.id.desc())
    .limit(bindparam("count"))
    .offset(bindparam("skip"))
    .subquery()
)
_between = bindparam("between", b",", type_=LargeBinary)
# All in one piece: a row for each material would cost more than the material.
_PAGE = JointQuery(
    lambda: select(cast(func.group_concat(_page.c.ready, _between), LargeBinary)),
    lambda: select(func.string_agg(_page.c.ready, _between)),
)


# A promotion id that has more than this is read page by page.
_MATERIALS_MAX = 2000
_BYTES_MAX = 1024 * 1024

_not_ended = (
    promotion_material.c.promotion_id == bindparam("wanted"),
    promotion_material.c.display_end_ms > bindparam("now_ms"),
)
_some = (
    select(func.length(promotion_material.c.ready).label("bytes"))
    .where(*_not_ended)
    .limit(literal_column(str(_MATERIALS_MAX + 1)))
    .subquery()
)
_SIZE = Query(
    lambda: select(func.count(), func.coalesce(func.sum(_some.c.bytes), 0)).select_from(_some)
)
_NOT_ENDED = Query(
    lambda: (
        select(
            promotion_material.c.display_start_ms,
            promotion_material.c.display_end_ms,
            promotion_material.c.ready,
        )
        .where(*_not_ended)
        .order_by(promotion_material.c.display_start_ms.desc(), promotion_material.c.id.desc())
    )
)


class StoredMaterial(NamedTuple):
    """When a material is on display, and how it is answered."""

    start_ms: int
    end_ms: int
    ready: bytes


async def read_promotion(
    database: Database, promotion_id: int, now_ms: int
) -> list[StoredMaterial] | None:
    """All materials of a promotion id that have not ended, the newest first; None if there are too
    many to read again after every change."""
    size = await database.fetch_one(_SIZE, wanted=promotion_id, now_ms=now_ms)
    assert size is not None
    count, all_bytes = size
    if count > _MATERIALS_MAX or all_bytes > _BYTES_MAX:
        return None
    rows = await database.fetch_all(_NOT_ENDED, wanted=promotion_id, now_ms=now_ms)
    return list(map(StoredMaterial._make, rows))


async def read_page(
    database: Database, promotion_id: int, now_ms: int, *, page: int, size: int
) -> bytes:
    """One page of what is on display now, ready, the newest first, with commas between them."""
    row = await database.fetch_one(
        _PAGE,
        wanted=promotion_id,
        now_ms=now_ms,
        count=size,
        skip=(page - 1) * size,
    )
    return (row and row[0]) or b""
