"""The settings about how long rows are kept, applied to a database.

An embedded database drops old rows to the day, in small pieces. A shared one is partitioned by
month and drops whole months, which costs the same however many rows they have; there rows stay for
up to a month longer.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec
from sqlalchemy import BigInteger, bindparam, func, select

from tollway.ledger import consent_uses, refused_calls
from tollway.ledger.archiving import OLD_BALANCES, OLD_ENTRIES, archive_entries, archive_month
from tollway.ledger.charges import GrantKey
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import SUBJECTS
from tollway.operations.subject import Removal, Retained
from tollway.settings import Settings
from tollway.store.clock import common_ms, earlier_ms
from tollway.store.database import Database, StoreBusyError, StoreError, Transaction
from tollway.store.months import (
    DAY_S,
    Month,
    close_month,
    drop_month,
    month_of,
    months_before,
)
from tollway.store.query import Query
from tollway.store.schema.consent import consent_use
from tollway.store.schema.ledger import entry, refused_call
from tollway.store.small_commits import PieceBudget

logger = logging.getLogger("tollway.retention")

# The key of the lock that lets one node at a time drop rows; any number, the same on all nodes.
_LOCK = 7012605120
# The rest is left to the next run, so that other regular work is not delayed.
_PIECES_MAX = 200
_DAY_MS = DAY_S * 1000


class Dropped(msgspec.Struct, frozen=True):
    """How many rows of one kind were, or would be, dropped. Zero days keep them forever."""

    kind: str
    keep_days: int
    rows: int


class _OtherNodeError(Exception):
    """Another node is dropping rows."""


class Retention:
    """What one database keeps, and for how long."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        subjects = (each.retained for each in SUBJECTS if each.retained is not None)
        self._runs = 0
        # By kind: whether the last run left rows for the next one.
        self.unfinished: dict[str, bool] = {}
        self._kept = [(each, each.keep_days(settings)) for each in (*subjects, *_LEDGER_ROWS)]

    async def apply(self, now_ms: int) -> list[Dropped]:
        """Drops what is too old, in pieces, for as long as one run may take."""
        self._runs += 1
        return await self._each(now_ms, self._drop)

    async def plan(self, now_ms: int) -> list[Dropped]:
        """What would be dropped now. Of entries and reads, fewer may go: only gapless runs from the
        oldest on do."""
        return await self._each(now_ms, lambda kept, at_ms: kept.count_old(self._database, at_ms))

    async def _each(
        self, now_ms: int, work: Callable[[Retained, int], Awaitable[int]]
    ) -> list[Dropped]:
        # A node whose clock is ahead must not drop rows too early for all nodes.
        now_ms = await earlier_ms(self._database, now_ms)
        dropped, errors = [], []
        for kept, days in self._kept:
            rows = 0
            try:
                if days:
                    rows = await work(kept, self._limit_ms(now_ms - days * _DAY_MS))
            except Exception as error:
                # The other kinds go on; the first failure is raised at the end.
                errors.append(error)
            dropped.append(Dropped(kept.kind, days, rows))
        if errors:
            raise errors[0]
        return dropped

    def _limit_ms(self, at_ms: int) -> int:
        """The moment before which rows are dropped."""
        return month_of(at_ms // 1000).start_s * 1000 if self._database.is_shared else at_ms

    async def _drop(self, kept: Retained, before_ms: int) -> int:
        dropped, may_go_on = 0, True
        budget, is_unfinished = PieceBudget(_PIECES_MAX), True
        try:
            if self._database.is_shared:
                dropped, may_go_on = await self._drop_months(kept, before_ms)
            if may_go_on:
                removals = await kept.removals(self._database, before_ms)
                dropped += await self._drop_pieces(removals, budget)
                is_unfinished = budget.is_spent
        finally:
            self.unfinished[kept.kind] = is_unfinished
        return dropped

    async def _drop_pieces(self, removals: Sequence[Removal], budget: PieceBudget) -> int:
        """Removes in small pieces. Each run begins with a different removal, so that a long or
        failing one does not block the others."""
        dropped, error = 0, None
        first = self._runs % len(removals) if removals else 0
        for remove in (*removals[first:], *removals[:first]):
            try:
                dropped += await budget.spend(self._database, partial(_unless_locked, remove))
            except StoreError as failure:
                error = error or failure
        if error is not None:
            raise error
        return dropped

    async def _drop_months(self, kept: Retained, before_ms: int) -> tuple[int, bool]:
        """Drops the months that end before a moment; returns how many rows they had, and whether
        the rest may go in pieces. It may not while another node drops rows or a long read locks a
        month: that month is dropped as a whole later."""
        dropped = 0
        for month in await months_before(self._database, kept.table, before_ms // 1000):
            try:
                rows = await self._database.write(partial(_drop_month, kept, month))
            except _OtherNodeError:
                return dropped, False
            except StoreBusyError as error:
                logger.warning("%s of %s are dropped later: %s", kept.kind, month.name, error)
                return dropped, False
            # Months are dropped oldest first, so the later ones stay too.
            if rows is None:
                break
            dropped += rows
        return dropped, True


async def _unless_locked(remove: Removal, transaction: Transaction, most: int) -> int:
    # If another node is dropping rows, it will drop these too.
    return await remove(transaction, most) if await transaction.is_alone(_LOCK) else 0


async def _drop_month(kept: Retained, month: Month, transaction: Transaction) -> int | None:
    if not await transaction.is_alone(_LOCK):
        raise _OtherNodeError
    if month not in await months_before(transaction, kept.table, month.end_s):
        return 0  # Another node has just dropped it.
    await close_month(transaction, kept.table, month)
    rows = await kept.forget_month(transaction, month)
    if rows is not None:
        await drop_month(transaction, kept.table, month)
    return rows


# The ledger's own rows: entries, reads under a grant, refused calls.
_from_ms, _to_ms = (bindparam(name, type_=BigInteger) for name in ("from_ms", "to_ms"))
_REFUSED_OF_MONTH = Query(
    lambda: (
        select(func.count())
        .select_from(refused_call)
        .where(refused_call.c.at_ms >= _from_ms, refused_call.c.at_ms < _to_ms)
    )
)


async def _entry_removals(database: Database, before_ms: int) -> Sequence[Removal]:
    now_ms = await _now_ms(database)
    balances = await database.fetch_long(OLD_BALANCES, before_ms=before_ms, now_ms=now_ms)
    return [
        partial(
            archive_entries, account_id=account_id, unit=unit, before_ms=before_ms, now_ms=now_ms
        )
        for account_id, unit in balances
    ]


async def _read_removals(database: Database, before_ms: int) -> Sequence[Removal]:
    now_ms = await _now_ms(database)
    grants = await database.fetch_long(consent_uses.OLD_GRANTS, before_ms=before_ms, now_ms=now_ms)
    return [
        partial(consent_uses.remove_old, grant=GrantKey(*grant), before_ms=before_ms, now_ms=now_ms)
        for grant in grants
    ]


async def _now_ms(database: Database) -> int:
    """By the clock that dates these rows: a later one was dated while it was ahead."""
    return await common_ms(database, Runtime().at_ms())


async def _refused_removals(_: Database, before_ms: int) -> Sequence[Removal]:
    return [partial(refused_calls.remove_old, before_ms=before_ms)]


async def _count(query: Query, database: Database, before_ms: int) -> int:
    ((rows,),) = await database.fetch_long(query, before_ms=before_ms)
    return int(rows)


async def _archive_month(transaction: Transaction, month: Month) -> int | None:
    return await archive_month(transaction, month.start_s * 1000, month.end_s * 1000)


async def _reads_of_month(transaction: Transaction, month: Month) -> int | None:
    return await consent_uses.uses_of_month(transaction, month.start_s * 1000, month.end_s * 1000)


async def _refused_of_month(transaction: Transaction, month: Month) -> int:
    row = await transaction.fetch_one(
        _REFUSED_OF_MONTH, from_ms=month.start_s * 1000, to_ms=month.end_s * 1000
    )
    return int(row[0]) if row else 0


_LEDGER_ROWS = (
    Retained(
        kind="entries",
        keep_days=lambda settings: settings.keep_entries_days,
        table=entry,
        removals=_entry_removals,
        count_old=partial(_count, OLD_ENTRIES),
        forget_month=_archive_month,
    ),
    # After entries, because a read stays as long as the entry of its charge.
    Retained(
        kind="reads",
        keep_days=lambda settings: settings.keep_entries_days,
        table=consent_use,
        removals=_read_removals,
        count_old=partial(_count, consent_uses.OLD_USES),
        forget_month=_reads_of_month,
    ),
    Retained(
        kind="receipts",
        keep_days=lambda settings: settings.receipt_days,
        table=refused_call,
        removals=_refused_removals,
        count_old=partial(_count, refused_calls.OLD_REFUSED),
        forget_month=_refused_of_month,
    ),
)
