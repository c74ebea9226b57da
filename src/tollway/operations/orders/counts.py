"""How many orders each hour and day has, of each facet, stored with the orders.

Totals and pages are taken from these counts, so they change in the same transaction as the orders.
The shop's version changes with them, so that old ones are noticed.
"""

import secrets
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Protocol

from sqlalchemy import BigInteger, and_, bindparam, func, literal_column, or_, select

from tollway.operations.orders.schema import (
    ALL,
    DAY_HOURS,
    DAY_MS,
    EVERY_OWNER,
    HOUR_MS,
    facets_of,
    order_count,
    order_version,
)
from tollway.store.database import Transaction
from tollway.store.many_rows import ManyRows, upserts
from tollway.store.query import Query, insert

_VERSION_BITS = 62

Bucket = tuple[str, str, int, int]  # owner, facet, hours, number of the span


class Counted(Protocol):
    """The fields of an order that decide where it is counted."""

    @property
    def owner_id(self) -> str: ...
    @property
    def newest_first(self) -> int: ...
    @property
    def remark_tag(self) -> int | None: ...
    @property
    def remark_tag_name(self) -> str | None: ...


_insert_count = insert(order_count).values({c.name: bindparam(c.name) for c in order_count.c})
_COUNT_UP = ManyRows(
    order_count,
    Query(
        _insert_count.on_conflict_do_update(
            index_elements=list(order_count.primary_key.columns),
            set_={"orders": order_count.c.orders + _insert_count.excluded.orders},
        )
    ),
)
_this_bucket = (
    order_count.c.owner_id == bindparam("owner"),
    order_count.c.facet == bindparam("of_facet"),
    order_count.c.hours == bindparam("of_hours"),
    order_count.c.bucket == bindparam("of_bucket"),
)
_COUNT_DOWN = Query(
    order_count.update()
    .values(orders=order_count.c.orders - bindparam("fewer"))
    .where(*_this_bucket)
)
_FORGET_EMPTY = Query(
    order_count.delete().where(*_this_bucket, order_count.c.orders == literal_column("0"))
)

_first_day, _end_day = (bindparam(name, type_=BigInteger) for name in ("first_day", "end_day"))
_of_days = and_(
    order_count.c.hours == DAY_HOURS,
    order_count.c.bucket >= _first_day,
    order_count.c.bucket < _end_day,
)
_of_their_hours = and_(
    order_count.c.hours == 1,
    order_count.c.bucket >= _first_day * DAY_HOURS,
    order_count.c.bucket < _end_day * DAY_HOURS,
)
_DAYS_TOTAL = Query(
    select(func.sum(order_count.c.orders)).where(_of_days, order_count.c.facet == ALL)
)
_FORGET_DAYS = Query(order_count.delete().where(or_(_of_days, _of_their_hours)))


def counted(orders: Collection[Counted]) -> Counter[Bucket]:
    """How many orders fall into each bucket."""
    hours = Counter([(order.owner_id, ALL, -order.newest_first // HOUR_MS) for order in orders])
    # Few orders have a tag.
    hours.update(
        (order.owner_id, facet, -order.newest_first // HOUR_MS)
        for order in orders
        if order.remark_tag is not None or order.remark_tag_name is not None
        for facet in facets_of(order.remark_tag, order.remark_tag_name)
        if facet != ALL
    )
    counts: dict[Bucket, int] = {}
    for (owner, facet, hour), count in hours.items():
        counts[owner, facet, 1, hour] = count
        day = (owner, facet, DAY_HOURS, hour // DAY_HOURS)
        counts[day] = counts.get(day, 0) + count
    return Counter(counts)


async def recount(transaction: Transaction, counts: Counter[Bucket]) -> None:
    # A fixed lock order prevents deadlocks.
    ordered = sorted(counts.items())
    more = [(*bucket, count) for bucket, count in ordered if count > 0]
    fewer = [(bucket, -count) for bucket, count in ordered if count < 0]
    await transaction.put_rows(_COUNT_UP, more)
    await transaction.execute_many(_COUNT_DOWN, [(count, *bucket) for bucket, count in fewer])
    await transaction.execute_many(_FORGET_EMPTY, [bucket for bucket, _ in fewer])
    await _give_versions(transaction, {bucket[0] for bucket, count in counts.items() if count})


async def _give_versions(transaction: Transaction, owners: Iterable[str]) -> None:
    versions = [(owner, secrets.randbits(_VERSION_BITS)) for owner in sorted(owners)]
    await transaction.put_rows(upserts(order_version), versions)


async def forget_days(transaction: Transaction, start_ms: int, end_ms: int) -> int:
    """Removes the counts of whole days, of every owner; returns how many orders they had."""
    days = {"first_day": start_ms // DAY_MS, "end_day": end_ms // DAY_MS}
    total = await transaction.fetch_one(_DAYS_TOTAL, **days)
    await transaction.execute(_FORGET_DAYS, **days)
    await _give_versions(transaction, [EVERY_OWNER])
    return int(total[0] or 0) if total else 0
