"""The background work of a gateway: sweeping, dropping old rows, reconciling pending waybills."""

import logging
import time
from collections.abc import Awaitable, Callable

from tollway.carriers.connectors.breaker import State
from tollway.carriers.pool_levels import numbers_left
from tollway.carriers.reconciling import Reconciler
from tollway.consent.erasures import Erasure, open_erasures
from tollway.gateway.probes import Readiness
from tollway.gateway.resources import Resources
from tollway.gateway.retention import Retention
from tollway.identity.sessions import sweep_sessions
from tollway.identity.sign_in_limits import sweep_attempts
from tollway.ledger.clients import sweep_client_tokens
from tollway.ledger.holds import count_open_holds
from tollway.ledger.idempotency import oldest_kept_s, sweep_kept
from tollway.ledger.runtime import Runtime, cautious_clock
from tollway.ledger.tokens import record_use
from tollway.ledger.usage import ENTRIES_AT_ONCE, roll_up
from tollway.pipeline.authenticate import Authenticate
from tollway.settings import Settings
from tollway.store.attempts import Attempts
from tollway.store.clock import clock_offset_s, common_ms, earlier_ms
from tollway.store.database import Database
from tollway.store.last_runs import AUDIT, BACKUP, last_outcomes
from tollway.store.months import make_months_ahead
from tollway.store.serving_nodes import Presence
from tollway.telemetry.metrics import Metrics
from tollway.webhooks.addresses import Addresses
from tollway.webhooks.delivery import Deliverer
from tollway.webhooks.delivery_log import sweep_deliveries
from tollway.webhooks.polled_events import watch

logger = logging.getLogger("tollway.gateway")

_ERASE_AGAIN_S = 60
_ERASE_PAUSE_FACTOR = 10
_DAY_S = 86_400
_WARN_AGAIN_S = 3600


class Upkeep:
    """The regular work on a gateway's database.

    The first worker of a gateway also measures what is the same for all workers.
    """

    def __init__(
        self,
        settings: Settings,
        resources: Resources,
        presence: Presence,
        authenticate: Authenticate,
        metrics: Metrics,
        readiness: Readiness,
        *,
        is_first: bool,
    ) -> None:
        self._database = resources.database
        self._remotes = resources.remotes
        self._sandbox = resources.sandbox
        self._presence = presence
        self._authenticate = authenticate
        self._gauges = metrics.gauges
        self._readiness = readiness
        self._is_first = is_first
        self._zone = settings.zone
        self._read_lag_s = settings.read_lag_s
        self._sealer = resources.vault.sealer
        self._erase_again_s: dict[tuple[str, int], float] = {}
        self._erase_failed: dict[tuple[str, int], bool] = {}
        self._attempts = Attempts()
        self._began_s = time.time()
        self._clock = cautious_clock()
        self._warn_again_s = 0.0
        addresses = Addresses(settings.internal_hosts)
        self._deliverer = Deliverer(self._database, self._sealer, addresses, Runtime())
        self._retention = Retention(resources.database, settings)
        self._reconciler = Reconciler(
            resources.database, resources.remotes, resources.vault, Runtime()
        )

    async def tend(self) -> None:
        """The regular work, step by step: a step that fails does not stop the others."""
        at_s = Runtime().at_s()
        await self._try("months", "making months", make_months_ahead(self._database, at_s))
        await self.tidy()
        # For the metric: without a load balancer, nothing else checks readiness.
        await self._readiness.problem()

    async def tidy(self) -> None:
        """The short part of the regular work."""
        now_ms = Runtime().at_ms()
        await self._try("presence", "reporting this node", self._presence.refresh(now_ms))
        await self.record_use()
        swept = sweep_kept(self._database, self._clock.at_ms())
        await self._try("kept_answers", "sweeping kept answers", swept)
        await self._try("sandbox", "sweeping the sandbox", self._sandbox.sweep())
        await self._try("tokens", "sweeping tokens", self._swept(sweep_client_tokens))
        await self._try("webhooks", "sweeping webhooks", self._swept(sweep_deliveries))
        await self._try("sessions", "sweeping sessions", self._swept(sweep_sessions))
        what = "sweeping counts of sign-ins"
        await self._try("sign_in_attempts", what, self._swept(sweep_attempts))
        self._warn_if_late()

    def _warn_if_late(self) -> None:
        """Warns that old rows stay: every step succeeds, so nothing else shows that they delete too
        little."""
        days, running_s = int(self._clock.behind_s // _DAY_S), time.monotonic()
        if self._is_first and days > 0 and running_s >= self._warn_again_s:
            self._warn_again_s = running_s + _WARN_AGAIN_S
            logger.warning(
                "what is old is deleted %d days late, because the clock was set ahead: "
                "once it is right, restart the gateway",
                days,
            )

    async def _swept(self, sweep: Callable[[Database, int], Awaitable[int]]) -> None:
        """Sweeps what has expired by the shared clock too: a node whose clock is ahead would let
        people try more passwords, or end their sessions."""
        await sweep(self._database, await self._earlier_s())

    async def _earlier_s(self) -> int:
        return await earlier_ms(self._database, self._clock.at_ms()) // 1000

    async def watch_accounts(self) -> None:
        """Records the webhook events that are found by polling."""
        await self._try("watching", "watching accounts", watch(self._database, Runtime()))

    async def deliver_webhooks(self) -> None:
        # Reports progress, because with a slow endpoint `deliver_due` may not return for long.
        delivering = self._deliverer.deliver_due(lambda: self._succeeded("deliveries"))
        await self._try("deliveries", "delivering webhooks", delivering)

    async def close(self) -> None:
        await self._deliverer.close()

    async def record_use(self) -> None:
        """Stores when tokens were used, which only this process knows; also done before a stop."""
        await self._try("token_use", "storing when tokens were used", self._record_use())

    async def _record_use(self) -> None:
        used = self._authenticate.take_used()
        try:
            await record_use(self._database, used)
        finally:
            self._authenticate.put_back_used(used)

    async def roll_up(self) -> None:
        """Adds new charges to the sums of usage until it has caught up. What is charged meanwhile
        waits for the next time: under load, there would be no end."""
        if self._is_first:
            await self._try("usage", "adding up usage", self._roll_up())

    async def _roll_up(self) -> None:
        # It also drops old sums, which must be old by every node's clock.
        while await roll_up(self._database, self._zone, await self._earlier_s()) >= ENTRIES_AT_ONCE:
            self._succeeded("usage")

    async def drop_old(self) -> None:
        """Drops what is older than the settings allow. The workers of a SQLite file share its one
        writer, so only one does it."""
        if self._is_first or self._database.is_shared:
            dropping = self._retention.apply(self._clock.at_ms())
            await self._try("retention", "dropping what is old", dropping)
            self._gauges.retention_unfinished.update(self._retention.unfinished)

    async def erase_receivers(self) -> None:
        """Erases what the owners of shops want erased; only the first worker does."""
        if self._is_first and not await self._attempts.is_done(
            "erasing receivers", self._erase_all()
        ):
            self._failed("erasing")

    async def _erase_all(self) -> None:
        is_failing = False
        for erasure in await open_erasures(self._database):
            began_s, which = time.monotonic(), (erasure.owner_id, erasure.asked_at_s)
            if began_s >= self._erase_again_s.get(which, 0):
                what = f"erasing the receivers of shop {erasure.owner_id}"
                # With a line each time: it pauses for long, and another node may complete it.
                is_done = await Attempts().is_done(what, self._erase(erasure))
                self._erase_failed[which] = not is_done
                # If it failed or waits for a carrier, pause: each attempt reads all waybills.
                took_s = time.monotonic() - began_s
                again_s = max(_ERASE_AGAIN_S, _ERASE_PAUSE_FACTOR * took_s)
                self._erase_again_s[which] = began_s + again_s
            # A failed erasure that is not due again yet still counts as failing.
            is_failing |= self._erase_failed[which]
        if is_failing:
            self._failed("erasing")
        else:
            self._succeeded("erasing")

    async def _erase(self, erasure: Erasure) -> None:
        # Loaded when there is one: most gateways never need it.
        from tollway.gateway.receiver_erasure import erase  # noqa: PLC0415

        await erase(self._database, self._sealer, Runtime(), erasure, self._read_lag_s)

    async def measure(self) -> None:
        """Measures what monitoring needs and no other work finds out."""
        if self._is_first:
            await self._try("measuring", "measuring", self._measure())

    async def _measure(self) -> None:
        self._gauges.clock_offset_s = await clock_offset_s(self._database, time.time)
        now_ms = await common_ms(self._database, Runtime().at_ms())
        gauges = self._gauges.database
        gauges.oldest_kept_answer_s = await oldest_kept_s(self._database, now_ms)
        gauges.numbers_left = await numbers_left(self._database)
        runs = await last_outcomes(self._database)
        if not self._database.is_shared:
            gauges.backup_at_s, _ = runs.get(BACKUP, (0, True))
        gauges.audit_at_s, gauges.audit_passed = runs.get(AUDIT, (0, None))

    async def reconcile(self) -> None:
        """Reconciles the waybills that wait for their carrier; logs those that wait too long."""
        await self._try("reconciliation", "reconciliation", self._reconcile())

    async def _reconcile(self) -> None:
        overdue = [each for each in await self._reconciler.settle_all() if each.is_overdue]
        if self._is_first:
            await self._count_holds()
        # A copy: a new carrier is added from the writer's thread.
        for wp_code, breaker in list(self._remotes.breakers.items()):
            self._gauges.carriers_shut[wp_code] = breaker.state is not State.CLOSED
        for each in overdue:
            logger.error(
                "waybill %s of carrier %s waits for %d s already: %s",
                each.waybill.object_id,
                each.waybill.wp_code,
                each.age_s,
                each.outcome,
            )

    async def _count_holds(self) -> None:
        now_ms = await common_ms(self._database, Runtime().at_ms())
        holds = await count_open_holds(self._database, now_ms)
        self._gauges.database.waybills_pending = holds.open
        self._gauges.database.waybills_overdue = holds.overdue

    def _succeeded(self, step: str) -> None:
        self._gauges.upkeep_succeeded_s[step] = time.time()

    def _failed(self, step: str) -> None:
        # Without a time, no alert would fire for a step that has failed since the start.
        self._gauges.upkeep_succeeded_s.setdefault(step, self._began_s)

    async def _try(self, step: str, what: str, work: Awaitable[object]) -> None:
        if await self._attempts.is_done(what, work):
            self._succeeded(step)
        else:
            self._failed(step)
