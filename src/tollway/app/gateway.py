"""One serving process: every part of a gateway is made and joined here."""

import logging
import socket
import sys
from collections.abc import Awaitable

from starlette.applications import Starlette
from starlette.routing import Route

from tollway.app.resources import Resources
from tollway.app.sides import live_side, sandbox_side
from tollway.app.upkeep import Upkeep
from tollway.consent.links import Links
from tollway.console.routes import console_routes
from tollway.ledger.directory import Directory
from tollway.ledger.identity import World
from tollway.ledger.settlement import Settler
from tollway.ledger.uncharged import UnchargedCalls
from tollway.oauth.routes import oauth_routes
from tollway.openapi.document import openapi
from tollway.operations.catalogue import OPERATIONS
from tollway.probes import probe_routes
from tollway.push.routes import push_routes
from tollway.settings import Settings
from tollway.store.database import StoreError
from tollway.store.key_marks import use_files
from tollway.store.migrate import check_current, newest_revision
from tollway.store.months import make_months_ahead
from tollway.store.nodes import Presence
from tollway.store.readiness import Readiness
from tollway.telemetry.calls import CallRecorder
from tollway.telemetry.metrics import Metrics
from tollway.templates import template_routes
from tollway.toll.asgi import Receive, Scope, Send
from tollway.toll.edge import Edge
from tollway.toll.order import Parts, Toll
from tollway.workers import Crew, Worker

logger = logging.getLogger("tollway.gateway")


class Gateway:
    """One serving process: its database, its toll and its pages."""

    def __init__(self, settings: Settings, crew: Crew, number: int) -> None:
        self._settings = settings
        self._metrics = metrics = Metrics()
        self._worker = Worker(crew, number, metrics)
        self._resources = Resources(settings, metrics)
        self._database = database = self._resources.database
        self._readiness = Readiness(database)
        name = f"{socket.gethostname()}:{settings.port}"
        self._presence = Presence(database, World().new_id("node_"), name, newest_revision())
        self._recorder = CallRecorder(metrics, sys.stderr, settings.log_calls)
        self._uncharged = UnchargedCalls(database, metrics)
        self._links = Links(
            self._resources.secret, settings.public_address, settings.consent_link_minutes * 60
        )
        toll = self._toll()
        self._edge = Edge(toll, settings, metrics)
        routes = self._routes()
        self._pages = Starlette(routes=routes)
        self._page_paths = {route.path.encode() for route in routes}
        self.upkeep = Upkeep(
            settings, self._resources, self._presence, toll.authenticate.take_used, metrics
        )

    def _toll(self) -> Toll:
        settings, resources = self._settings, self._resources
        directory = Directory(self._database, resources.versions)
        settler = Settler(
            self._database, self._metrics, settings.call_timeout_s, directory.remember_amount
        )
        return Toll(
            Parts(
                settings=settings,
                metrics=self._metrics,
                database=self._database,
                versions=resources.versions,
                directory=directory,
                links=self._links,
                live=live_side(settings, resources, settler),
                sandbox=sandbox_side(settings, resources),
                recorder=self._recorder,
                uncharged=self._uncharged,
            )
        )

    def _routes(self) -> list[Route]:
        """What is answered beside the operations."""
        settings, resources, database = self._settings, self._resources, self._database
        mapped = settings.http_status == "mapped"
        description = openapi(OPERATIONS, settings.public_address, mapped=mapped)
        return [
            *probe_routes(self._worker.metrics, self.is_ready, description),
            *console_routes(database, settings, resources.secret, self._links),
            *push_routes(database, resources.vault.sealer, settings),
            *oauth_routes(database, settings, self._metrics),
            *template_routes(),
        ]

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # The toll is the default, so that every unknown path is answered with its envelope. Paths
        # as they were sent: whoever stands in front lets them through by that.
        inner = self._pages if scope["raw_path"] in self._page_paths else self._edge
        return inner(scope, receive, send)

    async def start(self) -> None:
        await check_current(self._database)
        await use_files(self._database, self._resources.files)
        await self._presence.refresh(World().at_ms())
        # Once more: whoever migrates either saw that this one serves, or has changed the schema.
        await check_current(self._database)
        await make_months_ahead(self._database, World().at_ms() // 1000)
        await self._worker.open()

    async def is_ready(self) -> bool:
        if self._worker.crew.is_draining:
            return False
        return await self._readiness.takes_writes()

    async def stop(self) -> None:
        await self._worker.close()
        try:
            await self.upkeep.tidy()
            await self._presence.end()
        except StoreError as error:
            logger.error("the last regular work before the stop failed: %s", error)
        self._recorder.tell()
        await self._uncharged.finish()
        await self._resources.close()
