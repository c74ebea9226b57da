"""One serving process: every part of a gateway is made and joined here."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from time import time
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import Route

from tollway.consent.links import ConsentLinks
from tollway.demo.contents import sandbox_contents
from tollway.demo.world import curl_line, saved_world, world_path
from tollway.gateway.connections import Connections
from tollway.gateway.oauth import oauth_routes
from tollway.gateway.openapi import openapi
from tollway.gateway.own_calls import OwnCalls
from tollway.gateway.page_work import page_work
from tollway.gateway.probes import Readiness, probe_routes
from tollway.gateway.resources import Resources, live_side, sandbox_side
from tollway.gateway.upkeep import Upkeep
from tollway.gateway.worker_group import Worker, WorkerGroup
from tollway.intake.push import push_routes
from tollway.ledger.charging import ChargeBatcher
from tollway.ledger.directory import Directory
from tollway.ledger.refused_calls import RefusedCallLog
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import ALL_TABLES, OPERATIONS, RECORD_KINDS, WITH_COMPANIONS
from tollway.pipeline.bodies import (
    BodyShare,
    ByteBudget,
    Message,
    Receive,
    Scope,
    Send,
    receive_within,
)
from tollway.pipeline.http import Edge, common_headers, headers_by_name, improper_request
from tollway.pipeline.pipeline import Parts, Pipeline
from tollway.settings import Settings, SettingsError
from tollway.store.concurrency import BoundedSlots
from tollway.store.database import StoreError
from tollway.store.key_check import use_files
from tollway.store.migrate import check_current, newest_revision
from tollway.store.months import make_months_ahead
from tollway.store.nodes import NodeLoad, Presence
from tollway.telemetry.calls import CallRecorder
from tollway.telemetry.logs import LogWriter, node_name
from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import (
    CLIENT_ID_HEADER,
    CONTEXT,
    ID_HEADER,
    RequestContext,
    RequestLog,
    new_request_id,
    read_client_ids,
)
from tollway.web.demo_site import demo_routes
from tollway.web.front import DemoHints
from tollway.web.reference import SandboxRow
from tollway.web.routes import Parts as WebParts
from tollway.web.routes import template_routes, web_routes

if TYPE_CHECKING:
    from tollway.gateway.mcp import AgentTools

logger = logging.getLogger("tollway.gateway")


# Of larger answers a few are in memory at once. After one of them the connection ends: a stranger
# that sends a hundred requests and reads nothing then holds no connection with the other answers.
_LARGE_ANSWER_BYTES = 65_536
_LARGE_AT_ONCE = 16
_LARGE_ANSWER_S = 0.01


def _content_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    return next((int(value) for name, value in headers if name == b"content-length"), 0)


def _demo_hints(settings: Settings) -> DemoHints | None:
    """How to sign in to the demo world, if this machine alone can reach the gateway."""
    if settings.public_url or settings.host not in ("127.0.0.1", "::1", "localhost"):
        return None
    try:
        world = saved_world(world_path(settings))
    except StoreError:
        return None
    if world is None:
        return None
    curl = curl_line(world, settings.address)
    return DemoHints(
        world.owner_login, world.owner_password, world.member_login, world.member_password, curl
    )


def _sandbox_rows() -> dict[str, list[SandboxRow]]:
    return {
        language: [
            SandboxRow(
                each.kind.fill(language, {}),
                each.parameter,
                each.value,
                each.note.fill(language, {}),
            )
            for each in sandbox_contents()
        ]
        for language in ("en", "zh")
    }


class _Pages:
    """The application of all paths but the operations: every answer gets an id, and the one that
    the client sent."""

    def __init__(
        self,
        routes: Sequence[Route],
        settings: Settings,
        budget: ByteBudget,
    ) -> None:
        self._pages = Starlette(routes=routes)
        self._common_headers = common_headers(settings)
        self._budget = budget
        self._large = BoundedSlots(_LARGE_AT_ONCE, "too many large answers at once")
        paths = [route.path for route in routes]
        self._paths = {path.encode() for path in paths}
        # Below these every path is a page, if only one that says there is none.
        rest = "{rest:path}"
        self._areas = tuple(path.removesuffix(rest).encode() for path in paths if rest in path)

    def has(self, raw_path: bytes) -> bool:
        return raw_path in self._paths or raw_path.startswith(self._areas)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = read_client_ids(headers_by_name(scope["headers"]))
        context = RequestContext(new_request_id(time()), client)
        added = [(ID_HEADER, context.request_id.encode("ascii")), *self._common_headers]
        if client.request_id:
            added.append((CLIENT_ID_HEADER, client.request_id.encode("ascii")))

        async def send_with_ids(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                if _content_length(headers) > _LARGE_ANSWER_BYTES:
                    added.append((b"connection", b"close"))
                    await held.enter_async_context(self._one_large())
                message = {**message, "headers": [*headers, *added]}
            await send(message)

        # Who sends it is not known yet, only from where.
        async with AsyncExitStack() as held:
            share = held.enter_context(BodyShare(self._budget, scope["client"][0]))
            within = receive_within(receive, share)
            await self._pages({**scope, CONTEXT: context}, within, send_with_ids)

    @asynccontextmanager
    async def _one_large(self) -> AsyncIterator[None]:
        async with self._large.taken(None):
            yield
            # The server has a copy of its own now, and needs a moment to pass it on.
            await asyncio.sleep(_LARGE_ANSWER_S)


class Gateway:
    """One serving process: its database, its pipeline and its pages."""

    def __init__(
        self, settings: Settings, worker_group: WorkerGroup, number: int, log: LogWriter
    ) -> None:
        self._settings = settings
        self._metrics = metrics = Metrics()
        self._worker = Worker(worker_group, number, metrics)
        self._resources = Resources(settings, metrics)
        self._database = database = self._resources.database
        self.readiness = Readiness(
            database,
            is_draining=lambda: worker_group.is_draining,
            is_crowded=self._resources.is_crowded,
        )
        metrics.levels.unready = self.readiness.by_reason
        metrics.levels.schema = newest_revision()
        name, node_id = node_name(settings.port), Runtime().new_id("node_")
        self._presence = Presence(database, node_id, name, newest_revision(), self._load)
        self._recorder = CallRecorder(metrics, log, settings.log_calls)
        self._refused_calls = RefusedCallLog(database, metrics)
        self._links = ConsentLinks(
            self._resources.secret, settings.public_address, settings.consent_link_minutes * 60
        )
        pipeline = self._pipeline()
        budget = ByteBudget()
        self._edge = Edge(pipeline, settings, metrics, budget)
        self._agents = self._agent_tools(pipeline) if settings.mcp == "on" else None
        self.connections = Connections(
            settings.port, settings.connections_max, settings.read_timeout_s, self._edge.in_hand
        )
        routes = self._routes(RequestLog(log, settings.log_calls))
        self._pages = _Pages(routes, settings, budget)
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

    def _pipeline(self) -> Pipeline:
        settings, resources = self._settings, self._resources
        directory = Directory(self._database, resources.versions)
        batcher = ChargeBatcher(
            self._database, self._metrics, settings.call_timeout_s, directory.remember_amount
        )
        return Pipeline(
            Parts(
                settings=settings,
                metrics=self._metrics,
                database=self._database,
                versions=resources.versions,
                directory=directory,
                links=self._links,
                vault=resources.vault,
                remotes=resources.remotes,
                live=live_side(settings, resources, batcher),
                sandbox=sandbox_side(settings, resources),
                recorder=self._recorder,
                refused_calls=self._refused_calls,
            )
        )

    def _routes(self, log: RequestLog) -> list[Route]:
        """The paths that are not operations."""
        settings, resources, database = self._settings, self._resources, self._database
        sealer, metrics = resources.vault.sealer, self._metrics
        mapped = settings.http_status == "mapped"
        description = openapi(WITH_COMPANIONS, settings.public_address, mapped=mapped)
        return [
            *probe_routes(self._worker.metrics, self.readiness, description),
            *web_routes(self._web_parts()),
            *push_routes(database, sealer, settings, RECORD_KINDS.values(), metrics, log),
            *oauth_routes(database, settings, metrics, log),
            *template_routes(),
            *([Route("/mcp", self._agents)] if self._agents else []),
            *demo_routes(),
        ]

    def _agent_tools(self, pipeline: Pipeline) -> "AgentTools":
        # Loaded only where it is wanted: it takes longer than all the rest.
        try:
            from tollway.gateway.mcp import AgentTools  # noqa: PLC0415
        except ModuleNotFoundError:
            raise SettingsError("mcp = on needs the package mcp: install tollway[mcp].") from None
        return AgentTools(OPERATIONS, pipeline, self._edge, self._database)

    def _web_parts(self) -> WebParts:
        async def is_ready() -> bool:
            return await self.readiness.problem() is None

        return WebParts(
            database=self._database,
            settings=self._settings,
            secret=self._resources.secret,
            vault=self._resources.vault,
            links=self._links,
            is_ready=is_ready,
            demo=_demo_hints(self._settings),
            sandbox=_sandbox_rows(),
            calls=OwnCalls(self._edge),
            metrics=self._worker.metrics,
            work=page_work(self._settings, self._resources),
        )

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # The pipeline is the default, so that every unknown path is answered with an envelope. The
        # raw path is compared, because reverse proxies match on the raw path.
        refusal = improper_request(scope)
        if refusal is not None:
            return self._edge.refuse(scope, receive, send, refusal)
        inner = self._pages if self._pages.has(scope["raw_path"]) else self._edge
        return inner(scope, receive, send)

    async def start(self) -> None:
        await check_current(self._database)
        await use_files(self._database, self._resources.files, ALL_TABLES)
        await self._presence.refresh(Runtime().at_ms())
        # Once more: a migration either saw that this process serves, or has changed the schema.
        await check_current(self._database)
        await make_months_ahead(self._database, Runtime().at_ms() // 1000)
        await self._worker.open()
        if self._agents is not None:
            await self._agents.start()

    async def stop(self) -> None:
        if self._agents is not None:
            await self._agents.stop()
        await self._worker.close()
        await self.upkeep.close()
        try:
            await self.upkeep.tidy()
            await self._presence.end()
        except StoreError as error:
            logger.error("the last regular work before the stop failed: %s", error)
        self._recorder.report()
        await self._refused_calls.finish()
        await self._resources.close()
