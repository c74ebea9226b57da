"""How long orders are kept: old ones go by whole days, together with their counts."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import BigInteger, bindparam, func, literal_column, select

from tollway.operations.orders.counts import forget_days
from tollway.operations.orders.schema import ALL_BY_DAY, DAY_MS, order_count, shop_order
from tollway.operations.orders.storage import remove_old
from tollway.operations.subject import Removal, Retained
from tollway.store.database import Database, Transaction
from tollway.store.months import Month
from tollway.store.query import Query

# Materialized, so that the old days are read first, from their index. Otherwise a planner may read
# the counts of all days, because those are in the order of the owners.
_old_days = (
    select(order_count.c.owner_id, order_count.c.orders)
    .where(
        # A literal, not a parameter: otherwise the planner does not use the partial index.
        literal_column(ALL_BY_DAY),
        order_count.c.bucket < bindparam("before_day", type_=BigInteger),
    )
    .cte("old_day")
    .prefix_with("MATERIALIZED")
)
_OLD_ORDERS = Query(
    lambda: (
        select(_old_days.c.owner_id, func.sum(_old_days.c.orders))
        .group_by(_old_days.c.owner_id)
        .order_by(_old_days.c.owner_id)
    )
)


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
