"""Charging calls: the calls that arrive during one commit wait in a queue and share the next one.

That makes a durable charge cheap: a whole batch needs one wait for the disk, and one debit per
balance. No call is answered before the commit of its own charge.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import monotonic

import msgspec

from tollway.ledger.charge_postgresql import post_acts, post_unless_locked, post_waiting_for_locks
from tollway.ledger.charge_transaction import ChargeResults, post_charges
from tollway.ledger.charges import ActResult, BusyError, Charge, OverLimitError, ShortageError
from tollway.store.database import Database, StoreBusyError, Transaction
from tollway.telemetry.metrics import Metrics

_BATCH_MAX = 512
# Acts of a shared database hold their locks for several round trips each.
_ACTS_MAX = 16
# Calls that arrive evenly may be charged unevenly. One that is over the limit by so little waits.
_PATIENCE_S = 0.1

Answer = asyncio.Future[ActResult | None]
Post = Callable[[Sequence[Charge]], Awaitable[ChargeResults]]


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    charge: Charge
    answer: Answer
    since_s: float
    is_patient: bool = True


class ChargeBatcher:
    """Collects charges and posts them batch by batch.

    `on_shortage` is called with a balance that does not cover a charge: account, unit, amount.
    """

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        timeout_s: float,
        on_shortage: Callable[[str, str, int], None],
    ) -> None:
        queue = partial(_Queue, metrics, timeout_s, on_shortage)
        # Whether the calls of all nodes are counted here: then each charge names its limit.
        self.counts_calls = database.is_shared
        if database.is_shared:
            # Separate queues: charges of one round trip wait for no act. Only those whose rows an
            # act or another node has locked at that moment go to the queue that waits for locks.
            waiting = queue(partial(post_waiting_for_locks, database), _BATCH_MAX)
            self._plain = queue(partial(post_unless_locked, database), _BATCH_MAX, waiting.add)
            self._acts = queue(partial(_write, database, post_acts), _ACTS_MAX)
        else:
            self._plain = self._acts = queue(partial(_write, database, post_charges), _BATCH_MAX)

    def settle(self, charge: Charge) -> Answer:
        """Done, with the result of its act, once the charge is durable.

        Raises ShortageError or OverLimitError if it was refused, AlreadyAnswered if its key was
        used before, the act's own error if that failed, StoreError if it could not be tried.
        """
        return (self._plain if charge.act is None else self._acts).settle(charge)


async def _write(
    database: Database,
    post: Callable[[Transaction, Sequence[Charge]], Awaitable[ChargeResults]],
    charges: Sequence[Charge],
) -> ChargeResults:
    return await database.write(lambda transaction: post(transaction, charges))


class _Queue:
    """Charges that wait for each other's commits."""

    def __init__(
        self,
        metrics: Metrics,
        timeout_s: float,
        on_shortage: Callable[[str, str, int], None],
        post: Post,
        batch_max: int,
        on_busy: Callable[[_Waiting], None] | None = None,
    ) -> None:
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._on_shortage = on_shortage
        self._post_charges = post
        self._batch_max = batch_max
        self._on_busy = on_busy or self.add
        self._waiting: list[_Waiting] = []
        self._running: asyncio.Task[None] | None = None

    def settle(self, charge: Charge) -> Answer:
        answer: Answer = asyncio.get_running_loop().create_future()
        self.add(_Waiting(charge, answer, monotonic()))
        return answer

    def add(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        if self._running is None:
            self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[: self._batch_max]
                del self._waiting[: self._batch_max]
                await self._post(self._in_time(batch))
        finally:
            self._running = None

    def _in_time(self, batch: list[_Waiting]) -> list[_Waiting]:
        """The calls that have not waited too long; the others fail, and are not charged."""
        oldest_s = monotonic() - self._timeout_s
        for waiting in batch:
            if waiting.since_s >= oldest_s:
                break  # They are in the order of arrival: the rest came later, or hardly earlier.
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
            results = await self._post_charges(charges)
        except Exception as error:
            for waiting in batch:
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
            return
        for position, waiting in enumerate(batch):
            self._finish(waiting, results.get(position))

    def _finish(self, waiting: _Waiting, result: ActResult | Exception | None) -> None:
        if isinstance(result, BusyError):
            self._on_busy(waiting)
            return
        if isinstance(result, OverLimitError) and waiting.is_patient:
            again = msgspec.structs.replace(waiting, is_patient=False)
            if result.wait_s <= _PATIENCE_S:
                asyncio.get_running_loop().call_later(result.wait_s, self.add, again)
                return
        if isinstance(result, ShortageError):
            self._on_shortage(waiting.charge.account_id, waiting.charge.unit, result.left)
        if waiting.answer.done():
            return
        if isinstance(result, Exception):
            waiting.answer.set_exception(result)
        else:
            waiting.answer.set_result(result)
