"""The stored material behind an answer."""

from sqlalchemy import LargeBinary, bindparam, cast, func, select

from tollway.operations.promotion_material.schema import promotion_material
from tollway.store.database import Database
from tollway.store.query import JointQuery

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
# All in one piece: a row for each would cost more than the material.
_PAGES = {
    "sqlite": JointQuery(select(cast(func.group_concat(_page.c.ready, _between), LargeBinary))),
    "postgresql": JointQuery(select(func.string_agg(_page.c.ready, _between))),
}


async def read_page(
    database: Database, promotion_id: int, now_ms: int, *, page: int, size: int
) -> bytes:
    """One page of what is on display now, ready, the newest first, with commas between them."""
    row = await database.fetch_one(
        _PAGES[database.dialect],
        wanted=promotion_id,
        now_ms=now_ms,
        count=size,
        skip=(page - 1) * size,
    )
    return (row and row[0]) or b""
