"""The stages of a call in their order, and how a call passes through them."""

import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter_ns
from typing import Any, NamedTuple

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
from tollway.ledger.refused_calls import RefusedCallLog
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_limits import DayCapError
from tollway.operations.catalogue import WITH_COMPANIONS
from tollway.pipeline.account import PerformAccount, PermitAccount
from tollway.pipeline.authenticate import Authenticate
from tollway.pipeline.batch import Batch
from tollway.pipeline.call import Answer, Call, Side, Stage
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
from tollway.pipeline.trials import DryRun, DryRunDone, Simulate
from tollway.settings import Settings
from tollway.store.database import Database, StoreError
from tollway.store.versions import Versions
from tollway.telemetry.calls import CallRecorder
from tollway.telemetry.metrics import Metrics
from tollway.webhooks.addresses import Addresses

logger = logging.getLogger("tollway.call")

_BATCH_PATHS = {each.path for each in WITH_COMPANIONS if each.batch_of is not None}


@dataclass(frozen=True)
class Parts:
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


class _Route(NamedTuple):
    """Stages in their order, and the envelope at their end."""

    stages: tuple[Stage, ...]
    enveloper: Enveloper

    def timed(self) -> "_Route":
        return self._replace(stages=tuple(map(_timed, self.stages)))


def _timed(stage: Stage) -> Stage:
    """The stage, which also notes when a call reached it."""
    name = type(stage).__name__.lower()

    def run(call: Call) -> Awaitable[object] | None:
        assert call.reached is not None
        call.reached.append((name, perf_counter_ns()))
        return stage(call)

    return run


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
        dry_run = DryRun(parts.directory, perform)
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
        self._to_operation = _Route((*before, consent, dry_run, *after), enveloper)
        self._timings = parts.timings
        self._to_operation_timed = self._to_operation.timed()
        batch = Batch(self._run_item, self._settle.count)
        self._to_batch = _Route((*before, dry_run, batch), enveloper)
        self._of_an_item = _Route((consent, *after), enveloper)
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
        # Neither the account API nor asking for a receipt costs anything.
        self._to_account = _Route(
            (
                Route(ACCOUNT_OPERATIONS),
                self.authenticate,
                throttle,
                PermitAccount(),
                Decode(ACCOUNT_OPERATIONS, parts.settings.zone),
                PerformAccount(make_handlers(account), throttle),
            ),
            Enveloper(throttle, parts.recorder, _record_nothing, mapped=mapped),
        )
        self._to_receipt = _Route(
            (RouteReceipt(), self.authenticate, throttle, ReadReceipt(parts.database)),
            Enveloper(throttle, parts.recorder, _record_nothing, mapped=mapped),
        )

    def run(self, call: Call) -> Awaitable[Answer]:
        route = self._route(call)
        if route is self._to_operation and self._timings.is_due(call.at_s):
            return self._run_timed(call)
        return self._pass(call, route)

    async def _run_timed(self, call: Call) -> Answer:
        call.reached = reached = []
        answer = await self._pass(call, self._to_operation_timed)
        if call.account_id is not None:
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
            call.request, _ = self._decode.decode(call.operation.name, raw)

        stages, enveloper = self._of_an_item
        return await self._pass(call, _Route((decode, *stages), enveloper))

    async def _pass(self, call: Call, route: _Route) -> Answer:
        stages, enveloper = route
        is_free = route is self._to_account or route is self._to_receipt
        try:
            for stage in stages:
                waiting = stage(call)
                if waiting is not None:
                    await waiting
        except AlreadyAnswered as found:
            return await self._answer_again(call, found.kept)
        except DryRunDone:
            over_limit = await self._count_failed(call)
            return enveloper.failure(call, over_limit) if over_limit else enveloper.success(call)
        except (Refusal, ShortageError, DayCapError) as error:
            over_limit = None if is_free else await self._count_failed(call)
            return enveloper.failure(call, over_limit or error)
        except Exception as error:
            return enveloper.failure(call, error)
        return enveloper.success(call)

    def refuse(self, call: Call, refusal: Refusal) -> Answer:
        """The answer to a request that is refused before the first stage."""
        answer = self._to_operation.enveloper.failure(call, refusal)
        return replace(answer, status=refusal.reason.value.status)

    def _route(self, call: Call) -> _Route:
        if call.path.startswith((RECEIPTS_PATH, ACCOUNT_PATH)):
            is_receipt = call.path.startswith(RECEIPTS_PATH)
            return self._to_receipt if is_receipt else self._to_account
        return self._to_batch if call.path in _BATCH_PATHS else self._to_operation

    async def _answer_again(self, call: Call, kept: KeptAnswer) -> Answer:
        enveloper = self._to_operation.enveloper
        try:
            self._replay.check_same(call, kept)
            # If counting fails, so does the call. The stored answer may be on the primary alone, if
            # its commit's wait for the standby timed out. The commit that counts this call is later
            # in the log, so it also waits for all that was before.
            waiting = self._settle.replay(call, kept.request_id)
            if waiting is not None:
                await waiting
            self._replay.repeat(call, kept)
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
