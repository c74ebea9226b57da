"""Which of some orders are stored already, and what must be known of them."""

from collections.abc import Collection
from itertools import islice
from typing import NamedTuple

from sqlalchemy import String, any_, bindparam, column, select, values
from sqlalchemy.dialects.postgresql import ARRAY

from tollway.store.database import Row, Transaction
from tollway.store.order_tables import shop_order
from tollway.store.query import Query

_ASKED_AT_ONCE = 200

Key = tuple[str, str]  # owner, order number


class StoredOrder(NamedTuple):
    """What must be known of an order that is there already."""

    owner_id: str
    order_sn: str
    updated_ms: int
    newest_first: int
    remark_tag: int | None
    remark_tag_name: str | None


# A join with a list of keys, and not `IN`: with a long list there, SQLite would rather go through
# all orders of the owner.
_found = [shop_order.c[name] for name in StoredOrder._fields]
_asked = (
    values(column("owner_id", String), column("order_sn", String))
    .data([(bindparam(f"owner_{n}"), bindparam(f"sn_{n}")) for n in range(_ASKED_AT_ONCE)])
    .cte("asked")
)
_STORED = Query(
    select(*_found).join_from(
        _asked,
        shop_order,
        (shop_order.c.owner_id == _asked.c.owner_id) & (shop_order.c.order_sn == _asked.c.order_sn),
    )
)
# Of one owner at a time, which goes through each month's index once, however many are asked for.
_STORED_IN_MONTHS = Query(
    select(*_found).where(
        shop_order.c.owner_id == bindparam("owner"),
        shop_order.c.order_sn == any_(bindparam("numbers", type_=ARRAY(String))),
    )
)


async def stored_among(transaction: Transaction, keys: Collection[Key]) -> dict[Key, StoredOrder]:
    """The orders that are there already among these."""
    find = _find_in_months if transaction.is_shared else _find
    stored = map(StoredOrder._make, await find(transaction, keys))
    return {(old.owner_id, old.order_sn): old for old in stored}


async def _find(transaction: Transaction, keys: Collection[Key]) -> list[Row]:
    found: list[Row] = []
    waiting = iter(keys)
    while asked := list(islice(waiting, _ASKED_AT_ONCE)):
        # The query has a fixed number of places; those left over ask for the last one again.
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
