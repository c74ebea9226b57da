"""The settings applied to a database.

An embedded one drops what is too old to the day, in pieces. A shared one is divided by month and
drops whole months, which costs the same however much there is in them; so there things stay for up
to a month longer.
"""

from collections.abc import Awaitable, Callable

import msgspec

from tollway.retention.months import drop_whole_months
from tollway.retention.pieces import PIECES
from tollway.settings import Settings
from tollway.store.clock import sure_ms
from tollway.store.database import Database
from tollway.store.months import month_of
from tollway.store.order_facets import DAY_MS


class Dropped(msgspec.Struct, frozen=True):
    """How much was, or would be, dropped of one kind. Kept for no number of days is for ever."""

    kind: str
    keep_days: int
    rows: int


class Retention:
    """What is kept for how long, in one database."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._days = {
            "orders": settings.keep_orders_days,
            "claims": settings.keep_claims_days,
            "entries": settings.keep_entries_days,
            # They go after the charges that they were written down with.
            "reads": settings.keep_entries_days,
            "receipts": settings.receipt_days,
        }

    async def apply(self, now_ms: int) -> list[Dropped]:
        """Drops what is too old; in pieces, at most as much as a short while allows."""
        return await self._each(now_ms, self._drop)

    async def plan(self, now_ms: int) -> list[Dropped]:
        """What would be dropped now; entries and reads may be fewer, since only the oldest go."""
        return await self._each(now_ms, self._count)

    async def _drop(self, kind: str, before_ms: int) -> int:
        dropped, may_go_on = 0, True
        if self._database.is_shared:
            dropped, may_go_on = await drop_whole_months(self._database, kind, before_ms)
        if may_go_on:
            dropped += await PIECES[kind].drop(self._database, before_ms)
        return dropped

    async def _count(self, kind: str, before_ms: int) -> int:
        return await PIECES[kind].old_rows(self._database, before_ms)

    async def _each(self, now_ms: int, work: Callable[[str, int], Awaitable[int]]) -> list[Dropped]:
        # One node whose clock goes ahead must not drop what is everybody's.
        now_ms = await sure_ms(self._database, now_ms)
        return [
            Dropped(
                kind, days, await work(kind, self._limit(now_ms - days * DAY_MS)) if days else 0
            )
            for kind, days in self._days.items()
        ]

    def _limit(self, at_ms: int) -> int:
        """Up to where what is old goes."""
        return month_of(at_ms // 1000).start_s * 1000 if self._database.is_shared else at_ms
