"""Where a page lies, and its orders.

The counts per day and hour tell the total and the hour in which a page begins; from there its
orders are one run of neighbours in an index. A window's ends may cut an hour in two: only of such
an hour the orders themselves are counted.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, bindparam, func, select

from tollway.store.database import Database, Row
from tollway.store.order_facets import DAY_HOURS, HOUR_MS, facet_of
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


class Span(NamedTuple):
    """A stretch of time and how many orders it has; `day` if it is one that has hours."""

    end_ms: int
    orders: int
    day: int | None = None


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
_ROWS = {
    kind: Query(
        _within(select(*_FACTS))
        .where(*_tag_conditions(*kind))
        .order_by(shop_order.c.newest_first, shop_order.c.order_sn)
        .limit(bindparam("take"))
        .offset(bindparam("skip"))
    )
    for kind in _KINDS
}


class OrderReader:
    """Reads the orders of one filter from one database."""

    def __init__(self, database: Database, wanted: Filter) -> None:
        self._database = database
        self._wanted = wanted
        self._facet = facet_of(wanted.tag, wanted.tag_name)
        self._kind = (wanted.tag is not None, wanted.tag_name is not None)

    async def page(self, offset: int, size: int) -> tuple[int, Sequence[OrderFacts]]:
        """The exact total, and the orders of a page."""
        spans = await self._spans()
        total = sum([span.orders for span in spans])
        start = _locate(spans, offset)
        if start is not None and start[0].day is not None:
            start = _locate(await self._hours_of_day(start[0].day), start[1])
        if start is None:
            return total, []
        span, skip = start
        rows = await self._database.fetch_all(
            _ROWS[self._kind],
            **self._bounds(self._wanted.start_ms, span.end_ms),
            skip=skip,
            take=size,
        )
        return total, [OrderFacts._make(row) for row in rows]

    async def _spans(self) -> list[Span]:
        """The window in as few spans as the counts allow, newest first: parts of hours at its
        ends, then hours up to a whole day, and days in between."""
        start_ms, end_ms = self._wanted.start_ms, self._wanted.end_ms
        first_hour, last_hour = -(-start_ms // HOUR_MS), end_ms // HOUR_MS
        if first_hour >= last_hour:
            return await self._part(start_ms, end_ms)
        first_day, last_day = -(-first_hour // DAY_HOURS), last_hour // DAY_HOURS
        if first_day >= last_day:
            middle = await self._hours(first_hour, last_hour)
        else:
            middle = [
                *await self._hours(last_day * DAY_HOURS, last_hour),
                *await self._days(first_day, last_day),
                *await self._hours(first_hour, first_day * DAY_HOURS),
            ]
        return [
            *await self._part(last_hour * HOUR_MS, end_ms),
            *middle,
            *await self._part(start_ms, first_hour * HOUR_MS),
        ]

    async def _days(self, first: int, last: int) -> list[Span]:
        day_ms = DAY_HOURS * HOUR_MS
        counts = await self._counts(DAY_HOURS, first, last)
        return [Span((day + 1) * day_ms, orders, day) for day, orders in counts]

    async def _hours(self, first: int, last: int) -> list[Span]:
        counts = await self._counts(1, first, last)
        return [Span((hour + 1) * HOUR_MS, orders) for hour, orders in counts]

    async def _hours_of_day(self, day: int) -> list[Span]:
        return await self._hours(day * DAY_HOURS, (day + 1) * DAY_HOURS)

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

    async def _part(self, start_ms: int, end_ms: int) -> list[Span]:
        """A part of an hour, counted order by order."""
        if start_ms >= end_ms:
            return []
        row = await self._database.fetch_one(
            _COUNT_ROWS[self._kind], **self._bounds(start_ms, end_ms)
        )
        assert row is not None
        return [Span(end_ms, row[0])]

    def _bounds(self, start_ms: int, end_ms: int) -> dict[str, object]:
        return {
            "owner": self._wanted.owner_id,
            "after": -end_ms,
            "up_to": -start_ms,
            "tag": self._wanted.tag,
            "tag_name": self._wanted.tag_name,
        }


def _locate(spans: Sequence[Span], offset: int) -> tuple[Span, int] | None:
    """The span in which the order at an offset lies, and how many orders of it come before."""
    counts = ((position, span.orders) for position, span in enumerate(spans))
    for found in page_slices(counts, offset, 1):
        return spans[found.bucket], found.skip
    return None
