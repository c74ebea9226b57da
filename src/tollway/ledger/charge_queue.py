"""A queue of charges: the calls that arrive during one commit wait, and share the next one.

No call is answered before the commit of its own charge, but none waits without an end:

- A call that is in the queue, or in a batch that has not begun, can be withdrawn: it has failed and
  is not charged, for certain.
- A batch that has begun may still be committed. A call in it waits a little longer than the
  database gives its statements, since an error from there is certain too. Then it is answered as in
  doubt, and its receipt says later what became of it.

Where the cores are short, a small batch may wait a moment for the calls that come back after the
last commit.
"""

import asyncio
import threading
from bisect import insort
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from time import monotonic

from tollway.ledger.charge_transaction import ChargeResults
from tollway.ledger.charges import ActResult, BusyError, Charge, OverLimitError, ShortageError
from tollway.ledger.core_shortage import CoreShortage
from tollway.ledger.joint_acts import alone, is_joint
from tollway.ledger.pending_charge import PendingCharge
from tollway.store.database import StoreBusyError, StoreDoubtError
from tollway.telemetry.metrics import Metrics

# Of a batch that has so many calls, the commit is a small part of the work.
_ENOUGH = 32
# Calls that arrive evenly may be charged unevenly. One that is over the limit by so little waits.
_PATIENCE_S = 0.1

# How often a queue looks for calls that have waited too long.
_LOOK_S = 0.25
# How much longer than its timeout a call waits for a batch that has begun.
_LAST_WAIT_S = 2.0

# Begins a batch and posts its charges.
Begin = Callable[[], Sequence[Charge]]
Post = Callable[[Begin], Awaitable[ChargeResults]]


class _Batch:
    """Calls whose charges are posted together. It begins in whichever thread writes, and may have
    waited for others that write: then `more` are the calls that have come since."""

    def __init__(
        self,
        calls: list[PendingCharge],
        more: Callable[[list[PendingCharge]], list[PendingCharge]] = lambda _: [],
    ) -> None:
        self.calls = calls
        self._more = more
        self._lock = threading.Lock()
        self._has_begun = False

    def begin(self) -> Sequence[Charge]:
        """The charges to post; after that, none is withdrawn. Work that is tried again begins
        again, with the same."""
        with self._lock:
            if not self._has_begun:
                self.calls = [*self.calls, *self._more(self.calls)]
                self._has_begun = True
            return [waiting.charge for waiting in self.calls]

    def let_go(self, oldest_s: float) -> None:
        """Ends the waiting of calls that came earlier."""
        with self._lock:
            if not self._has_begun:
                self.calls = _in_time(self.calls, oldest_s)
                return
        for waiting in self.calls:
            if waiting.since_s < oldest_s - _LAST_WAIT_S:
                waiting.end(StoreDoubtError("the charge takes too long"))


def _in_time(calls: list[PendingCharge], oldest_s: float) -> list[PendingCharge]:
    """The calls that have not waited too long; the others fail, and are not charged."""
    for waiting in calls:
        if waiting.since_s < oldest_s:
            waiting.end(StoreBusyError("waited too long to be charged"))
    # A caller that has gone away (its charge is cancelled) is not charged either.
    return [waiting for waiting in calls if not waiting.done()]


class ChargeQueue:
    """Charges that wait for each other's commits.

    `post` posts a batch of at most `batch_max` calls, of which at most `alone_max` are done alone.
    `on_busy` gets those that it returns as busy; without it, they come back into this queue.
    `wait_s` is the longest that a batch waits for more calls.
    """

    def __init__(
        self,
        metrics: Metrics,
        timeout_s: float,
        on_shortage: Callable[[str, str, int], None],
        post: Post,
        batch_max: int,
        on_busy: Callable[[PendingCharge], None] | None = None,
        wait_s: float = 0.0,
        alone_max: int | None = None,
    ) -> None:
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._on_shortage = on_shortage
        self._post_charges = post
        self._batch_max = batch_max
        self._alone_max = batch_max if alone_max is None else alone_max
        self._on_busy = on_busy or self._put_back
        self._waiting: list[PendingCharge] = []
        # The event loop adds to the end of the list; who takes from its beginning holds this.
        self._taking = threading.Lock()
        self._posting = _Batch([])
        self._wait_s = wait_s
        self._cores = CoreShortage()
        # Until when a batch may wait for more, how many it wants, and whether it has them.
        self._waits_until_s = 0.0
        self._wanted = 0
        self._has_enough: asyncio.Event | None = None
        self._running: asyncio.Task[None] | None = None
        self._watch: asyncio.TimerHandle | None = None

    def settle(self, charge: Charge) -> PendingCharge:
        waiting = PendingCharge(charge, monotonic())
        self.add(waiting)
        return waiting

    def add(self, waiting: PendingCharge) -> None:
        self._waiting.append(waiting)
        if self._has_enough is not None and len(self._waiting) >= self._wanted:
            self._has_enough.set()
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        """Lets go of calls that have waited too long, also while a batch is being posted."""
        self._watch = None
        if self._running is None:
            return
        oldest_s = monotonic() - self._timeout_s
        self._posting.let_go(oldest_s)
        with self._taking:
            if self._waiting and self._waiting[0].since_s < oldest_s:
                self._waiting = _in_time(self._waiting, oldest_s)
        self._watch = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    async def _run(self) -> None:
        try:
            while self._waiting:
                if self._wait_s:
                    await self._gather()
                calls = self._take([])
                await self._post(_in_time(calls, monotonic() - self._timeout_s))
        finally:
            self._running = None

    async def _gather(self) -> None:
        """Waits a moment for those that the last batch has answered, if that pays: not where calls
        come one at a time, and not longer than that batch took."""
        last, now = len(self._posting.calls), len(self._waiting)
        left_s = self._waits_until_s - monotonic()
        if left_s <= 0 or now >= _ENOUGH or max(last, now) < 2 or not self._cores.is_short():
            return
        self._wanted = min(last + now, _ENOUGH)
        self._has_enough = asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await self._has_enough.wait()
        self._has_enough = None

    def _take(self, taken: list[PendingCharge]) -> list[PendingCharge]:
        """The calls that have waited longest, as many as a batch can have besides."""
        with self._taking:
            calls = self._waiting[: self._batch_max - len(taken)]
            if self._alone_max < len(calls) + len(taken):
                calls = self._with_few_alone(calls, taken)
            del self._waiting[: len(calls)]
            return calls

    def _with_few_alone(
        self, calls: list[PendingCharge], taken: list[PendingCharge]
    ) -> list[PendingCharge]:
        """The first of them, up to where those that are done alone are too many."""
        left = self._alone_max - sum([not is_joint(waiting.charge) for waiting in taken])
        for position, waiting in enumerate(calls):
            if not is_joint(waiting.charge):
                left -= 1
                if left < 0:
                    return calls[:position]
        return calls

    def _take_more(self, taken: list[PendingCharge]) -> list[PendingCharge]:
        # Not in the event loop: a call that waits too long is found by the next look.
        return [waiting for waiting in self._take(taken) if not waiting.done()]

    async def _post(self, calls: list[PendingCharge]) -> None:
        if not calls:
            return
        batch = self._posting = _Batch(calls, self._take_more)
        began_s = monotonic()
        try:
            results = await self._post_charges(batch.begin)
        except Exception as error:
            for waiting in batch.calls:
                waiting.end(error)
            return
        finally:
            ended_s = monotonic()
            self._waits_until_s = ended_s + min(self._wait_s, ended_s - began_s)
            self._metrics.settle_batch.observe(len(batch.calls))
        for position, waiting in enumerate(batch.calls):
            result = results.get(position) if results else None
            if result is None:
                # Most of them: a plain charge that was posted.
                waiting.end(None)
            else:
                self._finish(waiting, result)

    def _put_back(self, waiting: PendingCharge) -> None:
        """One for which its batch had too much to do: it comes before those that came later."""
        waiting.charge = alone(waiting.charge)
        with self._taking:
            insort(self._waiting, waiting, key=lambda each: each.since_s)

    def _finish(self, waiting: PendingCharge, result: ActResult | Exception) -> None:
        if isinstance(result, BusyError):
            self._on_busy(waiting)
            return
        if isinstance(result, OverLimitError) and waiting.is_patient:
            waiting.is_patient = False
            if result.wait_s <= _PATIENCE_S:
                asyncio.get_running_loop().call_later(result.wait_s, self.add, waiting)
                return
        if isinstance(result, ShortageError):
            self._on_shortage(waiting.charge.account_id, waiting.charge.unit, result.left)
        waiting.end(result)
