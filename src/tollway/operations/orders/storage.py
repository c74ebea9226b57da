"""Storing orders, and removing old ones by whole days, together with their counts.

Of two versions of an order the one updated last stays. The counts by hour and day change in the
same transaction, because totals and pages are computed from them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from operator import attrgetter
from time import time_ns
from typing import NamedTuple

from sqlalchemy import (
    ARRAY,
    BigInteger,
    String,
    any_,
    bindparam,
    column,
    literal_column,
    select,
    values,
)

from tollway.intake.loading import Loader
from tollway.operations.orders.batch import OrderBatch
from tollway.operations.orders.counts import (
    Bucket,
    counted,
    counted_places,
    forget_days,
    place_of,
    recount,
)
from tollway.operations.orders.records import (
    OrderRow,
    checked_record,
    good_records,
    row_of,
    rows_of,
)
from tollway.operations.orders.schema import (
    ALL_BY_DAY,
    DAY_MS,
    order_change,
    order_count,
    shop_order,
)
from tollway.operations.subject import Removal, Retained
from tollway.store.database import Database, DuplicateKeyError, Row, Transaction
from tollway.store.many_rows import upserts
from tollway.store.months import Month, MonthsOf
from tollway.store.paging import sums_by_list
from tollway.store.query import Query
from tollway.store.sealing import Sealer
from tollway.store.small_commits import delete_first

_ASKED_AT_ONCE = 200

Key = tuple[str, str]  # owner, order number
_owner_of = attrgetter("owner_id")


class StoredOrder(NamedTuple):
    """What the loader needs to know about a stored order."""

    owner_id: str
    order_sn: str
    updated_ms: int
    newest_first: int
    remark_tag: int | None
    remark_tag_name: str | None


# A join with a list of keys, not `IN`: with a long list, SQLite would scan all orders of the owner.
_found = [shop_order.c[name] for name in StoredOrder._fields]
_asked = (
    values(column("owner_id", String), column("order_sn", String))
    .data([(bindparam(f"owner_{n}"), bindparam(f"sn_{n}")) for n in range(_ASKED_AT_ONCE)])
    .cte("asked")
)
_STORED = Query(
    lambda: select(*_found).join_from(
        _asked,
        shop_order,
        (shop_order.c.owner_id == _asked.c.owner_id) & (shop_order.c.order_sn == _asked.c.order_sn),
    )
)
# One owner at a time, which scans each month's index once, however many orders are looked up.
_STORED_IN_MONTHS = Query(
    lambda: select(*_found).where(
        shop_order.c.owner_id == bindparam("owner"),
        shop_order.c.order_sn == any_(bindparam("numbers", type_=ARRAY(String))),
    )
)


async def stored_among(transaction: Transaction, keys: Collection[Key]) -> dict[Key, StoredOrder]:
    """The orders among these that are stored already."""
    find = _find_in_months if transaction.is_shared else _find
    stored = map(StoredOrder._make, await find(transaction, keys))
    return {(old.owner_id, old.order_sn): old for old in stored}


async def _find(transaction: Transaction, keys: Collection[Key]) -> list[Row]:
    found: list[Row] = []
    waiting = iter(keys)
    while asked := list(islice(waiting, _ASKED_AT_ONCE)):
        # The query has a fixed number of parameters; the last key fills up the rest.
        asked.extend([asked[-1]] * (_ASKED_AT_ONCE - len(asked)))
        owners = {f"owner_{n}": owner for n, (owner, _) in enumerate(asked)}
        numbers = {f"sn_{n}": order_sn for n, (_, order_sn) in enumerate(asked)}
        found += await transaction.fetch_all(_STORED, **owners, **numbers)
    return found


async def _find_in_months(transaction: Transaction, keys: Collection[Key]) -> list[Row]:
    found: list[Row] = []
    numbers: dict[str, list[str]] = {}
    for owner, order_sn in keys:
        numbers.setdefault(owner, []).append(order_sn)
    for owner, its_numbers in numbers.items():
        found += await transaction.fetch_all(_STORED_IN_MONTHS, owner=owner, numbers=its_numbers)
    return found


# How many orders an import commits at once: enough that the commit itself costs little, few enough
# that the calls of a gateway on the same database hardly wait.
CHUNK_ORDERS = 5000

_key = (shop_order.c.owner_id, shop_order.c.newest_first, shop_order.c.order_sn)
_REMOVE = Query(
    lambda: shop_order.delete().where(
        *(column == bindparam(f"old_{column.name}") for column in _key)
    )
)


class OrderLoader(Loader):
    def __init__(self, sealer: Sealer) -> None:
        self.months = MonthsOf(shop_order)
        self.owner_of = _owner_of
        self._sealer = sealer
        self._expects_new = True

    def check_lines(self, lines: Sequence[bytes]) -> list[OrderRow | None]:
        records = good_records(lines)
        rows = iter(rows_of([each for each in records if each is not None], self._sealer))
        return [None if each is None else next(rows) for each in records]

    def check(self, values: dict[str, object], _received_s: int) -> OrderRow:
        # Sealed here, not within the transaction, so that no other writer waits for it.
        return row_of(checked_record(values), self._sealer)

    async def store(self, transaction: Transaction, records: Iterable[OrderRow]) -> int:
        """Stores the orders that are new or newer than the stored ones; returns how many."""
        batch = _arranged(records)
        await _lock_owners(transaction, [owner for owner, _ in batch.owners])
        # Most files are all new, or all loaded before. A wrong guess only costs time. If orders are
        # divided by month, no single index shows whether one exists, so there is no such attempt.
        if self._expects_new and not transaction.is_shared:
            with suppress(DuplicateKeyError):
                return await _put_new(transaction, batch)
        orders = {(row.owner_id, row.order_sn): row for row in batch}
        stored = await stored_among(transaction, orders)
        self._expects_new = not stored
        return await _put_newer(transaction, orders, stored)


def _arranged(records: Iterable[OrderRow]) -> OrderBatch:
    batch = records if isinstance(records, OrderBatch) else OrderBatch.of(list(records))
    return batch if batch.is_arranged else OrderBatch.of(list(_newest_of(batch).values()))


def _newest_of(records: Iterable[OrderRow]) -> dict[Key, OrderRow]:
    """Of several versions of one order the one updated last; of equal ones the first."""
    newest: dict[Key, OrderRow] = {}
    for row in records:
        rival = newest.setdefault((row.owner_id, row.order_sn), row)
        if rival.updated_ms < row.updated_ms:
            newest[row.owner_id, row.order_sn] = row
    return newest


async def _lock_owners(transaction: Transaction, owners: Iterable[str]) -> None:
    """Lets one transaction at a time change an owner's orders, so that stored orders cannot change
    between reading and writing."""
    await transaction.lock_names(f"orders of {owner}" for owner in owners)


_LAST_CHANGE = Query(
    lambda: select(order_change.c.change_no).where(order_change.c.owner_id == bindparam("owner"))
)


async def last_change_of(transaction: Transaction, owner_id: str) -> int:
    """The number of an owner's last change; locks out further changes until the commit."""
    await _lock_owners(transaction, [owner_id])
    found = await transaction.fetch_one(_LAST_CHANGE, owner=owner_id)
    return found[0] if found else 0


async def _insert(transaction: Transaction, batch: OrderBatch) -> None:
    """Inserts orders with their change numbers, in the order of commits: the shops are locked.

    The numbers also follow the clock, so that a restored database never reuses a number that a
    caller has seen, and a cursor from before the restore still precedes what is stored after it.
    """
    last: list[tuple[str, int]] = []
    numbers: list[int] = []
    for owner, orders in batch.owners:
        found = await transaction.fetch_one(_LAST_CHANGE, owner=owner)
        before = max(found[0] if found else 0, time_ns() // 1000)
        numbers += range(before + 1, before + orders + 1)
        last.append((owner, before + orders))
    await transaction.put_rows(upserts(order_change), last)
    batch.number(numbers)
    await transaction.insert_rows(shop_order, batch.rows)


async def _put_new(transaction: Transaction, batch: OrderBatch) -> int:
    """Stores orders that must all be new. Looking each of them up first would take longer, and, if
    the engine maps the file, read ever more of it into memory."""
    async with transaction.first_part():
        await _insert(transaction, batch)
    await recount(transaction, counted_places(batch.places()))
    return len(batch)


async def _put_newer(
    transaction: Transaction, orders: Mapping[Key, OrderRow], stored: Mapping[Key, StoredOrder]
) -> int:
    """Stores those orders that are newer than the stored ones."""
    coming = [
        row
        for key, row in orders.items()
        if (old := stored.get(key)) is None or old.updated_ms < row.updated_ms
    ]
    leaving = [
        old for row in coming if (old := stored.get((row.owner_id, row.order_sn))) is not None
    ]
    places = [(old.owner_id, old.newest_first, old.order_sn) for old in leaving]
    if places:
        async with transaction.with_new_plan():
            await transaction.execute_many(_REMOVE, places)
    await _insert(transaction, OrderBatch.of(coming))
    counts = counted(coming)
    counts.subtract(counted(leaving))
    await recount(transaction, counts, _moved(coming, stored))
    return len(coming)


def _moved(coming: Iterable[OrderRow], stored: Mapping[Key, StoredOrder]) -> set[str]:
    """The owners of orders whose position in a list changes, perhaps within the same hour."""
    return {
        row.owner_id
        for row in coming
        if (old := stored.get((row.owner_id, row.order_sn))) and place_of(row) != place_of(old)
    }


_is_old = shop_order.c.newest_first > -bindparam("before_ms", type_=BigInteger)
_REMOVE_OLD = Query(
    lambda: delete_first(
        shop_order, _is_old, shop_order.c.owner_id == bindparam("owner")
    ).returning(*_found)
)
_OLD_ORDERS = sums_by_list(
    [order_count.c.owner_id],
    order_count.c.orders,
    # A literal, not a parameter: otherwise the planner does not use the partial index.
    literal_column(ALL_BY_DAY),
    order_count.c.bucket < bindparam("before_day", type_=BigInteger),
)


async def remove_old(transaction: Transaction, most: int, *, owner_id: str, before_ms: int) -> int:
    """Removes at most so many orders of an owner that were confirmed before a time; returns how
    many."""
    await _lock_owners(transaction, [owner_id])
    async with transaction.with_new_plan():
        removed = await transaction.fetch_all(
            _REMOVE_OLD, owner=owner_id, before_ms=before_ms, most=most
        )
    counts: Counter[Bucket] = Counter()
    counts.subtract(counted(list(map(StoredOrder._make, removed))))
    await recount(transaction, counts)
    return len(removed)


async def _removals(database: Database, before_ms: int) -> Sequence[Removal]:
    day = before_ms // DAY_MS
    owners = await database.fetch_long(_OLD_ORDERS, before_day=day)
    return [partial(remove_old, owner_id=owner, before_ms=day * DAY_MS) for owner, _ in owners]


async def _count_old(database: Database, before_ms: int) -> int:
    old = await database.fetch_long(_OLD_ORDERS, before_day=before_ms // DAY_MS)
    return sum(int(orders or 0) for _, orders in old)


async def _forget_month(transaction: Transaction, month: Month) -> int:
    return await forget_days(transaction, month.start_s * 1000, month.end_s * 1000)


RETAINED_ORDERS = Retained(
    kind="orders",
    keep_days=lambda settings: settings.keep_orders_days,
    table=shop_order,
    removals=_removals,
    count_old=_count_old,
    forget_month=_forget_month,
)
