"""The calls that have no charge in the ledger, recorded for their receipts.

In the background: a call only leaves a note, and the notes of a moment are written together. So
no call waits for them, and a flood of them is never more than a few commits a second.
"""

import asyncio
import logging
from collections import deque
from itertools import islice

import msgspec
from sqlalchemy import Integer, bindparam, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from tollway.store.database import Database, StoreError, Transaction
from tollway.store.query import Query
from tollway.store.schema.ledger import refused_call
from tollway.telemetry.metrics import Metrics

_WRITE_AFTER_S = 0.2
_RETRY_AFTER_S = 1.0
# Rows per commit: the calls that are charged meanwhile wait for one of these at most.
_BATCH_MAX = 500
_WAITING_MAX = 20_000

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


_ADD = Query(
    insert(refused_call)
    .values({column.name: bindparam(column.name) for column in refused_call.c})
    .on_conflict_do_nothing()
)
_key = (refused_call.c.account_id, refused_call.c.request_id)
_is_old = refused_call.c.at_ms < bindparam("before_ms")
_SWEEP = Query(
    refused_call.delete().where(
        tuple_(*_key).in_(
            select(*_key)
            .where(_is_old)
            .order_by(refused_call.c.at_ms)
            .limit(bindparam("most", type_=Integer))
        ),
        # Once more, so that months which are not old are left alone.
        _is_old,
    )
)
OLD_REFUSED = Query(select(func.count()).select_from(refused_call).where(_is_old))


class RefusedCallLog:
    """Takes notes of calls and writes them a moment later, one commit at a time.

    What the database does not take at the moment is tried again. When too much waits, the newest
    notes are dropped and counted.
    """

    def __init__(self, database: Database, metrics: Metrics) -> None:
        self._database = database
        self._metrics = metrics
        self._waiting: deque[RefusedCall] = deque()
        self._running: asyncio.Task[None] | None = None

    def add(self, call: RefusedCall) -> None:
        if len(self._waiting) >= _WAITING_MAX:
            self._metrics.receipt_dropped("queue_full")
            return
        self._waiting.append(call)
        if self._running is None:
            self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            pause_s = _WRITE_AFTER_S
            while self._waiting:
                await asyncio.sleep(pause_s)
                pause_s = _WRITE_AFTER_S
                try:
                    await self._write()
                except StoreError as error:
                    logger.error("notes for receipts wait to be written: %s", error)
                    pause_s = _RETRY_AFTER_S
        finally:
            self._running = None

    async def _write(self) -> None:
        batch = [msgspec.structs.astuple(each) for each in islice(self._waiting, _BATCH_MAX)]
        await self._database.write(lambda tx: tx.execute_many(_ADD, batch))
        for _ in batch:
            self._waiting.popleft()

    async def finish(self) -> None:
        """Writes what still waits, when the gateway stops."""
        if self._running is not None:
            # A commit that is under way goes on; then its rows come a second time, to no effect.
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        try:
            while self._waiting:
                await self._write()
        except StoreError as error:
            logger.error("%d notes for receipts are lost: %s", len(self._waiting), error)


async def remove_old(transaction: Transaction, before_ms: int, most: int) -> int:
    """Removes some notes of calls that came earlier; how many that were."""
    async with transaction.with_new_plan():
        return await transaction.execute(_SWEEP, before_ms=before_ms, most=most)
