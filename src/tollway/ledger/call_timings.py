"""How long each stage of a call took, for its receipt.

Only a few calls per second are timed: all calls of a quiet gateway, and a sample on a busy one,
which costs the other calls nothing. The times are written in the background and kept for some
days; a receipt without them is otherwise complete.
"""

import asyncio
import logging
from collections.abc import Sequence

import msgspec
from sqlalchemy import Integer, bindparam, select

from tollway.ledger.request_log import first_id, time_of
from tollway.store.database import Database, Reader, StoreError, Transaction
from tollway.store.query import Query, equals, insert_row
from tollway.store.schema.ledger import call_timing

_IN_A_SECOND_MAX = 10
# The pause in timing after a call without an account: so few calls of a flood of those are timed.
_PAUSE_S = 0.001
_WRITE_AFTER_S = 1.0
_KEPT_MS = 2 * 86_400_000
# Rows that one write deletes: more than it adds, so that expired rows do not pile up.
_DROPPED_MAX = 2 * _IN_A_SECOND_MAX

logger = logging.getLogger("tollway.receipts")


class StageTime(msgspec.Struct, frozen=True, array_like=True):
    """A stage, and how long a call was in it."""

    stage: str
    taken_us: int


_decoder = msgspec.json.Decoder(list[StageTime])
_ADD = Query(lambda: insert_row(call_timing).on_conflict_do_nothing())
_DROP = Query(
    lambda: call_timing.delete().where(
        call_timing.c.request_id.in_(
            select(call_timing.c.request_id)
            .where(call_timing.c.request_id < bindparam("before_id"))
            .order_by(call_timing.c.request_id)
            .limit(bindparam("most", type_=Integer))
        )
    )
)
_OF_CALL = Query(
    lambda: select(call_timing.c.stages).where(
        equals(call_timing, account_id="of_account", request_id="wanted")
    )
)


class CallTimings:
    """Chooses the calls that are timed, and writes their times a second later."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[tuple[str, str, str]] = []
        self._since_s = 0.0
        self._left = 0
        self._given_back_s = 0.0
        self._running: asyncio.Task[None] | None = None

    def is_due(self, at_s: float) -> bool:
        """Whether to time the call that begins now; every call asks."""
        if self._left > 0:
            # Also after the clock was set back.
            if abs(at_s - self._given_back_s) < _PAUSE_S:
                return False
            self._left -= 1
            return True
        # Also after the clock was set back.
        if 0 <= at_s - self._since_s < 1:
            return False
        self._since_s, self._left = at_s, _IN_A_SECOND_MAX - 1
        return True

    def give_back(self, at_s: float) -> None:
        """Returns the slot of a call without an account, which has no receipt, to a later call."""
        self._left = min(self._left + 1, _IN_A_SECOND_MAX)
        self._given_back_s = at_s

    def add(self, account_id: str, request_id: str, stages: Sequence[StageTime]) -> None:
        if len(self._waiting) >= 10 * _IN_A_SECOND_MAX:
            return
        text = msgspec.json.encode(stages).decode()
        self._waiting.append((request_id, account_id, text))
        if self._running is None:
            self._running = asyncio.create_task(self._write_later())

    async def _write_later(self) -> None:
        try:
            # Calls that are added during a write start no new task.
            while self._waiting:
                await asyncio.sleep(_WRITE_AFTER_S)
                await self._write()
        except StoreError as error:
            logger.warning("the times of some calls are lost: %s", error)
        finally:
            self._running = None

    async def _write(self) -> None:
        rows, self._waiting = self._waiting, []
        oldest_id = first_id(max(time_of(rows[-1][0]) - _KEPT_MS, 0))

        async def work(transaction: Transaction) -> None:
            await transaction.execute_many(_ADD, rows)
            await transaction.execute(_DROP, before_id=oldest_id, most=_DROPPED_MAX)

        await self._database.write(work)

    async def finish(self) -> None:
        """Drops what is not written yet, when the gateway stops."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)


async def stage_times(reader: Reader, account_id: str, request_id: str) -> dict[str, int]:
    """The microseconds that a call was in each stage; empty if it was not timed."""
    row = await reader.fetch_one(_OF_CALL, of_account=account_id, wanted=request_id)
    found = [] if row is None else _decoder.decode(row[0])
    return {each.stage: each.taken_us for each in found}
