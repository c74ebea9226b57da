"""The one way by which orders are stored, whether imported, pushed or made up.

Of several versions of an order the one updated last stays, whatever order they arrive in; one that
is as old as the stored one, or older, changes nothing. How many orders each hour and day has is
kept in the same transaction, so that it is true at every moment.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    Integer,
    String,
    bindparam,
    column,
    literal_column,
    select,
    tuple_,
    values,
)
from sqlalchemy.dialects.postgresql import insert

from tollway.intake.order_record import OrderRow, checked_record, row_of
from tollway.store.database import Transaction
from tollway.store.order_facets import ALL, DAY_HOURS, HOUR_MS, facets_of
from tollway.store.order_tables import order_count, shop_order
from tollway.store.query import Query
from tollway.store.sealing import Sealer

# How many orders an import commits at once: enough that the commit itself costs little, few enough
# that a gateway which serves meanwhile waits for it unnoticed.
CHUNK_ORDERS = 5000
_ASKED_AT_ONCE = 200


class _Stored(NamedTuple):
    """What must be known of an order that is there already."""

    owner_id: str
    order_sn: str
    updated_ms: int
    newest_first: int
    remark_tag: int | None
    remark_tag_name: str | None


Key = tuple[str, str]  # owner, order number
Bucket = tuple[str, str, int, int]  # owner, facet, hours, number of the span

# Locked, so that what is decided by them is still true when it is written. An order that another
# transaction brings at the same moment is met when it is put, and all is done once more.
#
# A join with a list of keys, and not `IN`: with a long list there, SQLite would rather go through
# all orders of the owner.
_asked = (
    values(column("owner_id", String), column("order_sn", String))
    .data([(bindparam(f"owner_{n}"), bindparam(f"sn_{n}")) for n in range(_ASKED_AT_ONCE)])
    .cte("asked")
)
_STORED = Query(
    select(*(shop_order.c[name] for name in _Stored._fields))
    .join_from(
        _asked,
        shop_order,
        (shop_order.c.owner_id == _asked.c.owner_id) & (shop_order.c.order_sn == _asked.c.order_sn),
    )
    .with_for_update(of=shop_order)
)
_put = insert(shop_order).values({c.name: bindparam(c.name) for c in shop_order.c})
_PUT = Query(_put)
_PUT_IF_NEW = Query(_put.on_conflict_do_nothing())
_REMOVE = Query(
    shop_order.delete().where(
        shop_order.c.owner_id == bindparam("owner"), shop_order.c.order_sn == bindparam("sn")
    )
)
_key = (shop_order.c.owner_id, shop_order.c.newest_first, shop_order.c.order_sn)
_REMOVE_OLD = Query(
    shop_order.delete()
    .where(
        tuple_(*_key).in_(
            select(*_key)
            .where(
                shop_order.c.owner_id == bindparam("owner"),
                shop_order.c.newest_first > -bindparam("before_ms", type_=BigInteger),
            )
            # So that two who come by the same orders do so one after the other.
            .order_by(*_key)
            .limit(bindparam("most", type_=Integer))
        )
    )
    .returning(*(shop_order.c[name] for name in _Stored._fields))
)
_insert_count = insert(order_count).values({c.name: bindparam(c.name) for c in order_count.c})
_COUNT_UP = Query(
    _insert_count.on_conflict_do_update(
        index_elements=list(order_count.primary_key.columns),
        set_={"orders": order_count.c.orders + _insert_count.excluded.orders},
    )
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


class _KnownAlreadyError(Exception):
    """Some of the orders are there; nothing of the attempt stays."""


class Orders:
    """The loader of orders."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self._expects_new = True

    def check(self, values: dict[str, object]) -> OrderRow:
        # Sealed here and not when stored, so that nobody waits for it while the database is held.
        return row_of(checked_record(values), self._sealer)

    async def store(self, transaction: Transaction, records: Sequence[OrderRow]) -> int:
        """Stores what is newer than what is there; tells how many orders that were."""
        newest: dict[Key, OrderRow] = {}
        for row in records:
            key = (row.owner_id, row.order_sn)
            rival = newest.get(key)
            if rival is None or rival.updated_ms < row.updated_ms:
                newest[key] = row
        # Most files are all new, or loaded a second time. A wrong guess costs time, and no more.
        if self._expects_new:
            try:
                return await _put_new(transaction, newest)
            except _KnownAlreadyError:
                pass
        stored = await _stored(transaction, newest)
        self._expects_new = not stored
        return await _put_newer(transaction, newest, stored)


async def _put_new(transaction: Transaction, orders: Mapping[Key, OrderRow]) -> int:
    """Stores orders of which none may be there yet. Looking for each of them first would take
    longer, and, where the engine maps the file, bring ever more of it into memory."""
    # In the order of the key, which spares the engine half of its way.
    coming = sorted(orders.values())
    async with transaction.savepoint():
        if await transaction.execute_many(_PUT_IF_NEW, coming) < len(coming):
            raise _KnownAlreadyError
    await _recount(transaction, _counted(coming))
    return len(coming)


async def remove_old(transaction: Transaction, owner_id: str, before_ms: int, most: int) -> int:
    """Removes some orders of an owner that were confirmed earlier; how many that were."""
    removed = await transaction.fetch_all(
        _REMOVE_OLD, owner=owner_id, before_ms=before_ms, most=most
    )
    counts: Counter[Bucket] = Counter()
    counts.subtract(_counted(map(_Stored._make, removed)))
    await _recount(transaction, counts)
    return len(removed)


async def _put_newer(
    transaction: Transaction, orders: Mapping[Key, OrderRow], stored: Mapping[Key, _Stored]
) -> int:
    """Stores those orders that are newer than the stored ones."""
    coming = sorted(
        row
        for key, row in orders.items()
        if (old := stored.get(key)) is None or old.updated_ms < row.updated_ms
    )
    leaving = [
        old for row in coming if (old := stored.get((row.owner_id, row.order_sn))) is not None
    ]
    await transaction.execute_many(_REMOVE, [(old.owner_id, old.order_sn) for old in leaving])
    await transaction.execute_many(_PUT, coming)
    counts = _counted(coming)
    counts.subtract(_counted(leaving))
    await _recount(transaction, counts)
    return len(coming)


async def _stored(transaction: Transaction, keys: Iterable[Key]) -> dict[Key, _Stored]:
    """The orders that are there already among these."""
    found = {}
    waiting = iter(keys)
    while asked := list(islice(waiting, _ASKED_AT_ONCE)):
        # The query has a fixed number of places; those left over ask for the last one again.
        asked.extend([asked[-1]] * (_ASKED_AT_ONCE - len(asked)))
        owners = {f"owner_{n}": owner for n, (owner, _) in enumerate(asked)}
        numbers = {f"sn_{n}": order_sn for n, (_, order_sn) in enumerate(asked)}
        for row in await transaction.fetch_all(_STORED, **owners, **numbers):
            old = _Stored._make(row)
            found[old.owner_id, old.order_sn] = old
    return found


def _counted(orders: Iterable[OrderRow | _Stored]) -> Counter[Bucket]:
    """How many orders fall into each bucket."""
    hours: Counter[tuple[str, str, int]] = Counter()
    for order in orders:
        owner, hour = order.owner_id, -order.newest_first // HOUR_MS
        if order.remark_tag is None and order.remark_tag_name is None:
            hours[owner, ALL, hour] += 1
        else:
            for facet in facets_of(order.remark_tag, order.remark_tag_name):
                hours[owner, facet, hour] += 1
    counts: Counter[Bucket] = Counter()
    for (owner, facet, hour), count in hours.items():
        counts[owner, facet, 1, hour] = count
        counts[owner, facet, DAY_HOURS, hour // DAY_HOURS] += count
    return counts


async def _recount(transaction: Transaction, counts: Counter[Bucket]) -> None:
    more = [(*bucket, count) for bucket, count in sorted(counts.items()) if count > 0]
    fewer = [(bucket, -count) for bucket, count in sorted(counts.items()) if count < 0]
    await transaction.execute_many(_COUNT_UP, more)
    await transaction.execute_many(_COUNT_DOWN, [(count, *bucket) for bucket, count in fewer])
    await transaction.execute_many(_FORGET_EMPTY, [bucket for bucket, _ in fewer])
