"""The commits that end holds: a call with a hold ends with one, and what it stores is known nowhere
else.

The carrier has answered by then, and not every carrier can be asked what it said. So a commit that
fails is tried again, for a bounded time, also after its call was answered with 101, or was
cancelled. That is safe, even if the database has made it after all: it ends only what is pending.
"""

import asyncio
import logging
from contextlib import suppress
from time import monotonic

from msgspec.structs import replace

from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charges import ActResult, Charge, ClosingAct
from tollway.ledger.charging import ChargeBatcher
from tollway.store.database import StoreError

logger = logging.getLogger("tollway.call")

# After a failed commit the call goes on waiting only if less time has passed.
_CALL_WAITS_S = 2.0
_TRIED_FOR_S = 600.0
_PAUSE_S, _PAUSE_MAX_S = 0.1, 10.0
_STOP_S = 5.0


class Closings:
    """The holds of this process that are being ended."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_stopping = asyncio.Event()

    async def post(self, batcher: ChargeBatcher, charge: Charge, act: ClosingAct) -> ActResult:
        """Posts a charge with this act; without an answer in time, its price stays held."""
        answered: asyncio.Future[ActResult] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._post(batcher, charge, act, answered))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await answered

    async def finish(self) -> None:
        """Before a stop: what waits is tried once more, for a bounded time."""
        self._is_stopping.set()
        if self._under_way:
            _, left = await asyncio.wait(self._under_way, timeout=_STOP_S)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _post(
        self,
        batcher: ChargeBatcher,
        charge: Charge,
        act: ClosingAct,
        answered: asyncio.Future[ActResult],
    ) -> None:
        silent = Refusal(Reason.CARRIER_SILENT, cost=charge.amount)
        extra = {"request_id": charge.request_id}
        try:
            posted = await self._posted(batcher, charge, act, answered)
        except Refusal as refusal:
            silent = refusal
        except StoreError as error:
            logger.error("%s; this could not be stored: %s", act.outcome, error, extra=extra)
        except asyncio.CancelledError:
            logger.error("%s; this was not stored before the stop", act.outcome, extra=extra)
            raise
        except Exception:
            logger.exception("%s; to store this failed unexpectedly", act.outcome, extra=extra)
        else:
            if not answered.done():
                answered.set_result(posted)
        finally:
            _answer_without(answered, silent)

    async def _posted(
        self,
        batcher: ChargeBatcher,
        charge: Charge,
        act: ClosingAct,
        answered: asyncio.Future[ActResult],
    ) -> ActResult:
        began_s, pause_s = monotonic(), _PAUSE_S
        while True:
            is_last = self._is_stopping.is_set() or monotonic() - began_s > _TRIED_FOR_S
            try:
                posted = await batcher.settle(charge)
            except StoreError as error:
                if is_last:
                    raise
                if monotonic() - began_s >= _CALL_WAITS_S:
                    _answer_without(answered, Refusal(Reason.CARRIER_SILENT, cost=charge.amount))
                if answered.done():
                    charge = replace(charge, act=act.late)
                extra = {"request_id": charge.request_id}
                logger.warning(
                    "the end of a hold was not stored and is tried again: %s", error, extra=extra
                )
            else:
                assert posted is not None
                return posted
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_stopping.wait(), pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)


def _answer_without(answered: asyncio.Future[ActResult], refusal: Refusal) -> None:
    """Ends a call, unless it has ended."""
    if not answered.done():
        answered.set_exception(refusal)
