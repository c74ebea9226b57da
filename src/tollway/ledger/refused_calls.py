"""The calls that have no charge in the ledger, recorded for their receipts.

They are written in the background: a call only adds its record to a queue, and the records of a
moment are written together. So no call waits for them, and a flood of refused calls is never more
than a few commits a second.
"""

import asyncio
import logging
from collections import deque
from itertools import islice

import msgspec
from sqlalchemy import Integer, bindparam, func, select, tuple_

from tollway.store.database import Database, StoreError, Transaction
from tollway.store.query import Query, insert
from tollway.store.schema.ledger import refused_call
from tollway.telemetry.metrics import Metrics

_WRITE_AFTER_S = 0.2
_RETRY_AFTER_S = 1.0
# Rows per commit: a call that is charged meanwhile waits for one such commit at most.
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
    client_request_id: str | None = None
    is_test: int = 0


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
        # Repeated, so that the query skips months which are not old.
        _is_old,
    )
)
OLD_REFUSED = Query(select(func.count()).select_from(refused_call).where(_is_old))


class RefusedCallLog:
    """Queues records of calls and writes them a moment later, one commit at a time.

    While the database is unavailable it tries again. When the queue is full, the newest records are
    dropped and counted.
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
            # A commit that has begun goes on; its rows are then written twice, without effect.
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        try:
            while self._waiting:
                await self._write()
        except StoreError as error:
            logger.error("%d notes for receipts are lost: %s", len(self._waiting), error)


async def remove_old(transaction: Transaction, before_ms: int, most: int) -> int:
    """Removes some records of calls before a time; returns how many."""
    async with transaction.with_new_plan():
        return await transaction.execute(_SWEEP, before_ms=before_ms, most=most)
