"""The stages of a call in their order, and how a call passes through them."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from functools import partial
from itertools import pairwise
from time import perf_counter_ns
from typing import Any

from msgspec.structs import replace

from tollway.contract.reasons import Refusal
from tollway.contract.receipt import RECEIPTS_PATH
from tollway.ledger.call_timings import StageTime
from tollway.ledger.charge_queue import PendingCharge
from tollway.ledger.charge_transaction import AlreadyAnswered
from tollway.ledger.charges import OutdatedCallerError, OverLimitError, ShortageError
from tollway.ledger.idempotency import KeptAnswer
from tollway.ledger.token_limits import DayCapError
from tollway.operations.account_api.operation import PATH as ACCOUNT_PATH
from tollway.operations.catalogue import ALL_OPERATIONS
from tollway.pipeline.account import account_steps
from tollway.pipeline.authenticate import Authenticate, Recheck
from tollway.pipeline.batch import Batch
from tollway.pipeline.bodies import FirstPiece
from tollway.pipeline.call import Answer, Call
from tollway.pipeline.consent import Consent
from tollway.pipeline.decode import Decode
from tollway.pipeline.dependencies import PipelineDependencies
from tollway.pipeline.dry_run import DryRun, DryRunDone, Simulate
from tollway.pipeline.envelope import Enveloper
from tollway.pipeline.perform import Perform
from tollway.pipeline.permit import Permit
from tollway.pipeline.receipts import (
    ReadReceipt,
    permit_receipt,
    record_refused,
    route_receipt,
)
from tollway.pipeline.replay import Replay
from tollway.pipeline.route import Route
from tollway.pipeline.settle import Settle
from tollway.pipeline.steps import HEADERS, Progress, Step, Steps, Waiting, answer_of, failing
from tollway.pipeline.throttle import SlidingSecond, Throttle
from tollway.store.database import StoreError

logger = logging.getLogger("tollway.call")

# A call that ends with one of these counts against the limit, though it is not charged.
_COUNTED = (Refusal, ShortageError, DayCapError, DryRunDone)
# What a call can wait for without a task.
_PENDING = (PendingCharge, FirstPiece)


class Pipeline:
    """The stages of a call, in their order.

    The envelope comes after the last of them, and after any refusal.
    """

    def __init__(self, parts: PipelineDependencies) -> None:
        limit = parts.settings.rate_limit
        mapped = parts.settings.http_status == "mapped"
        self._throttle = throttle = Throttle(SlidingSecond(), limit)
        self.permit = permit = Permit(parts.callers, parts.settings.zone)
        refused = partial(record_refused, parts.refused_calls)
        self.authenticate = Authenticate(
            parts.callers,
            parts.versions,
            parts.live,
            parts.sandbox,
            parts.settings.proxies,
        )
        self._replay = Replay(permit.check_affordable)
        self._settle = Settle(parts.settings.zone)
        self.closings = self._settle.closings
        self._decode = Decode(ALL_OPERATIONS, parts.settings.zone)
        rechecked = partial(Recheck, self.authenticate, parts.versions, parts.database)
        recheck = rechecked(permit.check_permitted)
        consent = Consent(parts.links, parts.callers, parts.versions)
        self._recheck, self._consent = recheck, consent
        perform = Perform(self._check_again)
        dry_run = DryRun(parts.callers, perform, parts.settings.zone)
        before = (
            Route(ALL_OPERATIONS),
            self.authenticate,
            permit,
            throttle,
            Simulate(parts.links),
            self._decode,
            recheck,
        )
        after = (self._replay, perform, self._settle)
        self._enveloper = enveloper = Enveloper(throttle, parts.recorder, refused, mapped=mapped)
        self._to_operation = Steps((*before, consent, dry_run, *after), enveloper).with_timing()
        without_consent = Steps((*before, dry_run, *after), enveloper).with_timing()
        self._timings = parts.timings
        self._versions = parts.versions
        batch = Batch(self._run_item, self._settle.count)
        self._to_batch = Steps((*before, dry_run, batch), enveloper)
        self._of_an_item = Steps((consent, *after), enveloper)
        self._by_path = {
            each.path: self._to_operation if each.consent is not None else without_consent
            for each in ALL_OPERATIONS
        }
        self._by_path |= {
            each.path: self._to_batch for each in ALL_OPERATIONS if each.batch_of is not None
        }
        # The account API and receipts are free, and have no receipts.
        self._free = free = Enveloper(throttle, parts.recorder, None, mapped=mapped)
        self._to_account = account_steps(parts, self.authenticate, throttle, free)
        of_receipt = rechecked(permit_receipt, is_free=True)
        self._to_receipt = Steps(
            (route_receipt, self.authenticate, throttle, of_receipt, ReadReceipt(parts.database)),
            free,
        )

    def run(self, calls: Sequence[Call]) -> list[Progress]:
        """Passes calls through their stages, each up to the first that must wait.

        Calls of one kind pass each stage together: the code of a stage that has just run for
        another call is still in the processor's cache.
        """
        found: dict[Call, Progress] = {}
        together: defaultdict[Step, list[Call]] = defaultdict(list)
        # One check is enough: all the calls arrived before it, and no stage waits before
        # authentication.
        is_fresh = self._versions.is_fresh()
        for call in calls:
            call.is_fresh = is_fresh
            steps = self._by_path.get(call.path) or self._other_steps(call)
            if steps.timed is not None and self._timings.is_due(call.at_s):
                found[call] = self._run_timed(call, steps.timed)
            else:
                first = steps.usual if HEADERS.isdisjoint(call.headers) else steps.all
                together[first].append(call)
        for step, some in together.items():
            self._pass(some, step, found)
        return list(map(found.__getitem__, calls))

    def go_on(self, waiting: Sequence[Waiting]) -> list[Progress]:
        """Continues calls whose short body or charge has arrived."""
        calls: list[Call] = []
        found: dict[Call, Progress] = {}
        together: defaultdict[Step, list[Call]] = defaultdict(list)
        for each in waiting:
            call = each.call
            calls.append(call)
            try:
                more = each.pending.resume()
            except Exception as error:
                found[call] = self._fail(call, each.after, error)
            except asyncio.CancelledError as cancelled:
                found[call] = failing(cancelled)
            else:
                if more is None:
                    together[each.after].append(call)
                else:
                    found[call] = self._wait(call, each.after, more)
        for step, some in together.items():
            self._pass(some, step, found)
        return list(map(found.__getitem__, calls))

    def _pass(self, calls: list[Call], step: Step, found: dict[Call, Progress]) -> None:
        """Passes calls of one kind through the rest of their stages, stage by stage."""
        while step.stage is not None and calls:
            stage, after = step.stage, step.after
            passed: list[Call] = []
            for call in calls:
                try:
                    outcome = stage(call)
                except Exception as error:
                    found[call] = self._fail(call, step, error)
                    continue
                except asyncio.CancelledError as cancelled:
                    found[call] = failing(cancelled)
                    continue
                if outcome is None:
                    passed.append(call)
                elif isinstance(outcome, _PENDING):
                    found[call] = Waiting(call, outcome, after)
                elif isinstance(outcome, Exception):
                    found[call] = self._fail(call, step, outcome)
                else:
                    found[call] = self._wait(call, after, outcome)
            calls, step = passed, after
        success = step.enveloper.success
        for call in calls:
            try:
                found[call] = success(call)
            except (Exception, asyncio.CancelledError) as error:
                found[call] = failing(error)

    def _pass_alone(self, call: Call, step: Step) -> Progress:
        found: dict[Call, Progress] = {}
        self._pass([call], step, found)
        return found[call]

    async def _wait(self, call: Call, after: Step, waiting: Awaitable[object]) -> Answer:
        """Awaits a stage, and runs the rest of the call."""
        try:
            await waiting
        except Exception as error:
            return await answer_of(self._fail(call, after, error), self.go_on)
        return await answer_of(self._pass_alone(call, after), self.go_on)

    def _run_timed(self, call: Call, first: Step) -> Progress:
        reached: list[tuple[str, int]] = []
        call.reached = reached
        progress = self._pass_alone(call, first)
        if call.account_id is None and isinstance(progress, Answer):
            # Any client can cause this, so it must be as cheap as without timing.
            self._timings.give_back(call.at_s)
            return progress
        return self._add_times(call, reached, progress)

    async def _add_times(
        self, call: Call, reached: list[tuple[str, int]], progress: Progress
    ) -> Answer:
        answer = await answer_of(progress, self.go_on)
        if call.account_id is None:
            self._timings.give_back(call.at_s)
            return answer
        reached.append(("", perf_counter_ns()))
        times = [
            StageTime(name, (until - since) // 1000)
            for (name, since), (_, until) in pairwise(reached)
        ]
        self._timings.add(call.account_id, call.request_id, times)
        return answer

    async def _check_again(self, call: Call) -> None:
        """Refuses a call that may not be made any more, by its token, permission or consent."""
        await self._recheck.look_again(call)
        # A call that could not be decoded names no owner.
        if call.operation.consent is None or not hasattr(call, "request"):
            return
        waiting = self._consent(call)
        if waiting is not None:
            await waiting

    async def _run_item(self, call: Call, raw: Mapping[str, Any]) -> Answer:
        """One request of a batch."""

        def decode(call: Call) -> None:
            call.request, call.ignored = self._decode.decode(call.operation.name, raw)

        rest = self._of_an_item.all
        progress = self._pass_alone(call, Step(rest.enveloper, decode, rest))
        return await answer_of(progress, self.go_on)

    def _fail(
        self, call: Call, step: Step, error: Exception
    ) -> Answer | Coroutine[Any, Any, Answer]:
        """The answer to a call that ended before its last stage."""
        try:
            if isinstance(error, AlreadyAnswered):
                return self._answer_again(call, error.kept)
            if isinstance(error, OutdatedCallerError):
                return self._charge_again(call, step, error)
            # Checked first: most refused calls were not admitted.
            is_counted = call.admission is not None and isinstance(error, _COUNTED)
            if is_counted and self._settle.counts(call) and step.enveloper is not self._free:
                return self._count_and_fail(call, step, error)
            return _answer_of(call, step, error)
        except Exception as fault:
            # A bug of ours must end only its own call.
            return failing(fault)

    async def _count_and_fail(self, call: Call, step: Step, error: Exception) -> Answer:
        return _answer_of(call, step, await self._count_failed(call) or error)

    def refuse(self, call: Call, refusal: Refusal) -> Answer:
        """The answer to a request that is refused before the first stage."""
        answer = self._enveloper.failure(call, refusal)
        return replace(answer, status=refusal.reason.value.status)

    def _other_steps(self, call: Call) -> Steps:
        if call.path.startswith(RECEIPTS_PATH):
            return self._to_receipt
        return self._to_account if call.path.startswith(ACCOUNT_PATH) else self._to_operation

    async def _answer_again(self, call: Call, kept: KeptAnswer) -> Answer:
        enveloper = self._enveloper
        try:
            self._replay.check_same(call, kept)
            kept = await self._replay.find_again(call, kept)
            # If counting fails, so does the call: the stored answer may be on the primary alone, if
            # its commit timed out waiting for the standby. The commit that counts this call is
            # later in the log, so it waits for everything before it too.
            answer = self._replay.opened(call, kept)
            try:
                await self._count_replay(call, kept, answer)
            except OutdatedCallerError as outdated:
                await self._look_again(call, outdated)
                await self._count_replay(call, kept, answer)
            self._replay.repeat(call, kept, answer)
        except Refusal as refusal:
            return enveloper.failure(call, await self._count_failed(call) or refusal)
        except Exception as error:
            return enveloper.failure(call, error)
        return enveloper.success(call)

    async def _count_replay(self, call: Call, kept: KeptAnswer, answer: bytes) -> None:
        waiting = self._settle.replay(call, kept.request_id, answer)
        if waiting is not None:
            await waiting

    async def _charge_again(self, call: Call, after: Step, outdated: OutdatedCallerError) -> Answer:
        """Charges a call whose caller was changed by another node, if it may still be made."""
        try:
            await self._look_again(call, outdated)
            pending = self._settle(call)
        except Exception as error:
            return await answer_of(self._fail(call, after, error), self.go_on)
        assert pending is not None
        return await answer_of(Waiting(call, pending, after), self.go_on)

    async def _look_again(self, call: Call, outdated: OutdatedCallerError) -> None:
        """Refuses a call that may not be made any more, though this node was not notified yet."""
        call.charging_since_s = outdated.since_s
        self._versions.outdate()
        try:
            await self._check_again(call)
        finally:
            # Just read, so what changes from now on does not concern this call.
            call.directory = None
        self._throttle.renew_limit(call)

    async def _count_failed(self, call: Call) -> Exception | None:
        """Counts a refused call against the limit that all nodes share; returns the error if it is
        over the limit, or may not be made any more, though this node was not notified yet."""
        ended: Refusal | None = None
        try:
            try:
                await self._count(call)
            except OutdatedCallerError as outdated:
                try:
                    await self._look_again(call, outdated)
                except Refusal as refusal:
                    ended = refusal
                await self._count(call)
        except OverLimitError as over_limit:
            return ended or over_limit
        except StoreError as error:
            # While the database is unavailable, each node counts for itself.
            logger.warning("a call was not counted for all nodes: %s", error)
        except Exception:
            logger.exception("a call was not counted for all nodes")
        return ended

    async def _count(self, call: Call) -> None:
        waiting = self._settle.count(call, call.directory)
        if waiting is not None:
            await waiting


def _answer_of(call: Call, step: Step, error: Exception) -> Answer:
    if isinstance(error, DryRunDone):
        return step.enveloper.success(call)
    return step.enveloper.failure(call, error)
