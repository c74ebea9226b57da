"""One serving process: every part of a gateway is made and wired here."""

import asyncio
import logging
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tollway.consent.links import ConsentLinks
from tollway.contract.receipt import RECEIPTS_PATH
from tollway.gateway.connections import Connections
from tollway.gateway.pages import PUSH_PATH, LazyPages, Pages, is_push, wants_page
from tollway.gateway.probes import Readiness, by_path, probes
from tollway.gateway.resources import Resources, live_environment, sandbox_environment
from tollway.gateway.upkeep import Upkeep
from tollway.gateway.worker_group import Worker, WorkerGroup
from tollway.ledger.call_timings import CallTimings
from tollway.ledger.caller_cache import CallerCache
from tollway.ledger.charging import ChargeBatcher
from tollway.ledger.refused_calls import RefusedCallLog
from tollway.ledger.runtime import Runtime
from tollway.ledger.shared_windows import SharedWindows
from tollway.operations.account_api.operation import PATH as ACCOUNT_PATH
from tollway.operations.catalogue import ALL_OPERATIONS, ALL_TABLES, OPERATIONS
from tollway.pipeline.bodies import ByteBudget, Receive, Scope, Send
from tollway.pipeline.dependencies import PipelineDependencies
from tollway.pipeline.http import Edge, Headers, headers_by_name, improper_request
from tollway.pipeline.pipeline import Pipeline
from tollway.settings import Settings, SettingsError
from tollway.store.concurrency import SingleFlight
from tollway.store.database import StoreError
from tollway.store.key_check import use_files
from tollway.store.migrate import check_current, newest_revision
from tollway.store.months import make_months_ahead
from tollway.store.serving_nodes import NodeLoad, Presence
from tollway.store.sqlite.files import WriteLock
from tollway.telemetry.calls import CallRecorder
from tollway.telemetry.logs import LogWriter, node_name
from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import RequestLog

if TYPE_CHECKING:
    from tollway.gateway.mcp import AgentTools

logger = logging.getLogger("tollway.gateway")

_PATHS = {each.path.encode() for each in ALL_OPERATIONS}
# No page is below these paths.
_CALLS = (ACCOUNT_PATH.encode(), RECEIPTS_PATH.encode(), *_PATHS)


class Gateway:
    """One serving process: its database, its pipeline and its pages."""

    def __init__(
        self, settings: Settings, worker_group: WorkerGroup, number: int, log: LogWriter
    ) -> None:
        self._settings = settings
        self._metrics = metrics = Metrics()
        worker_group.make_folder()
        self.worker = Worker(worker_group, number, metrics)
        self._resources = Resources(settings, metrics, self._write_lock(worker_group))
        self._database = database = self._resources.database
        self.readiness = Readiness(
            database,
            is_draining=lambda: worker_group.is_draining,
            is_crowded=self._resources.is_crowded,
            is_full=self._resources.is_full,
        )
        metrics.gauges.unready = self.readiness.by_reason
        metrics.gauges.schema = newest_revision()
        name, node_id = node_name(settings.port), Runtime().new_id("node_")
        self._presence = Presence(
            database, node_id, name, newest_revision(), self._resources.vault.sealer, self._load
        )
        self._recorder = CallRecorder(metrics, log, settings.log_calls)
        self._refused_calls = RefusedCallLog(database, metrics)
        self._timings = CallTimings(database)
        self._links = ConsentLinks(
            self._resources.secret, settings.public_address, settings.consent_link_minutes * 60
        )
        self._pipeline = pipeline = self._make_pipeline()
        self._budget = budget = ByteBudget()
        self._request_log = RequestLog(log, settings.log_calls)
        self.edge = Edge(pipeline, settings, metrics, budget)
        self._agents = _LazyAgents(self._agent_tools) if settings.mcp == "on" else None
        self.connections = Connections(
            settings.port, settings.connections_max, settings.read_timeout_s, self.edge.in_hand
        )
        apps = probes(self.worker.metrics, self.readiness)
        if self._agents is not None:
            apps["/mcp"] = self._agents
        self._probes = Pages(by_path(apps), apps, settings, budget)
        self._site = LazyPages(self._load_site)
        self.upkeep = Upkeep(
            settings,
            self._resources,
            self._presence,
            pipeline.authenticate,
            metrics,
            self.readiness,
            is_first=number == 1,
        )

    def _load(self) -> NodeLoad:
        return NodeLoad(self.connections.count(), self._resources.lag_ms())

    @staticmethod
    def _write_lock(worker_group: WorkerGroup) -> WriteLock | None:
        """How the workers of a SQLite file share its one writer."""
        return None if worker_group.ring is None else WriteLock(worker_group.folder)

    def _make_pipeline(self) -> Pipeline:
        settings, resources = self._settings, self._resources
        callers = CallerCache(self._database, resources.versions)
        ring = self.worker.worker_group.ring
        batcher = ChargeBatcher(
            self._database,
            self._metrics,
            settings.call_timeout_s,
            callers.remember_amount,
            None if ring is None else SharedWindows(ring),
            settings.charge_wait_ms / 1000,
        )
        return Pipeline(
            PipelineDependencies(
                settings=settings,
                metrics=self._metrics,
                database=self._database,
                versions=resources.versions,
                callers=callers,
                links=self._links,
                vault=resources.vault,
                remotes=resources.remotes,
                live=live_environment(settings, resources, batcher),
                sandbox=sandbox_environment(settings, resources),
                recorder=self._recorder,
                refused_calls=self._refused_calls,
                timings=self._timings,
            )
        )

    def _load_site(self) -> Pages:
        # Takes as long to import as everything else, and calls do not need it.
        from starlette.applications import Starlette  # noqa: PLC0415

        from tollway.gateway.site import site_routes  # noqa: PLC0415
        from tollway.web.front_page import MISSING_PATH  # noqa: PLC0415

        routes = site_routes(
            self._settings,
            self._resources,
            self._metrics,
            self._links,
            self._request_log,
            self._is_ready,
            self.edge,
            self.worker.metrics,
        )
        paths = [route.path for route in routes]
        app = Starlette(routes=routes)
        return Pages(app, paths, self._settings, self._budget, MISSING_PATH)

    async def _is_ready(self) -> bool:
        return await self.readiness.problem() is None

    def _agent_tools(self) -> "AgentTools":
        from tollway.gateway.mcp import AgentTools  # noqa: PLC0415

        settings = self._settings
        return AgentTools(
            OPERATIONS,
            self._pipeline,
            self.edge,
            self._database,
            settings.zone,
            settings.body_timeout_s,
            settings.public_address,
        )

    @staticmethod
    def is_call(scope: Scope) -> bool:
        """Whether a request is certainly a call."""
        # The raw path is compared, because reverse proxies match on the raw path.
        path: bytes = scope["raw_path"]
        return path in _PATHS or path.startswith(_CALLS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The pipeline is the default: for an unknown path, all but browsers get an envelope.
        if self.is_call(scope):
            await self.edge(scope, receive, send)
            return
        headers = headers_by_name(scope["headers"])
        refusal = improper_request(scope, headers)
        if refusal is not None:
            await self.edge.send(self.edge.refuse(scope, headers, refusal), receive, send)
        elif self._probes.has(scope["raw_path"], headers):
            await self._probes(scope, receive, send)
        else:
            await self._answer_by_site(scope, headers, receive, send)

    async def _answer_by_site(
        self, scope: Scope, headers: Headers, receive: Receive, send: Send
    ) -> None:
        site = await self._site.made()
        if site.has(scope["raw_path"], headers):
            await site(scope, receive, send)
        elif is_push(scope):
            # The envelope has status 200, which the sender would take for an acknowledgement.
            await site.answer_at(PUSH_PATH, scope, receive, send)
        elif wants_page(scope, headers):
            await site.answer_missing(scope, receive, send)
        else:
            await self.edge(scope, receive, send)

    async def start(self) -> None:
        # Before anything is answered from data that a killed process may not have synced.
        await self._database.make_durable()
        await check_current(self._database)
        await use_files(self._database, self._resources.files, ALL_TABLES)
        await self._presence.refresh(Runtime().at_ms())
        # Again, against a race: a migration either saw this process's presence, or has changed the
        # schema by now.
        await check_current(self._database)
        await make_months_ahead(self._database, Runtime().at_ms() // 1000)
        await self.worker.open()

    async def stop(self) -> None:
        if self._agents is not None:
            await self._agents.stop()
        await self._pipeline.closings.finish()
        await self.worker.close()
        await self.upkeep.close()
        try:
            await self.upkeep.record_use()
            await self._presence.end()
        except StoreError as error:
            logger.error("the last regular work before the stop failed: %s", error)
        self._recorder.report()
        await self._timings.finish()
        await self._refused_calls.finish()
        await self._resources.close()


class _LazyAgents:
    """The path for agents. Their tools are loaded with the first request, on a thread, because that
    takes as long as starting a gateway."""

    def __init__(self, make: Callable[[], "AgentTools"]) -> None:
        # Checked at the start, so that the operator notices before the first agent does.
        if find_spec("mcp") is None:
            raise SettingsError(
                "mcp = on needs the package mcp: run `make agents`, or "
                "install the wheel with [mcp]."
            )
        self._make = make
        self._tools: AgentTools | None = None
        self._starting = SingleFlight(self._start)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tools = self._tools or await self._starting()
        await tools(scope, receive, send)

    async def _start(self) -> "AgentTools":
        tools = await asyncio.to_thread(self._make)
        await tools.start()
        self._tools = tools
        return tools

    async def stop(self) -> None:
        if self._tools is not None:
            await self._tools.stop()
