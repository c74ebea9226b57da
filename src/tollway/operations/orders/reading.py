"""One page of orders, and how many there are: one statement, whatever is asked for.

The days and hours that are counted tell the total and the hour in which the page begins; from there
its orders are one run of neighbours in an index.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    and_,
    bindparam,
    cast,
    func,
    null,
    select,
    true,
)

from tollway.store.database import Database, Row
from tollway.store.order_facets import DAY_HOURS, DAY_MS, HOUR_MS, facet_of
from tollway.store.order_tables import order_count, shop_order
from tollway.store.paging import counts_of, start_in, taken_apart, the_only, total_of, TAKE
from tollway.store.query import Query


class Filter(NamedTuple):
    """Which orders of a shop are asked for: those from start up to, not including, end."""

    owner_id: str
    start_ms: int
    end_ms: int
    tag: int | None
    tag_name: str | None


class OrderFacts(NamedTuple):
    """A stored order."""

    order_sn: str
    newest_first: int
    status: int
    province: str
    city: str
    town: str
    goods_name: str
    goods_img: str
    goods_spec: str
    goods_count: int
    is_pre_sale: int
    last_ship_ms: int
    pay_fen: int
    remark: str | None
    remark_tag: int | None
    remark_tag_name: str | None
    sealed: bytes


_FACTS = [shop_order.c[name] for name in OrderFacts._fields]
_LISTING = (shop_order.c.newest_first, shop_order.c.order_sn)


def _conditions(with_tag: bool, with_name: bool) -> list[ColumnElement[bool]]:
    """Which orders, whenever they were confirmed."""
    conditions = [shop_order.c.owner_id == bindparam("owner")]
    if with_tag:
        conditions.append(shop_order.c.remark_tag == bindparam("tag"))
    if with_name:
        conditions.append(shop_order.c.remark_tag_name == bindparam("tag_name"))
    return conditions


def _part(conditions: list[ColumnElement[bool]], name: str) -> Select[Any]:
    """A part of an hour as a bucket, counted order by order."""
    after, up_to = bindparam(f"{name}_after"), bindparam(f"{name}_up_to")
    return (
        select(cast(after, BigInteger).label("after"), func.count().label("listed"), _NO_DAY)
        .select_from(shop_order)
        .where(
            *conditions,
            shop_order.c.newest_first > after,
            shop_order.c.newest_first <= up_to,
        )
    )


_NO_DAY = cast(null(), BigInteger).label("day")


def _hours(first: Any, last: Any) -> Select[Any]:
    return select(
        (-HOUR_MS * (order_count.c.bucket + 1)).label("after"),
        order_count.c.orders.label("listed"),
        _NO_DAY,
    ).where(*_counted(1, first, last))


def _days(first: Any, last: Any) -> Select[Any]:
    return select(
        (-DAY_MS * (order_count.c.bucket + 1)).label("after"),
        order_count.c.orders.label("listed"),
        order_count.c.bucket.label("day"),
    ).where(*_counted(DAY_HOURS, first, last))


def _counted(hours: int, first: Any, last: Any) -> list[ColumnElement[bool]]:
    return [
        order_count.c.owner_id == bindparam("owner"),
        order_count.c.facet == bindparam("of_facet"),
        order_count.c.hours == hours,
        order_count.c.bucket >= first,
        order_count.c.bucket < last,
    ]


def page_of(keys: Select[Any], total: Any) -> Query:
    """The total, and the orders of one page, given the query for its keys.

    The keys first, from an index alone; then the orders by their keys. Asked for at once, an engine
    may rather walk through all orders of the shop in their order, looking for a rare tag.
    """
    page = keys.order_by(*_LISTING).limit(TAKE).cte("page")
    alone = select(total.label("total")).cte("alone")
    same = [column == page.c[column.name] for column in _LISTING]
    return Query(
        select(*_FACTS, alone.c.total)
        .select_from(alone)
        .outerjoin(page, true())
        .outerjoin(shop_order, and_(shop_order.c.owner_id == bindparam("owner"), *same))
        .order_by(page.c.newest_first, page.c.order_sn)
    )


def _page(with_tag: bool, with_name: bool) -> Query:
    conditions = _conditions(with_tag, with_name)
    window = counts_of(
        "window_counts",
        _part(conditions, "newest"),
        _hours(bindparam("newer_first"), bindparam("newer_last")),
        _days(bindparam("first_day"), bindparam("last_day")),
        _hours(bindparam("older_first"), bindparam("older_last")),
        _part(conditions, "oldest"),
    )
    start = start_in("start", window)
    # A day is gone through by its hours.
    day = the_only(start.c.day)
    hours = counts_of(
        "hour_counts",
        select(start.c.after, start.c.listed).where(start.c.day.is_(None)),
        select(
            (-HOUR_MS * (order_count.c.bucket + 1)).label("after"),
            order_count.c.orders.label("listed"),
        ).where(*_counted(1, day * DAY_HOURS, (day + 1) * DAY_HOURS)),
    )
    begin = start_in("begin", hours, the_only(start.c.skip))
    keys = (
        select(*_LISTING)
        .where(
            *conditions,
            shop_order.c.newest_first > the_only(begin.c.after),
            shop_order.c.newest_first <= bindparam("oldest_up_to"),
        )
        .offset(func.coalesce(the_only(begin.c.skip), 0))
    )
    return page_of(keys, total_of(window))


# One query for each way to filter by tag, so that each has its own index.
_PAGES = {
    (with_tag, with_name): _page(with_tag, with_name)
    for with_tag in (False, True)
    for with_name in (False, True)
}


async def read_page(
    database: Database, wanted: Filter, offset: int, size: int
) -> tuple[int, Sequence[OrderFacts]]:
    """The exact total, and the orders of a page."""
    hours = taken_apart(wanted.start_ms, wanted.end_ms, HOUR_MS)
    days = taken_apart(*hours.whole, DAY_HOURS)
    rows = await database.fetch_all(
        _PAGES[wanted.tag is not None, wanted.tag_name is not None],
        owner=wanted.owner_id,
        of_facet=facet_of(wanted.tag, wanted.tag_name),
        tag=wanted.tag,
        tag_name=wanted.tag_name,
        newest_after=-hours.newest[1],
        newest_up_to=-hours.newest[0],
        newer_first=days.newest[0],
        newer_last=days.newest[1],
        first_day=days.whole[0],
        last_day=days.whole[1],
        older_first=days.oldest[0],
        older_last=days.oldest[1],
        oldest_after=-hours.oldest[1],
        oldest_up_to=-hours.oldest[0],
        offset=offset,
        take=size,
    )
    return told(rows)


def told(rows: Sequence[Row]) -> tuple[int, Sequence[OrderFacts]]:
    """The total stands in every row; a row without an order is there for the total alone."""
    return rows[0][-1], [OrderFacts._make(row[:-1]) for row in rows if row[0] is not None]
