"""How long things are kept: what is older than the settings say is dropped, a little at a time.

What is counted or added up elsewhere is dropped together with its part there, in one transaction:
so totals stay exact, balances stay proven, and the audit finds nothing.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import msgspec
from sqlalchemy import BigInteger, bindparam, func, select

from tollway.intake import coupon_claims, orders
from tollway.ledger.carrying import OLD_BOOKS, OLD_ENTRIES, carry_entries
from tollway.ledger.uncharged import OLD_UNCHARGED, sweep_uncharged
from tollway.settings import Settings
from tollway.store.database import Database, Transaction
from tollway.store.order_facets import ALL, DAY_HOURS, DAY_MS
from tollway.store.order_tables import order_count
from tollway.store.query import Query
from tollway.store.schema import coupon_claim_hour

# Any number, the same for all nodes: whoever drops something holds it.
_JOB = 7012605120
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


class Dropped(msgspec.Struct, frozen=True):
    """How much was, or would be, dropped of one kind. Kept for no number of days is for ever."""

    kind: str
    keep_days: int
    rows: int


class Retention:
    """The settings applied to a database."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._days = {
            "orders": settings.keep_orders_days,
            "claims": settings.keep_claims_days,
            "entries": settings.keep_entries_days,
            "receipts": settings.receipt_days,
        }

    async def apply(self, now_ms: int) -> list[Dropped]:
        """Drops what is too old, of each kind at most as much as a short while allows."""
        return await self._each(
            now_ms,
            {
                "orders": self._drop_orders,
                "claims": self._drop_claims,
                "entries": self._drop_entries,
                "receipts": lambda before_ms: sweep_uncharged(self._database, before_ms),
            },
        )

    async def plan(self, now_ms: int) -> list[Dropped]:
        """What would be dropped now; of entries it may be less, since only the oldest run goes."""

        async def count(query: Query, **values: object) -> int:
            return sum(
                int(row[-1] or 0) for row in await self._database.fetch_long(query, **values)
            )

        return await self._each(
            now_ms,
            {
                "orders": lambda at: count(_OLD_ORDERS, before_day=at // DAY_MS),
                "claims": lambda at: count(_OLD_CLAIMS, before_hour=at // DAY_MS * DAY_HOURS),
                "entries": lambda at: count(OLD_ENTRIES, before_ms=at),
                "receipts": lambda at: count(OLD_UNCHARGED, before_ms=at),
            },
        )

    async def _each(
        self, now_ms: int, work: dict[str, Callable[[int], Awaitable[int]]]
    ) -> list[Dropped]:
        return [
            Dropped(kind, days, await work[kind](now_ms - days * DAY_MS) if days else 0)
            for kind, days in self._days.items()
        ]

    async def _drop_orders(self, before_ms: int) -> int:
        # Whole days, because that is how what is old is found.
        day = before_ms // DAY_MS
        owners = await self._database.fetch_long(_OLD_ORDERS, before_day=day)
        return await self._in_pieces(
            partial(orders.remove_old, owner_id=owner, before_ms=day * DAY_MS, most=_PIECE)
            for owner, _ in owners
        )

    async def _drop_claims(self, before_ms: int) -> int:
        day = before_ms // DAY_MS
        lists = await self._database.fetch_long(_OLD_CLAIMS, before_hour=day * DAY_HOURS)
        return await self._in_pieces(
            partial(
                coupon_claims.remove_old,
                sid=sid,
                claim_type=claim_type,
                before_s=day * DAY_MS // 1000,
                most=_PIECE,
            )
            for sid, claim_type, _ in lists
        )

    async def _drop_entries(self, before_ms: int) -> int:
        books = await self._database.fetch_long(OLD_BOOKS, before_ms=before_ms)
        return await self._in_pieces(
            partial(carry_entries, account_id=account, unit=unit, before_ms=before_ms, most=_PIECE)
            for account, unit in books
        )

    async def _in_pieces(self, removals: Iterable[Callable[[Transaction], Awaitable[int]]]) -> int:
        """Does each removal in small pieces until one is not full, and not too many at once."""
        pieces = dropped = 0
        for remove in removals:
            piece = _PIECE
            while piece == _PIECE and pieces < _PIECES_MAX:
                piece = await self._database.write(partial(_alone, remove))
                dropped += piece
                pieces += 1
        return dropped


async def _alone(remove: Callable[[Transaction], Awaitable[int]], transaction: Transaction) -> int:
    # Another node that is at it goes on with it.
    return await remove(transaction) if await transaction.is_alone(_JOB) else 0
