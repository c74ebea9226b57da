"""The calls that have no charge in the ledger, recorded for their receipts.

They are written in the background: a call only adds its record to a queue, and the records of a
moment are written together. So no call waits for them, and a flood of refused calls is never more
than a few commits a second.

Nor does a flood fill the disk. Of the calls of one kind (the same account, operation and reason in
the same minute) the first few have a row of their own. The last of these rows says how many more
there were.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from itertools import islice
from math import inf
from time import monotonic

import msgspec
from sqlalchemy import and_, bindparam, func, or_, select

from tollway.contract.reasons import Reason
from tollway.contract.receipt import FreeReason
from tollway.store.attempts import Attempts
from tollway.store.database import Database, StoreError, Transaction
from tollway.store.query import Query, alike, changed, equals, insert_row
from tollway.store.schema.ledger import entry, refused_call
from tollway.store.small_commits import delete_first
from tollway.telemetry.metrics import Metrics

_WRITE_AFTER_S = 0.2
_RETRY_AFTER_S = 1.0
_WRITING = "writing notes for receipts"
# Rows per commit: a call that is charged meanwhile waits for one such commit at most.
_BATCH_MAX = 500
_WAITING_MAX = 20_000
# Counts change with every call of a flood, so they are written less often.
_COUNT_AFTER_S = 2.0

_MINUTE_MS = 60_000
# How long before the end of the current minute a call counted in it may have begun.
_SLOW_MS = 10 * _MINUTE_MS
# Rows per minute: of one kind; and of one account, besides the first row of each kind.
_OF_KIND_MAX = 10
_OF_ACCOUNT_MAX = 240
# Callers ask for receipts more often if the call succeeded.
_OF_REASON_MAX = {
    FreeReason.FREE.value: 60,
    FreeReason.BATCH.value: 60,
    FreeReason.TEST.value: 60,
    FreeReason.DRY_RUN.value: 60,
    FreeReason.REPLAYED.value: 60,
    FreeReason.NOT_DONE.value: 60,
}
# A call that was refused for one of these may yet be charged, so each gets a row.
MAY_BE_CHARGED = {
    Reason.CARRIER_SILENT.name,
    Reason.COMMIT_IN_DOUBT.name,
    Reason.TIMED_OUT.name,
}
# Joins such a call with its charge.
CHARGED_AFTER_ALL = and_(
    alike(entry, refused_call, "request_id", "account_id"),
    entry.c.kind == "charge",
    or_(*(refused_call.c.reason == each for each in sorted(MAY_BE_CHARGED))),
)

logger = logging.getLogger("tollway.receipts")


class RefusedCall(msgspec.Struct, frozen=True, gc=False):
    """One call, in the order of the table's columns."""

    account_id: str
    request_id: str
    at_ms: int
    operation: str
    code: int
    reason: str
    replay_of: str | None
    client_request_id: str | None = None
    is_test: int = 0
    # How many more calls of this kind in the same minute have no row.
    more: int = 0
    # The shop or user whose data it asked for, known or not, if it named one.
    owner_kind: str | None = None
    owner_id: str | None = None
    # What its answer said of a wrong parameter, in both languages, as JSON.
    said: str | None = None


_ADD = Query(lambda: insert_row(refused_call).on_conflict_do_nothing())
_SET_MORE = Query(
    lambda: changed(refused_call, more="counted").where(
        equals(refused_call, account_id="of_account", request_id="of_request", at_ms="of_ms")
    )
)
_is_old = refused_call.c.at_ms < bindparam("before_ms")
_SWEEP = Query(lambda: delete_first(refused_call, _is_old, order=refused_call.c.at_ms))
OLD_REFUSED = Query(lambda: select(func.count()).select_from(refused_call).where(_is_old))


# Account, operation, reason, and whether it is a test call.
_KindKey = tuple[str, str, str, int]


class _Kind:
    """The calls of one kind in this minute: how many have rows, the last of those, and how many
    have none."""

    def __init__(self) -> None:
        self.rows = 0
        self.more = 0
        self.last: RefusedCall | None = None

    def values(self) -> dict[str, object]:
        """Sets the count instead of adding to it, so that a retry is harmless: no other process
        writes to this row."""
        assert self.last is not None
        return {
            "of_account": self.last.account_id,
            "of_request": self.last.request_id,
            "of_ms": self.last.at_ms,
            "counted": self.more,
        }


class _Minute:
    """The kinds of calls that this minute has seen; the next minute begins with none."""

    def __init__(self) -> None:
        self._until_ms = 0
        self._kinds: dict[_KindKey, _Kind] = {}
        self._of_account: Counter[str] = Counter()

    def kind_of(self, at_ms: int, key: _KindKey) -> _Kind:
        # A slow call from an earlier minute counts in this one, instead of resetting the counts.
        # No call is slower than `_SLOW_MS`: an older time means that the clock was set back.
        if not self._until_ms - _SLOW_MS <= at_ms < self._until_ms:
            self._until_ms = (at_ms // _MINUTE_MS + 1) * _MINUTE_MS
            self._kinds, self._of_account = {}, Counter()
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind()
        return kind

    def has_row(self, key: _KindKey, kind: _Kind) -> bool:
        """Whether another call of a kind gets a row; counts it if so."""
        if kind.last is not None:
            account_id, _, reason, is_test = key
            # A test call can ask for any reason, and is never charged.
            if is_test or reason not in MAY_BE_CHARGED:
                if kind.rows >= _OF_REASON_MAX.get(reason, _OF_KIND_MAX):
                    return False
                if self._of_account[account_id] >= _OF_ACCOUNT_MAX:
                    return False
                self._of_account[account_id] += 1
        kind.rows += 1
        return True


class RefusedCallLog:
    """Queues records of calls and writes them a moment later, one commit at a time.

    While the database is unavailable it tries again. When the queue is full, the newest records are
    dropped and counted.
    """

    def __init__(self, database: Database, metrics: Metrics) -> None:
        self._database = database
        self._metrics = metrics
        self._attempts = Attempts()
        self._waiting: deque[RefusedCall] = deque()
        self._minute = _Minute()
        # The kinds whose count has changed since it was written, and when counts were written.
        self._counted: dict[_Kind, None] = {}
        self._counted_s = -inf
        self._running: asyncio.Task[None] | None = None

    def add(self, call: RefusedCall) -> None:
        key = (call.account_id, call.operation, call.reason, call.is_test)
        self.add_made(call.at_ms, key, lambda: call)

    def add_made(self, at_ms: int, key: _KindKey, make: Callable[[], RefusedCall]) -> None:
        """Adds a call; `make` runs only if the call gets a row, which is rare in a flood."""
        if len(self._waiting) >= _WAITING_MAX:
            self._metrics.receipt_dropped("queue_full")
            return
        kind = self._minute.kind_of(at_ms, key)
        if self._minute.has_row(key, kind):
            kind.last = make()
            self._waiting.append(kind.last)
        else:
            self._metrics.receipt_dropped("too_fast")
            kind.more += 1
            self._counted[kind] = None
        if self._running is None:
            self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            pause_s = _WRITE_AFTER_S
            while self._waiting or self._counted:
                await asyncio.sleep(pause_s)
                pause_s = _WRITE_AFTER_S
                try:
                    await self._write()
                except StoreError as error:
                    self._attempts.failed(_WRITING, error)
                    pause_s = _RETRY_AFTER_S
                else:
                    self._attempts.succeeded(_WRITING)
        finally:
            self._running = None

    async def _write(self) -> None:
        batch = [msgspec.structs.astuple(each) for each in islice(self._waiting, _BATCH_MAX)]
        counts = self._due_counts(len(batch))

        async def work(transaction: Transaction) -> None:
            if batch:
                await transaction.execute_many(_ADD, batch)
            if counts:
                async with transaction.with_new_plan():
                    await transaction.execute_many(_SET_MORE, list(counts.values()))

        if not batch and not counts:
            return
        await self._database.write(work)
        for _ in batch:
            self._waiting.popleft()
        for kind, values in counts.items():
            if kind.more == values["counted"]:
                del self._counted[kind]

    def _due_counts(self, batch_rows: int) -> dict[_Kind, dict[str, object]]:
        """The counts to write now: not before their rows, and not with every write."""
        now_s = monotonic()
        if batch_rows < len(self._waiting) or now_s < self._counted_s + _COUNT_AFTER_S:
            return {}
        self._counted_s = now_s
        return {kind: kind.values() for kind in islice(self._counted, _BATCH_MAX)}

    async def finish(self) -> None:
        """Writes what is still queued, when the gateway stops."""
        if self._running is not None:
            # A commit that has begun goes on; writing its rows again has no effect.
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        try:
            while self._waiting or self._counted:
                self._counted_s = -inf
                await self._write()
        except StoreError as error:
            logger.error("%d notes for receipts are lost: %s", len(self._waiting), error)


async def remove_old(transaction: Transaction, most: int, *, before_ms: int) -> int:
    """Removes some records of calls before a time; returns how many."""
    async with transaction.with_new_plan():
        return await transaction.execute(_SWEEP, before_ms=before_ms, most=most)
