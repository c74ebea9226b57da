"""The stages of a call in their order, and how a call passes through them."""

import logging
from collections.abc import Awaitable, Coroutine, Iterator, Mapping
from itertools import pairwise
from time import perf_counter_ns
from types import FunctionType
from typing import Any

import msgspec
from msgspec.structs import replace

from tollway.account.endpoints import ACCOUNT_OPERATIONS, make_handlers
from tollway.account.operation import PATH as ACCOUNT_PATH
from tollway.account.operation import AccountParts
from tollway.carriers.connectors.remotes import Remotes
from tollway.carriers.labels.layout import style_of
from tollway.carriers.vault import Vault
from tollway.consent.links import ConsentLinks
from tollway.contract.reasons import Refusal
from tollway.contract.receipt import RECEIPTS_PATH
from tollway.ledger.call_timings import CallTimings, StageTime
from tollway.ledger.charge_transaction import AlreadyAnswered
from tollway.ledger.charges import OverLimitError, ShortageError
from tollway.ledger.directory import Directory
from tollway.ledger.idempotency import KeptAnswer
from tollway.ledger.pending_charge import PendingCharge
from tollway.ledger.refused_calls import RefusedCallLog
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_limits import DayCapError
from tollway.operations.catalogue import WITH_COMPANIONS
from tollway.pipeline.account import PerformAccount, PermitAccount
from tollway.pipeline.authenticate import Authenticate
from tollway.pipeline.batch import Batch
from tollway.pipeline.bodies import FirstPiece
from tollway.pipeline.call import (
    KEY_HEADER,
    Answer,
    Call,
    Progress,
    Side,
    Stage,
    Waiting,
    answer_of,
)
from tollway.pipeline.consent import Consent
from tollway.pipeline.decode import Decode
from tollway.pipeline.envelope import Enveloper
from tollway.pipeline.perform import Perform
from tollway.pipeline.permit import Permit
from tollway.pipeline.receipts import ReadReceipt, RefusedCallRecorder, RouteReceipt
from tollway.pipeline.replay import Replay
from tollway.pipeline.route import Route
from tollway.pipeline.settle import Settle
from tollway.pipeline.throttle import SlidingSecond, Throttle
from tollway.pipeline.trials import (
    DRY_RUN_HEADER,
    OUTCOME_HEADER,
    DryRun,
    DryRunDone,
    Simulate,
)
from tollway.settings import Settings
from tollway.store.database import Database, StoreError
from tollway.store.versions import Versions
from tollway.telemetry.calls import CallRecorder
from tollway.telemetry.metrics import Metrics
from tollway.webhooks.addresses import Addresses

logger = logging.getLogger("tollway.call")

# How a call ends that counts against the limit, though it is not charged.
_COUNTED = (Refusal, ShortageError, DayCapError, DryRunDone)
# What is waited for without a task.
_PENDING = (PendingCharge, FirstPiece)
# The stages that do nothing unless a call has one of these headers.
_FOR_HEADERS = (Simulate, DryRun, Replay)
_HEADERS = frozenset((OUTCOME_HEADER, DRY_RUN_HEADER, KEY_HEADER))


class Parts(msgspec.Struct, frozen=True):
    """What the stages use."""

    settings: Settings
    metrics: Metrics
    database: Database
    versions: Versions
    directory: Directory
    links: ConsentLinks
    vault: Vault
    remotes: Remotes
    live: Side
    sandbox: Side
    recorder: CallRecorder
    refused_calls: RefusedCallLog
    timings: CallTimings


class _Route:
    """Stages in their order, and the envelope at their end."""

    def __init__(self, stages: tuple[Stage, ...], enveloper: Enveloper) -> None:
        self.stages = stages
        self.enveloper = enveloper
        self.all = tuple(map(_method, stages))
        # The stages of a call that has none of these headers: the left-out ones would do nothing.
        self.usual = tuple(
            method
            for stage, method in zip(stages, self.all, strict=True)
            if not isinstance(stage, _FOR_HEADERS)
        )

        # The same for a call whose stages are timed, if any of its kind is.
        self.timed: _Route | None = None

    def with_timing(self) -> "_Route":
        self.timed = _Route(tuple(map(_timed, self.stages)), self.enveloper)
        return self


def _method(stage: Stage) -> Stage:
    """The stage as a method, which is called in a third of the time."""
    return stage if isinstance(stage, FunctionType) else stage.__call__


def _timed(stage: Stage) -> Stage:
    """The stage, which also notes when a call reached it."""
    name = type(stage).__name__.lower()

    def run(call: Call) -> Awaitable[object] | None:
        assert call.reached is not None
        call.reached.append((name, perf_counter_ns()))
        return stage(call)

    return run


def _account_route(
    parts: Parts, authenticate: Authenticate, throttle: Throttle, enveloper: Enveloper
) -> _Route:
    account = AccountParts(
        parts.database,
        parts.links,
        Runtime(),
        parts.settings.zone,
        parts.vault,
        parts.remotes,
        Addresses(parts.settings.webhook_internal_hosts.split(",")),
        style_of(parts.settings),
        parts.settings.call_timeout_s,
    )
    stages = (
        Route(ACCOUNT_OPERATIONS),
        authenticate,
        throttle,
        PermitAccount(),
        Decode(ACCOUNT_OPERATIONS, parts.settings.zone),
        PerformAccount(make_handlers(account), throttle),
    )
    return _Route(stages, enveloper)


class Pipeline:
    """The stages of a call, in their order.

    The envelope comes after the last of them, and after any refusal.
    """

    def __init__(self, parts: Parts) -> None:
        limit = parts.settings.rate_limit
        mapped = parts.settings.http_status == "mapped"
        throttle = Throttle(SlidingSecond(), limit)
        self.permit = permit = Permit(parts.directory, parts.settings.zone)
        refused = RefusedCallRecorder(parts.refused_calls)
        self.authenticate = Authenticate(
            parts.directory,
            parts.versions,
            parts.live,
            parts.sandbox,
            parts.settings.proxies,
        )
        self._replay = Replay(permit.check_affordable)
        self._settle = Settle(parts.settings.zone)
        self._decode = Decode(WITH_COMPANIONS, parts.settings.zone)
        perform, consent = Perform(), Consent(parts.links)
        dry_run = DryRun(parts.directory, perform, parts.settings.zone)
        before = (
            Route(WITH_COMPANIONS),
            self.authenticate,
            permit,
            throttle,
            Simulate(parts.links),
            self._decode,
        )
        after = (self._replay, perform, self._settle)
        enveloper = Enveloper(throttle, parts.recorder, refused, mapped=mapped)
        self._to_operation = _Route((*before, consent, dry_run, *after), enveloper).with_timing()
        without_consent = _Route((*before, dry_run, *after), enveloper).with_timing()
        self._timings = parts.timings
        batch = Batch(self._run_item, self._settle.count)
        self._to_batch = _Route((*before, dry_run, batch), enveloper)
        self._of_an_item = _Route((consent, *after), enveloper)
        self._by_path = {
            each.path: self._to_operation if each.consent is not None else without_consent
            for each in WITH_COMPANIONS
        }
        self._by_path |= {
            each.path: self._to_batch for each in WITH_COMPANIONS if each.batch_of is not None
        }
        # Neither the account API nor asking for a receipt costs anything.
        free = Enveloper(throttle, parts.recorder, _record_nothing, mapped=mapped)
        self._to_account = _account_route(parts, self.authenticate, throttle, free)
        self._to_receipt = _Route(
            (RouteReceipt(), self.authenticate, throttle, ReadReceipt(parts.database)), free
        )

    def run(self, call: Call) -> Progress:
        """Passes a call through its stages, up to the first that must wait."""
        route = self._by_path.get(call.path) or self._other_route(call)
        if route.timed is not None and self._timings.is_due(call.at_s):
            return self._run_timed(call, route.timed)
        return self._pass(call, route)

    def _run_timed(self, call: Call, route: _Route) -> Progress:
        reached: list[tuple[str, int]] = []
        call.reached = reached
        progress = self._pass(call, route)
        if call.account_id is None and isinstance(progress, Answer):
            # As quickly as without timing: a crowd without tokens gets here each time.
            self._timings.give_back()
            return progress
        return self._add_times(call, reached, progress)

    async def _add_times(
        self, call: Call, reached: list[tuple[str, int]], progress: Progress
    ) -> Answer:
        answer = await answer_of(progress)
        if call.account_id is None:
            self._timings.give_back()
            return answer
        reached.append(("", perf_counter_ns()))
        times = [
            StageTime(name, (until - since) // 1000)
            for (name, since), (_, until) in pairwise(reached)
        ]
        self._timings.add(call.account_id, call.request_id, times)
        return answer

    async def _run_item(self, call: Call, raw: Mapping[str, Any]) -> Answer:
        """One request of a batch."""

        def decode(call: Call) -> None:
            call.request, call.ignored = self._decode.decode(call.operation.name, raw)

        route = self._of_an_item
        return await answer_of(self._pass(call, _Route((decode, *route.stages), route.enveloper)))

    def _pass(self, call: Call, route: _Route) -> Progress:
        stages = iter(route.usual if _HEADERS.isdisjoint(call.headers) else route.all)
        return self._go_on(call, route, stages)

    def _go_on(self, call: Call, route: _Route, stages: Iterator[Stage]) -> Progress:
        try:
            for stage in stages:
                waiting = stage(call)
                if waiting is not None:
                    if isinstance(waiting, _PENDING):
                        context = (call, route, stages, waiting)
                        return Waiting(waiting, self._resume, context)
                    return self._wait(call, route, stages, waiting)
        except Exception as error:
            return self._fail(call, route, error)
        return route.enveloper.success(call)

    def _resume(
        self, context: tuple[Call, _Route, Iterator[Stage], FirstPiece | PendingCharge]
    ) -> Progress:
        """The rest of a call whose stage waited for no more than a short body, or its charge."""
        call, route, stages, pending = context
        try:
            waiting = pending.resume()
        except Exception as error:
            return self._fail(call, route, error)
        if waiting is not None:
            return self._wait(call, route, stages, waiting)
        return self._go_on(call, route, stages)

    async def _wait(
        self, call: Call, route: _Route, stages: Iterator[Stage], waiting: Awaitable[object]
    ) -> Answer:
        """The rest of a call: from a stage that waits on."""
        try:
            await waiting
        except Exception as error:
            return await answer_of(self._fail(call, route, error))
        return await answer_of(self._go_on(call, route, stages))

    def _fail(
        self, call: Call, route: _Route, error: Exception
    ) -> Answer | Coroutine[Any, Any, Answer]:
        """The answer of a call that ended before its last stage."""
        if isinstance(error, AlreadyAnswered):
            return self._answer_again(call, error.kept)
        if isinstance(error, _COUNTED) and self._settle.counts(call) and not self._is_free(route):
            return self._count_and_fail(call, route, error)
        return self._answer_of(call, route, error)

    async def _count_and_fail(self, call: Call, route: _Route, error: Exception) -> Answer:
        return self._answer_of(call, route, await self._count_failed(call) or error)

    def _is_free(self, route: _Route) -> bool:
        return route is self._to_account or route is self._to_receipt

    @staticmethod
    def _answer_of(call: Call, route: _Route, error: Exception) -> Answer:
        if isinstance(error, DryRunDone):
            return route.enveloper.success(call)
        return route.enveloper.failure(call, error)

    def refuse(self, call: Call, refusal: Refusal) -> Answer:
        """The answer to a request that is refused before the first stage."""
        answer = self._to_operation.enveloper.failure(call, refusal)
        return replace(answer, status=refusal.reason.value.status)

    def _other_route(self, call: Call) -> _Route:
        if call.path.startswith(RECEIPTS_PATH):
            return self._to_receipt
        return self._to_account if call.path.startswith(ACCOUNT_PATH) else self._to_operation

    async def _answer_again(self, call: Call, kept: KeptAnswer) -> Answer:
        enveloper = self._to_operation.enveloper
        try:
            self._replay.check_same(call, kept)
            kept = await self._replay.find_again(call, kept)
            # If counting fails, so does the call. The stored answer may be on the primary alone, if
            # its commit's wait for the standby timed out. The commit that counts this call is later
            # in the log, so it also waits for all that was before.
            answer = self._replay.opened(call, kept)
            waiting = self._settle.replay(call, kept.request_id, answer)
            if waiting is not None:
                await waiting
            self._replay.repeat(call, kept, answer)
        except Refusal as refusal:
            return enveloper.failure(call, await self._count_failed(call) or refusal)
        except Exception as error:
            return enveloper.failure(call, error)
        return enveloper.success(call)

    async def _count_failed(self, call: Call) -> OverLimitError | None:
        """Counts a call that ends in a refusal against the limit of all nodes; returns the error if
        it is over the limit."""
        try:
            waiting = self._settle.count(call)
            if waiting is not None:
                await waiting
        except OverLimitError as over_limit:
            return over_limit
        except StoreError as error:
            # While the database is unavailable, each node counts for itself.
            logger.warning("a call was not counted for all nodes: %s", error)
        except Exception:
            logger.exception("a call was not counted for all nodes")
        return None


def _record_nothing(_call: Call, _code: int, _reason: str) -> None:
    """What is free by itself has no receipt."""
