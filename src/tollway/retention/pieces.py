"""Dropping what is old a little at a time, so that calls that are charged meanwhile hardly wait."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import NamedTuple

from sqlalchemy import BigInteger, bindparam, func, select

from tollway.intake import coupon_claims, orders
from tollway.ledger import consent_uses, uncharged
from tollway.ledger.carrying import OLD_BOOKS, OLD_ENTRIES, carry_entries
from tollway.ledger.charges import GrantKey
from tollway.retention.job import JOB
from tollway.store.database import Database, Transaction
from tollway.store.order_facets import ALL, DAY_HOURS, DAY_MS
from tollway.store.order_tables import order_count
from tollway.store.query import Query
from tollway.store.schema import coupon_claim_hour

# Rows per commit: the calls that are charged meanwhile wait for one of these at most.
_PIECE = 500
# The rest waits for the next time: other regular work wants its turn.
_PIECES_MAX = 200

_is_old_day = (
    order_count.c.facet == ALL,
    order_count.c.hours == DAY_HOURS,
    order_count.c.bucket < bindparam("before_day", type_=BigInteger),
)
_OLD_ORDERS = Query(
    select(order_count.c.owner_id, func.sum(order_count.c.orders))
    .where(*_is_old_day)
    .group_by(order_count.c.owner_id)
    .order_by(order_count.c.owner_id)
)
_OLD_CLAIMS = Query(
    select(
        coupon_claim_hour.c.sid,
        coupon_claim_hour.c.claim_type,
        func.sum(coupon_claim_hour.c.claims),
    )
    .where(
        coupon_claim_hour.c.hour < bindparam("before_hour", type_=BigInteger),
        coupon_claim_hour.c.claims > 0,
    )
    .group_by(coupon_claim_hour.c.sid, coupon_claim_hour.c.claim_type)
    .order_by(coupon_claim_hour.c.sid, coupon_claim_hour.c.claim_type)
)

Work = Callable[[Database, int], Awaitable[int]]


class Pieces(NamedTuple):
    """How what is older than a moment is dropped, and how many rows that would be."""

    drop: Work
    old_rows: Work


async def _drop_orders(database: Database, before_ms: int) -> int:
    # Whole days, because that is how what is old is found.
    day = before_ms // DAY_MS
    owners = await database.fetch_long(_OLD_ORDERS, before_day=day)
    return await _in_pieces(
        database,
        (
            partial(orders.remove_old, owner_id=owner, before_ms=day * DAY_MS, most=_PIECE)
            for owner, _ in owners
        ),
    )


async def _drop_claims(database: Database, before_ms: int) -> int:
    day = before_ms // DAY_MS
    lists = await database.fetch_long(_OLD_CLAIMS, before_hour=day * DAY_HOURS)
    return await _in_pieces(
        database,
        (
            partial(
                coupon_claims.remove_old,
                sid=sid,
                claim_type=claim_type,
                before_s=day * DAY_MS // 1000,
                most=_PIECE,
            )
            for sid, claim_type, _ in lists
        ),
    )


async def _drop_entries(database: Database, before_ms: int) -> int:
    books = await database.fetch_long(OLD_BOOKS, before_ms=before_ms)
    return await _in_pieces(
        database,
        (
            partial(carry_entries, account_id=account, unit=unit, before_ms=before_ms, most=_PIECE)
            for account, unit in books
        ),
    )


async def _drop_reads(database: Database, before_ms: int) -> int:
    grants = await database.fetch_long(consent_uses.OLD_GRANTS, before_ms=before_ms)
    return await _in_pieces(
        database,
        (
            partial(
                consent_uses.remove_old, grant=GrantKey(*grant), before_ms=before_ms, most=_PIECE
            )
            for grant in grants
        ),
    )


async def _drop_receipts(database: Database, before_ms: int) -> int:
    return await _in_pieces(
        database, [partial(uncharged.remove_old, before_ms=before_ms, most=_PIECE)]
    )


async def _in_pieces(
    database: Database, removals: Iterable[Callable[[Transaction], Awaitable[int]]]
) -> int:
    """Does each removal in small pieces until one is not full, and not too many at once."""
    pieces = dropped = 0
    for remove in removals:
        piece = _PIECE
        while piece == _PIECE and pieces < _PIECES_MAX:
            piece = await database.write(partial(_alone, remove))
            dropped += piece
            pieces += 1
    return dropped


async def _alone(remove: Callable[[Transaction], Awaitable[int]], transaction: Transaction) -> int:
    # Another node that is at it goes on with it.
    return await remove(transaction) if await transaction.is_alone(JOB) else 0


async def _count(database: Database, query: Query, **values: object) -> int:
    return sum(int(row[-1] or 0) for row in await database.fetch_long(query, **values))


PIECES = {
    "orders": Pieces(_drop_orders, lambda at, ms: _count(at, _OLD_ORDERS, before_day=ms // DAY_MS)),
    "claims": Pieces(
        _drop_claims, lambda at, ms: _count(at, _OLD_CLAIMS, before_hour=ms // DAY_MS * DAY_HOURS)
    ),
    "entries": Pieces(_drop_entries, lambda at, ms: _count(at, OLD_ENTRIES, before_ms=ms)),
    "reads": Pieces(_drop_reads, lambda at, ms: _count(at, consent_uses.OLD_USES, before_ms=ms)),
    "receipts": Pieces(
        _drop_receipts, lambda at, ms: _count(at, uncharged.OLD_UNCHARGED, before_ms=ms)
    ),
}
