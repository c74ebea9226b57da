"""Dropping whole months of a shared database, each in one commit with all that counts it."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from sqlalchemy import BigInteger, Table, bindparam, func, select

from tollway.intake.claim_counts import forget_hours
from tollway.intake.order_counts import forget_days
from tollway.ledger.carrying import carry_month
from tollway.ledger.consent_uses import uses_of_month
from tollway.retention.job import JOB
from tollway.store.consent_tables import consent_use
from tollway.store.database import Database, StoreBusyError, Transaction
from tollway.store.months import Month, close_month, drop_month, months_before
from tollway.store.order_tables import shop_order
from tollway.store.query import Query
from tollway.store.schema import coupon_claim, entry
from tollway.store.settlement_tables import refused_call

logger = logging.getLogger("tollway.retention")

_from_ms, _to_ms = (bindparam(name, type_=BigInteger) for name in ("from_ms", "to_ms"))
_UNCHARGED = Query(
    select(func.count())
    .select_from(refused_call)
    .where(refused_call.c.at_ms >= _from_ms, refused_call.c.at_ms < _to_ms)
)


class _Divided(NamedTuple):
    """A table, and what is done before a month of it goes: sees to sums and counts, and tells how
    many rows go; None if they may not."""

    table: Table
    see_to: Callable[[Transaction, Month], Awaitable[int | None]]


async def _orders(transaction: Transaction, month: Month) -> int:
    return await forget_days(transaction, month.start_s * 1000, month.end_s * 1000)


async def _claims(transaction: Transaction, month: Month) -> int:
    return await forget_hours(transaction, month.start_s, month.end_s)


async def _entries(transaction: Transaction, month: Month) -> int | None:
    return await carry_month(transaction, month.start_s * 1000, month.end_s * 1000)


async def _reads(transaction: Transaction, month: Month) -> int | None:
    return await uses_of_month(transaction, month.start_s * 1000, month.end_s * 1000)


async def _receipts(transaction: Transaction, month: Month) -> int:
    row = await transaction.fetch_one(
        _UNCHARGED, from_ms=month.start_s * 1000, to_ms=month.end_s * 1000
    )
    return int(row[0]) if row else 0


_KINDS = {
    "orders": _Divided(shop_order, _orders),
    "claims": _Divided(coupon_claim, _claims),
    "entries": _Divided(entry, _entries),
    "reads": _Divided(consent_use, _reads),
    "receipts": _Divided(refused_call, _receipts),
}


class _ElsewhereError(Exception):
    """Another node is at it."""


async def drop_whole_months(database: Database, kind: str, before_ms: int) -> tuple[int, bool]:
    """Drops the months of a kind that end before a moment; how many rows they had, and whether the
    rest may follow. It may not while another node is at it, or somebody reads for long: a month
    that waits for them is not to go in pieces meanwhile."""
    divided, dropped = _KINDS[kind], 0
    for month in await months_before(database, divided.table, before_ms // 1000):
        try:
            rows = await database.write(partial(_drop, divided, month))
        except _ElsewhereError:
            return dropped, False
        except StoreBusyError as error:
            logger.warning("%s of %s are dropped another time: %s", kind, month.name, error)
            return dropped, False
        # The months after it wait for it, since entries go from the oldest on.
        if rows is None:
            break
        dropped += rows
    return dropped, True


async def _drop(divided: _Divided, month: Month, transaction: Transaction) -> int | None:
    if not await transaction.is_alone(JOB):
        raise _ElsewhereError
    if month not in await months_before(transaction, divided.table, month.end_s):
        return 0  # Another node has just done it.
    await close_month(transaction, divided.table, month)
    rows = await divided.see_to(transaction, month)
    if rows is not None:
        await drop_month(transaction, divided.table, month)
    return rows
