"""The background work of a gateway: sweeping, dropping old rows, reconciling pending waybills."""

import logging
from collections.abc import Awaitable

from tollway.carriers.connectors.breaker import State
from tollway.carriers.reconciling import Reconciler
from tollway.gateway.resources import Resources
from tollway.ledger.clients import sweep_client_tokens
from tollway.ledger.holds import count_open_holds
from tollway.ledger.idempotency import sweep_kept
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import record_use
from tollway.pipeline.authenticate import Authenticate
from tollway.retention.retention import Retention
from tollway.settings import Settings
from tollway.store.clock import common_ms
from tollway.store.database import StoreError
from tollway.store.months import make_months_ahead
from tollway.store.nodes import Presence
from tollway.telemetry.metrics import Metrics

logger = logging.getLogger("tollway.gateway")


class Upkeep:
    """The regular work on a gateway's database."""

    def __init__(
        self,
        settings: Settings,
        resources: Resources,
        presence: Presence,
        authenticate: Authenticate,
        metrics: Metrics,
    ) -> None:
        self._database = resources.database
        self._remotes = resources.remotes
        self._presence = presence
        self._authenticate = authenticate
        self._metrics = metrics
        self._retention = Retention(resources.database, settings)
        self._reconciler = Reconciler(
            resources.database, resources.remotes, resources.vault, Runtime()
        )

    async def tend(self) -> None:
        """The regular work, step by step: a step that fails does not stop the others."""
        await _try("making months", make_months_ahead(self._database, Runtime().at_ms() // 1000))
        await self.tidy()

    async def tidy(self) -> None:
        """The short part of the regular work, also done before a stop."""
        now_ms = Runtime().at_ms()
        await _try("reporting this node", self._presence.refresh(now_ms))
        await _try("storing when tokens were used", self._record_use())
        await _try("sweeping kept answers", sweep_kept(self._database, now_ms))
        await _try("sweeping tokens", sweep_client_tokens(self._database, now_ms // 1000))

    async def _record_use(self) -> None:
        used = self._authenticate.take_used()
        try:
            await record_use(self._database, used)
        finally:
            self._authenticate.put_back_used(used)

    async def drop_old(self) -> None:
        """Drops what is older than the settings say."""
        await self._retention.apply(Runtime().at_ms())

    async def reconcile(self) -> None:
        """Reconciles the waybills that wait for their carrier; logs those that wait too long."""
        overdue = [each for each in await self._reconciler.settle_all() if each.is_overdue]
        holds = await count_open_holds(
            self._database, await common_ms(self._database, Runtime().at_ms())
        )
        self._metrics.waybills_pending.set(holds.open)
        self._metrics.waybills_overdue.set(holds.overdue)
        # A copy: a new carrier is added from the writer's thread.
        for wp_code, breaker in list(self._remotes.breakers.items()):
            self._metrics.carrier_shut.labels(wp_code).set(breaker.state is not State.CLOSED)
        for each in overdue:
            logger.error(
                "waybill %s of carrier %s waits for %d s already: %s",
                each.waybill.object_id,
                each.waybill.wp_code,
                each.age_s,
                each.outcome,
            )


async def _try(what: str, work: Awaitable[object]) -> None:
    try:
        await work
    except StoreError as error:
        logger.error("%s failed and will be tried again: %s", what, error)
    except Exception:
        logger.exception("%s failed and will be tried again", what)
