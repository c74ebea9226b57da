"""A queue of charges (group commit): calls that arrive during one commit share the next one.

No call is answered before its own charge is committed, but none waits forever:

- A call that is in the queue, or in a batch that has not begun, can be withdrawn: it fails, and
  certainly is not charged.
- A batch that has begun may still commit. A call in it waits a little longer than the database's
  statement timeout, because an error from there is certain too. After that it is answered as in
  doubt, and its receipt later says whether it was charged.

Where CPU cores are short, a small batch may wait a moment for the callers that the last commit
answered to call again.
"""

import asyncio
import threading
from bisect import insort
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

import msgspec

from tollway.ledger.charge_transaction import ChargeResults
from tollway.ledger.charges import (
    ActResult,
    BusyError,
    Charge,
    NoCapacityError,
    OutdatedCallerError,
    OverLimitError,
    ShortageError,
)
from tollway.ledger.joint_acts import alone, is_joint
from tollway.store.database import CommitUnknownError, StoreBusyError
from tollway.telemetry.metrics import Metrics

# From this many calls on, the commit is a small part of a batch's work.
_ENOUGH = 32
# Calls that arrive evenly may be charged unevenly, so one that is over the limit by this little
# waits and is tried once more.
_PATIENCE_S = 0.1

# How often a queue checks for calls that have timed out.
_LOOK_S = 0.25
# How much longer than its timeout a call waits if its batch has begun.
_LAST_WAIT_S = 2.0
# Linux counts how long a thread was ready to run and had no core. How often the count is read, and
# the share of time from which cores are short.
_COUNTED = Path("/proc/thread-self/schedstat")
_READ_S = 0.25
_SHORT = 0.1

# Begins a batch and posts its charges.
Begin = Callable[[], Sequence[Charge]]
Post = Callable[[Begin], Awaitable[ChargeResults]]


class PendingCharge(msgspec.Struct, eq=False):
    """A charge that waits to be posted: has as much of a future as is needed, at a fifth of the
    cost. It takes a single callback, which runs at once instead of on the loop."""

    charge: Charge
    since_s: float
    is_patient: bool = True
    # What its stage does with the result, if anything.
    then: Callable[[ActResult | None], Awaitable[None] | None] | None = None
    _is_done: bool = False
    _outcome: ActResult | BaseException | None = None
    _trace: TracebackType | None = None
    _callback: Callable[["PendingCharge"], object] | None = None

    def done(self) -> bool:
        return self._is_done

    def result(self) -> ActResult | None:
        assert self._is_done
        if isinstance(self._outcome, BaseException):
            # The calls of a batch may share one error, and each raise would lengthen its traceback.
            raise self._outcome.with_traceback(self._trace)
        return self._outcome

    def resume(self) -> Awaitable[None] | None:
        """Continues the stage that waited; most stages do nothing more."""
        assert self._is_done
        outcome = self._outcome
        if isinstance(outcome, BaseException):
            self.result()  # Raises.
        elif self.then is not None:
            return self.then(outcome)
        return None

    def add_done_callback(self, callback: Callable[["PendingCharge"], object]) -> None:
        assert self._callback is None
        if self._is_done:
            self._call_back(callback)
        else:
            self._callback = callback

    def end(self, outcome: ActResult | BaseException | None) -> None:
        """Ends the wait, unless it has already ended."""
        if self._is_done:
            return
        self._is_done, self._outcome = True, outcome
        if isinstance(outcome, BaseException):
            self._trace = outcome.__traceback__
        callback = self._callback
        if callback is not None:
            self._callback = None
            self._call_back(callback)

    def cancel(self) -> None:
        """The caller has disconnected: it is not charged, unless its batch has begun."""
        self.end(asyncio.CancelledError())

    def _call_back(self, callback: Callable[["PendingCharge"], object]) -> None:
        try:
            callback(self)
        except Exception as error:
            # An error here must not keep the rest of the batch from being answered.
            context = {"message": "an error after a charge", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def __await__(self) -> Generator[Any, None, ActResult | None]:
        if not self._is_done:
            waiter = asyncio.get_running_loop().create_future()
            self.add_done_callback(partial(_wake, waiter))
            try:
                yield from waiter
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result()


def _wake(waiter: asyncio.Future[None], _: PendingCharge) -> None:
    if not waiter.done():
        waiter.set_result(None)


class CpuContention:
    """Whether the thread that asks is often ready to run but has no core. Compares the last two
    counts; where nothing is counted, the cores are free."""

    def __init__(self) -> None:
        self._read_at_s = 0.0
        self._waited_s = 0.0
        self._is_short = False

    def is_short(self) -> bool:
        now_s = monotonic()
        if now_s >= self._read_at_s + _READ_S:
            # A container may hide the file, or show an empty one.
            with suppress(OSError, ValueError, IndexError):
                waited_s = int(_COUNTED.read_text(encoding="ascii").split()[1]) / 1e9
                share = (waited_s - self._waited_s) / (now_s - self._read_at_s)
                self._is_short = share >= _SHORT
                self._waited_s = waited_s
            self._read_at_s = now_s
        return self._is_short


class _Batch:
    """Calls whose charges are posted together. The batch begins in the thread that writes, perhaps
    after waiting for other writers: then `more` returns the calls that came meanwhile."""

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
        """The charges to post; from here on, none can be withdrawn. A retry gets the same ones."""
        with self._lock:
            if not self._has_begun:
                # A caller may have disconnected while the batch waited for its turn.
                calls = [waiting for waiting in self.calls if not waiting.done()]
                self.calls = [*calls, *self._more(calls)]
                self._has_begun = True
            return [waiting.charge for waiting in self.calls]

    def let_go(self, oldest_s: float) -> None:
        """Times out calls that arrived before `oldest_s`."""
        with self._lock:
            if not self._has_begun:
                self.calls = _in_time(self.calls, oldest_s)
                return
        for waiting in self.calls:
            if waiting.since_s < oldest_s - _LAST_WAIT_S:
                waiting.end(CommitUnknownError("the charge takes too long"))


def _in_time(calls: list[PendingCharge], oldest_s: float) -> list[PendingCharge]:
    """The calls that have not waited too long; the others fail, and are not charged."""
    for waiting in calls:
        if waiting.since_s < oldest_s:
            waiting.end(StoreBusyError("waited too long to be charged"))
    # A caller that has disconnected (its charge is cancelled) is not charged either.
    return [waiting for waiting in calls if not waiting.done()]


class ChargeQueue:
    """Posts charges in batches, one batch at a time.

    `post` posts a batch of at most `batch_max` calls, of which at most `alone_max` are done alone.
    `on_busy` gets the charges that `post` reports as busy; by default they return to this queue.
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
        self._on_busy = on_busy or self.add
        self._waiting: list[PendingCharge] = []
        # The event loop appends to the list without a lock; taking from its front needs this one.
        self._taking = threading.Lock()
        self._posting = _Batch([])
        self._wait_s = wait_s
        self._cores = CpuContention()
        # Until when a batch may wait for more calls, how many it wants, and whether it has them.
        self._waits_until_s = 0.0
        self._wanted = 0
        self._has_enough: asyncio.Event | None = None
        self._running: asyncio.Task[None] | None = None
        self._watch: asyncio.TimerHandle | None = None

    def settle(self, charge: Charge) -> PendingCharge:
        if charge.since_s is None:
            waiting = PendingCharge(charge, monotonic())
            self._waiting.append(waiting)
            self._run_soon()
        else:
            waiting = PendingCharge(charge, charge.since_s)
            self.add(waiting)
        return waiting

    def add(self, waiting: PendingCharge) -> None:
        """Queues a call that has waited before, in order of arrival."""
        with self._taking:
            insort(self._waiting, waiting, key=lambda each: each.since_s)
        self._run_soon()

    def accounts_of_acts(self) -> set[str]:
        """Which accounts have acts here, waiting or being posted."""
        calls = [*self._posting.calls, *self._waiting] if self._running is not None else []
        return {each.charge.account_id for each in calls if not each.charge.is_plain}

    def _run_soon(self) -> None:
        if self._has_enough is not None and len(self._waiting) >= self._wanted:
            self._has_enough.set()
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        """Times out calls that have waited too long, even while a batch is being posted."""
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
        """Waits a moment for the callers that the last batch answered, if that pays: not if calls
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
        """Takes the calls that have waited longest, as many as fit into a batch with `taken`."""
        with self._taking:
            calls = self._waiting[: self._batch_max - len(taken)]
            if self._alone_max < len(calls) + len(taken):
                calls = self._with_few_alone(calls, taken)
            del self._waiting[: len(calls)]
            return calls

    def _with_few_alone(
        self, calls: list[PendingCharge], taken: list[PendingCharge]
    ) -> list[PendingCharge]:
        """The first of the calls, cut before there are too many that must be done alone."""
        left = self._alone_max - sum([not is_joint(waiting.charge) for waiting in taken])
        for position, waiting in enumerate(calls):
            if not is_joint(waiting.charge):
                left -= 1
                if left < 0:
                    return calls[:position]
        return calls

    def _take_more(self, taken: list[PendingCharge]) -> list[PendingCharge]:
        # Not in the event loop, so it times out no call: the next `_look` does.
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
            self._metrics.settled(len(batch.calls))
        for position, waiting in enumerate(batch.calls):
            result = results.get(position) if results else None
            if result is None:
                # The usual case: a plain charge that was posted.
                waiting.end(None)
            else:
                self._finish(waiting, result)

    def _finish(self, waiting: PendingCharge, result: ActResult | Exception) -> None:
        if isinstance(result, BusyError):
            self._on_busy(waiting)
            return
        if isinstance(result, NoCapacityError):
            waiting.charge = alone(waiting.charge)
            self.add(waiting)
            return
        if isinstance(result, OverLimitError) and waiting.is_patient:
            waiting.is_patient = False
            if result.wait_s <= _PATIENCE_S:
                asyncio.get_running_loop().call_later(result.wait_s, self.add, waiting)
                return
        if isinstance(result, ShortageError):
            self._on_shortage(waiting.charge.account_id, waiting.charge.unit, result.left)
        if isinstance(result, OutdatedCallerError):
            result.since_s = waiting.since_s
        waiting.end(result)
