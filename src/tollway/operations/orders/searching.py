"""Searching in remarks.

A remark can contain anything, so no counts help: every remark of the window is looked at. The
index behind it has the orders with a remark only, and a search runs beside the event loop, so that
a long one holds up nobody else.
"""

from collections.abc import Sequence

from sqlalchemy import Integer, String, bindparam, cast, func, or_, select

from tollway.operations.orders.reading import KEY, Filter, OrderFacts, by_key
from tollway.store.database import Database
from tollway.store.order_tables import shop_order
from tollway.store.paging import beside, told
from tollway.store.query import Query

_conditions = (
    shop_order.c.owner_id == bindparam("owner"),
    shop_order.c.newest_first > bindparam("after"),
    shop_order.c.newest_first <= bindparam("up_to"),
    shop_order.c.remark.is_not(None),
    # Exact in both engines: LIKE would need escaping, and means another case in each of them.
    func.replace(shop_order.c.remark, bindparam("part"), "") != shop_order.c.remark,
    # Whether nothing is wanted tells a server nothing of what kind of nothing that is.
    or_(cast(bindparam("tag"), Integer).is_(None), shop_order.c.remark_tag == bindparam("tag")),
    or_(
        cast(bindparam("tag_name"), String).is_(None),
        shop_order.c.remark_tag_name == bindparam("tag_name"),
    ),
)
_key = [shop_order.c[name] for name in KEY]
_keys = select(*_key).where(*_conditions).order_by(*_key)
_page = by_key(_keys.limit(bindparam("take")).offset(bindparam("offset")))
_count = select(func.count()).select_from(shop_order).where(*_conditions)
_PAGE = Query(beside(_count.scalar_subquery(), _page, KEY))


async def search_page(
    database: Database, account_id: str, wanted: Filter, part: str, offset: int, size: int
) -> tuple[int, Sequence[OrderFacts]]:
    """The exact total of orders whose remark contains a part, and those of a page."""
    values: dict[str, object] = {
        "owner": wanted.owner_id,
        "after": -wanted.end_ms,
        "up_to": -wanted.start_ms,
        "part": part,
        "tag": wanted.tag,
        "tag_name": wanted.tag_name,
    }
    found = await database.fetch_long(_PAGE, account_id, **values, offset=offset, take=size)
    total, rows = told(found)
    return total, [OrderFacts._make(row) for row in rows]
