"""Charging calls: the calls that arrive while one commit is under way share the next one.

That is what makes a durable charge cheap: one wait for the disk, and one debit per account, pay for
a whole batch. Nobody is answered before the commit that carries their own charge.
"""

import asyncio
from collections.abc import Callable
from time import monotonic

import msgspec

from tollway.ledger.charges import Acted, Charge, ShortageError
from tollway.ledger.posting import post_charges
from tollway.store.database import Database, StoreBusyError
from tollway.telemetry.metrics import Metrics

_BATCH_MAX = 512


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    charge: Charge
    answer: asyncio.Future[Acted | None]
    since_s: float


class Settler:
    """Collects charges and posts them batch by batch.

    `on_shortage` hears of a balance that does not cover a charge: account, unit, what is left.
    """

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        timeout_s: float,
        on_shortage: Callable[[str, str, int], None],
    ) -> None:
        self._database = database
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._on_shortage = on_shortage
        self._waiting: list[_Waiting] = []
        self._running: asyncio.Task[None] | None = None

    def settle(self, charge: Charge) -> asyncio.Future[Acted | None]:
        """Done, with what its act came to, once the charge is durable.

        Fails with ShortageError if it was refused, with KeptBefore if its key was used before, with
        the act's own error if that failed, with StoreError if it could not be tried.
        """
        answer: asyncio.Future[Acted | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(charge, answer, monotonic()))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:_BATCH_MAX]
                del self._waiting[:_BATCH_MAX]
                await self._post(self._in_time(batch))
        finally:
            self._running = None

    def _in_time(self, batch: list[_Waiting]) -> list[_Waiting]:
        """The calls that have not waited too long already; the others are let go uncharged."""
        oldest_s = monotonic() - self._timeout_s
        for waiting in batch:
            if waiting.since_s >= oldest_s:
                break  # They are in the order of arrival: the rest came later still.
            if not waiting.answer.done():
                waiting.answer.set_exception(StoreBusyError("waited too long to be charged"))
        # A caller that has gone away (its future is cancelled) is not charged either.
        return [waiting for waiting in batch if not waiting.answer.done()]

    async def _post(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        charges = [waiting.charge for waiting in batch]
        self._metrics.settle_batch.observe(len(batch))
        try:
            remarks = await self._database.write(lambda tx: post_charges(tx, charges))
        except Exception as error:
            for waiting in batch:
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
            return
        for position, waiting in enumerate(batch):
            self._tell(waiting, remarks.get(position))

    def _tell(self, waiting: _Waiting, remark: Acted | Exception | None) -> None:
        if isinstance(remark, ShortageError):
            self._on_shortage(waiting.charge.account_id, waiting.charge.unit, remark.left)
        if waiting.answer.done():
            return
        if isinstance(remark, Exception):
            waiting.answer.set_exception(remark)
        else:
            waiting.answer.set_result(remark)
