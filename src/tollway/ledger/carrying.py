"""Old entries, dropped: what they came to is carried on, so that the books still add up.

They go from the oldest on and without a gap. A balance is then proven from what is carried and the
entries that are left.
"""

from collections import Counter
from itertools import takewhile

from sqlalchemy import (
    BigInteger,
    Integer,
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects.postgresql import insert

from tollway.store.database import StoreError, Transaction
from tollway.store.query import Query
from tollway.store.schema import balance, entry
from tollway.store.settlement_tables import IS_HELD, carried, hold

_KINDS = ("top_up", "correction", "charge", "hold", "release")
_SUMS = (*_KINDS, "waybills")
_before_ms = bindparam("before_ms", type_=BigInteger)

OLD_ENTRIES = Query(select(func.count()).select_from(entry).where(entry.c.at_ms < _before_ms))
# The balances whose oldest entry is old.
OLD_BOOKS = Query(
    select(balance.c.account_id, balance.c.unit)
    .select_from(
        balance.outerjoin(
            carried,
            and_(carried.c.account_id == balance.c.account_id, carried.c.unit == balance.c.unit),
        ).join(
            entry,
            and_(
                entry.c.account_id == balance.c.account_id,
                entry.c.unit == balance.c.unit,
                entry.c.number == func.coalesce(carried.c.number, 0) + 1,
            ),
        )
    )
    .where(entry.c.at_ms < _before_ms)
    .order_by(balance.c.account_id, balance.c.unit)
)
_of_book = (
    entry.c.account_id == bindparam("of_account"),
    entry.c.unit == bindparam("of_unit"),
)
# What is still held for is not history yet.
_is_open = exists().where(hold.c.request_id == entry.c.request_id, literal_column(IS_HELD))
_OLDEST = Query(
    select(
        entry.c.number,
        entry.c.kind,
        entry.c.amount,
        entry.c.balance_after,
        entry.c.at_ms,
        entry.c.operation,
        _is_open,
    )
    .where(*_of_book)
    .order_by(entry.c.number)
    .limit(bindparam("most", type_=Integer))
)
_DROP = Query(entry.delete().where(*_of_book, entry.c.number <= bindparam("last_number")))
_carry = insert(carried).values({column.name: bindparam(column.name) for column in carried.c})
_CARRY = Query(
    _carry.on_conflict_do_update(
        index_elements=["account_id", "unit"],
        set_={
            **{name: _carry.excluded[name] for name in ("number", "balance_after", "at_ms")},
            **{name: carried.c[name] + _carry.excluded[name] for name in _SUMS},
        },
    )
)


async def carry_entries(
    transaction: Transaction, account_id: str, unit: str, before_ms: int, most: int
) -> int:
    """Drops some of the oldest entries of a balance and carries their sums; how many they were."""
    rows = await transaction.fetch_all(_OLDEST, of_account=account_id, of_unit=unit, most=most)
    old = list(takewhile(lambda row: row[4] < before_ms and not row[6], rows))
    if not old:
        return 0
    sums = Counter(dict.fromkeys(_SUMS, 0))
    for _, kind, amount, _, _, operation, _ in old:
        sums[kind] += amount
        if kind == "charge" and operation == "waybills":
            sums["waybills"] += amount
    number, _, _, balance_after, *_ = old[-1]
    dropped = await transaction.execute(
        _DROP, of_account=account_id, of_unit=unit, last_number=number
    )
    if dropped != len(old):
        raise StoreError("Entries were dropped by somebody else at the same moment.")
    await transaction.execute(
        _CARRY,
        account_id=account_id,
        unit=unit,
        number=number,
        balance_after=balance_after,
        at_ms=max(row[4] for row in old),
        **sums,
    )
    return dropped
