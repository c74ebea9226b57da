"""Where a page lies, and its orders.

The counts per day and hour tell the total and the hour in which a page begins; from there its
orders are one run of neighbours in an index. A window's ends may cut an hour in two: only of such
an hour the orders themselves are counted.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, select

from tollway.store.database import Database, Row
from tollway.store.order_facets import DAY_HOURS, DAY_MS, HOUR_MS, facet_of
from tollway.store.order_tables import order_count, shop_order
from tollway.store.paging import page_slices
from tollway.store.query import Query


class Filter(NamedTuple):
    """Which orders of a shop are asked for: those from start up to, not including, end."""

    owner_id: str
    start_ms: int
    end_ms: int
    tag: int | None
    tag_name: str | None


class Stretch(NamedTuple):
    """Buckets of one width, newest first, each with how many orders it has."""

    width_ms: int
    buckets: Sequence[Row]


class Start(NamedTuple):
    """Where a page begins: so many orders after those of later buckets."""

    width_ms: int
    bucket: int
    skip: int

    @property
    def end_ms(self) -> int:
        return (self.bucket + 1) * self.width_ms


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


_COUNTS = Query(
    select(order_count.c.bucket, order_count.c.orders)
    .where(
        order_count.c.owner_id == bindparam("owner"),
        order_count.c.facet == bindparam("of_facet"),
        order_count.c.hours == bindparam("of_hours"),
        order_count.c.bucket >= bindparam("first"),
        order_count.c.bucket < bindparam("last"),
    )
    .order_by(order_count.c.bucket.desc())
)


def _tag_conditions(with_tag: bool, with_name: bool) -> list[ColumnElement[bool]]:
    conditions = []
    if with_tag:
        conditions.append(shop_order.c.remark_tag == bindparam("tag"))
    if with_name:
        conditions.append(shop_order.c.remark_tag_name == bindparam("tag_name"))
    return conditions


def _within(statement: Select[Any]) -> Select[Any]:
    return statement.where(
        shop_order.c.owner_id == bindparam("owner"),
        # The stored time is negated, so the window is turned around.
        shop_order.c.newest_first > bindparam("after"),
        shop_order.c.newest_first <= bindparam("up_to"),
    )


_FACTS = [shop_order.c[name] for name in OrderFacts._fields]
_KINDS = [(with_tag, with_name) for with_tag in (False, True) for with_name in (False, True)]
# One query for each way to filter by tag, so that each has its own index.
_COUNT_ROWS = {
    kind: Query(
        _within(select(func.count()).select_from(shop_order)).where(*_tag_conditions(*kind))
    )
    for kind in _KINDS
}
_LISTING = (shop_order.c.newest_first, shop_order.c.order_sn)


def page_of(keys: Select[Any]) -> Query:
    """The orders of one page, given the query for all keys in question.

    The keys first, from an index alone; then the orders by their keys. Asked for at once, an engine
    may rather walk through all orders of the shop in their order, looking for a rare tag.
    """
    page = keys.order_by(*_LISTING).limit(bindparam("take")).offset(bindparam("skip")).cte("page")
    same = [column == page.c[column.name] for column in _LISTING]
    return Query(
        select(*_FACTS)
        .join_from(page, shop_order, and_(*same))
        .where(shop_order.c.owner_id == bindparam("owner"))
        .order_by(*_LISTING)
    )


_ROWS = {
    kind: page_of(_within(select(*_LISTING)).where(*_tag_conditions(*kind))) for kind in _KINDS
}
# Without a tag the orders already lie in the order of listing.
_ROWS[False, False] = Query(
    _within(select(*_FACTS)).order_by(*_LISTING).limit(bindparam("take")).offset(bindparam("skip"))
)


class OrderReader:
    """Reads the orders of one filter from one database."""

    def __init__(self, database: Database, wanted: Filter) -> None:
        self._database = database
        self._wanted = wanted
        self._facet = facet_of(wanted.tag, wanted.tag_name)
        self._kind = (wanted.tag is not None, wanted.tag_name is not None)

    async def page(self, offset: int, size: int) -> tuple[int, Sequence[OrderFacts]]:
        """The exact total, and the orders of a page."""
        stretches = await self._stretches()
        total = sum([orders for stretch in stretches for _, orders in stretch.buckets])
        start = _locate(stretches, offset)
        if start is not None and start.width_ms == DAY_MS:
            first = start.bucket * DAY_HOURS
            start = _locate([await self._hours(first, first + DAY_HOURS)], start.skip)
        if start is None:
            return total, []
        bounds = self._bounds(self._wanted.start_ms, start.end_ms)
        query = _ROWS[self._kind]
        rows = await self._database.fetch_all(query, **bounds, skip=start.skip, take=size)
        return total, [OrderFacts._make(row) for row in rows]

    async def _stretches(self) -> list[Stretch]:
        """The window in as few buckets as the counts allow, newest first: parts of hours at its
        ends, then hours up to a whole day, and days in between."""
        start_ms, end_ms = self._wanted.start_ms, self._wanted.end_ms
        first_hour, last_hour = -(-start_ms // HOUR_MS), end_ms // HOUR_MS
        if first_hour >= last_hour:
            return [await self._part(start_ms, end_ms)]
        first_day, last_day = -(-first_hour // DAY_HOURS), last_hour // DAY_HOURS
        if first_day >= last_day:
            middle = [await self._hours(first_hour, last_hour)]
        else:
            middle = [
                await self._hours(last_day * DAY_HOURS, last_hour),
                Stretch(DAY_MS, await self._counts(DAY_HOURS, first_day, last_day)),
                await self._hours(first_hour, first_day * DAY_HOURS),
            ]
        return [
            await self._part(last_hour * HOUR_MS, end_ms),
            *middle,
            await self._part(start_ms, first_hour * HOUR_MS),
        ]

    async def _hours(self, first: int, last: int) -> Stretch:
        return Stretch(HOUR_MS, await self._counts(1, first, last))

    async def _counts(self, hours: int, first: int, last: int) -> Sequence[Row]:
        if first >= last:
            return []
        return await self._database.fetch_all(
            _COUNTS,
            owner=self._wanted.owner_id,
            of_facet=self._facet,
            of_hours=hours,
            first=first,
            last=last,
        )

    async def _part(self, start_ms: int, end_ms: int) -> Stretch:
        """A part of an hour, counted order by order: a bucket that ends where the part does."""
        if start_ms >= end_ms:
            return Stretch(1, [])
        row = await self._database.fetch_one(
            _COUNT_ROWS[self._kind], **self._bounds(start_ms, end_ms)
        )
        assert row is not None
        return Stretch(1, [(end_ms - 1, row[0])])

    def _bounds(self, start_ms: int, end_ms: int) -> dict[str, object]:
        return {
            "owner": self._wanted.owner_id,
            "after": -end_ms,
            "up_to": -start_ms,
            "tag": self._wanted.tag,
            "tag_name": self._wanted.tag_name,
        }


def _locate(stretches: Sequence[Stretch], offset: int) -> Start | None:
    """The bucket in which the order at an offset lies, and how many of its orders come before."""
    for stretch in stretches:
        for found in page_slices(stretch.buckets, offset, 1):
            return Start(stretch.width_ms, found.bucket, found.skip)
        offset -= sum([orders for _, orders in stretch.buckets])
    return None
