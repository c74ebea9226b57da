"""The composition root: every part is made and joined here."""

import logging
import socket
import sys
from collections.abc import Awaitable

from starlette.applications import Starlette

from tollway.calendar import Calendar
from tollway.carriers.connectors.breaker import State
from tollway.carriers.connectors.exchange import open_client
from tollway.carriers.connectors.remotes import Remotes
from tollway.carriers.reconciling import Reconciler
from tollway.carriers.shop_codes import ShopCodes
from tollway.carriers.vault import Vault, load_vault
from tollway.consent.links import Links
from tollway.consent.standing import Standings
from tollway.console.routes import console_routes
from tollway.demo.sandbox import Sandbox
from tollway.ledger.client_tokens import sweep_client_tokens
from tollway.ledger.directory import Directory
from tollway.ledger.holds import count_open_holds
from tollway.ledger.identity import World
from tollway.ledger.keeping import sweep_kept
from tollway.ledger.settlement import Settler
from tollway.ledger.tokens import record_use
from tollway.ledger.uncharged import UnchargedCalls
from tollway.oauth.routes import oauth_routes
from tollway.openapi import openapi
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.coupon_claims.descriptor import COUPON_CLAIMS
from tollway.operations.coupon_claims.handler import CouponClaimsHandler
from tollway.operations.handling import Handler
from tollway.operations.orders.descriptor import ORDERS
from tollway.operations.orders.handler import OrdersHandler
from tollway.operations.product_analysis.descriptor import PRODUCT_ANALYSIS
from tollway.operations.product_analysis.handler import ProductAnalysisHandler
from tollway.operations.promotion_material.descriptor import PROMOTION_MATERIAL
from tollway.operations.promotion_material.handler import PromotionMaterialHandler
from tollway.operations.waybills.asking import Asking
from tollway.operations.waybills.descriptor import WAYBILLS
from tollway.operations.waybills.handler import WaybillHandler
from tollway.probes import probe_routes
from tollway.push.routes import push_routes
from tollway.retention.applying import Retention
from tollway.settings import Settings
from tollway.store.clock import common_ms
from tollway.store.database import Database, StoreError
from tollway.store.key_marks import files_of, use_files
from tollway.store.migrate import check_current, newest_revision
from tollway.store.months import make_months_ahead
from tollway.store.nodes import Presence
from tollway.store.open import open_database, open_reading
from tollway.store.readiness import Readiness
from tollway.store.secret import load_secret
from tollway.store.signing import load_signer
from tollway.store.versions import Versions
from tollway.telemetry.calls import CallRecorder
from tollway.telemetry.metrics import Metrics
from tollway.templates import TEMPLATES_PATH, template_routes
from tollway.toll.asgi import Receive, Scope, Send
from tollway.toll.edge import Edge
from tollway.toll.order import Parts, Side, Toll
from tollway.toll.recall import Memory
from tollway.workers import Crew, Worker

logger = logging.getLogger("tollway.gateway")


class Gateway:
    """One serving process: its database, its toll and its pages."""

    def __init__(self, settings: Settings, crew: Crew, number: int) -> None:
        self._metrics = metrics = Metrics()
        self._worker = Worker(crew, number, metrics)
        self._zone = settings.zone
        self._calendar = Calendar(self._zone)
        self._templates_url = f"{settings.public_address}{TEMPLATES_PATH}"
        self._database = open_database(
            settings.database, metrics, settings.call_timeout_s, settings.database_connections
        )
        self._readiness = Readiness(self._database)
        self._retention = Retention(self._database, settings)
        self._sandbox = Sandbox(self._zone, self._calendar.today)
        self._remotes = Remotes(open_client())
        key_file, secret_file = self._files = files_of(settings)
        secret = load_secret(secret_file.present())
        links = Links(secret, settings.public_address, settings.consent_link_minutes * 60)
        vault = load_vault(key_file.present())
        self._fingerprinter = load_signer(key_file.path, "request fingerprint")
        self._reconciler = Reconciler(self._database, self._remotes, vault, World())
        versions = Versions(self._database)
        self._reading = open_reading(settings, self._database, versions, metrics)
        name = f"{socket.gethostname()}:{settings.port}"
        self._presence = Presence(self._database, World().new_id("node_"), name, newest_revision())
        directory = Directory(self._database, versions)
        settler = Settler(
            self._database, metrics, settings.call_timeout_s, directory.remember_amount
        )
        sandbox_settler = self._sandbox.settler(settings.call_timeout_s)
        self._recorder = CallRecorder(metrics, sys.stderr, settings.log_calls)
        self._uncharged = UnchargedCalls(self._database, metrics)
        self._toll = Toll(
            Parts(
                settings=settings,
                metrics=metrics,
                database=self._database,
                versions=versions,
                directory=directory,
                links=links,
                live=self._side(self._database, self._reading, versions, vault, settler),
                sandbox=self._side(
                    self._sandbox.database,
                    self._sandbox.database,
                    Versions(self._sandbox.database),
                    self._sandbox.vault,
                    sandbox_settler,
                ),
                recorder=self._recorder,
                uncharged=self._uncharged,
            )
        )
        self._edge = Edge(self._toll, settings, metrics)
        mapped = settings.http_status == "mapped"
        description = openapi(OPERATIONS, settings.public_address, mapped=mapped)
        routes = [
            *probe_routes(self._worker.metrics, self.is_ready, description),
            *console_routes(self._database, settings, secret, links),
            *push_routes(self._database, vault.sealer, settings),
            *oauth_routes(self._database, settings, metrics),
            *template_routes(),
        ]
        self._pages = Starlette(routes=routes)
        self._page_paths = {route.path for route in routes}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # The toll is the default, so that every unknown path is answered with its envelope.
        inner = self._pages if scope["path"] in self._page_paths else self._edge
        return inner(scope, receive, send)

    def _side(
        self,
        database: Database,
        reading: Database,
        versions: Versions,
        vault: Vault,
        settler: Settler,
    ) -> Side:
        world = World()
        reconciler = Reconciler(database, self._remotes, vault, world)
        asking = Asking(self._remotes, reconciler, vault, world)
        handlers: dict[str, Handler] = {
            PRODUCT_ANALYSIS.name: ProductAnalysisHandler(reading, versions, self._calendar.today),
            COUPON_CLAIMS.name: CouponClaimsHandler(reading, self._zone),
            PROMOTION_MATERIAL.name: PromotionMaterialHandler(reading),
            WAYBILLS.name: WaybillHandler(
                ShopCodes(database), asking, vault, world, self._templates_url
            ),
            ORDERS.name: OrdersHandler(reading, vault.sealer, self._zone),
        }
        memory = Memory(database, vault.sealer, self._fingerprinter)
        return Side(handlers, Standings(database, versions), settler, memory)

    async def start(self) -> None:
        await check_current(self._database)
        await use_files(self._database, self._files)
        await self._presence.refresh(World().at_ms())
        # Once more: whoever migrates either saw that this one serves, or has changed the schema.
        await check_current(self._database)
        await make_months_ahead(self._database, World().at_ms() // 1000)
        await self._worker.open()

    async def tend(self) -> None:
        """The regular work of every now and then."""
        await make_months_ahead(self._database, World().at_ms() // 1000)
        await self._tidy()

    async def drop_old(self) -> None:
        """Drops what is older than the settings say."""
        await self._retention.apply(World().at_ms())

    async def _tidy(self) -> None:
        """The part of it that is small enough to be done before a stop."""
        now_ms = World().at_ms()
        await self._presence.refresh(now_ms)
        await sweep_kept(self._database, now_ms)
        await sweep_client_tokens(self._database, now_ms // 1000)
        used = self._toll.authenticate.take_used()
        if used:
            await record_use(self._database, used)

    async def reconcile(self) -> None:
        """Settles the waybills that wait for their carrier; tells of those that wait too long."""
        overdue = [each for each in await self._reconciler.settle_all() if each.is_overdue]
        holds = await count_open_holds(
            self._database, await common_ms(self._database, World().at_ms())
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

    async def is_ready(self) -> bool:
        if self._worker.crew.is_draining:
            return False
        return await self._readiness.takes_writes()

    async def stop(self) -> None:
        await self._worker.close()
        try:
            await self._tidy()
            await self._presence.end()
        except StoreError as error:
            logger.error("the last regular work before the stop failed: %s", error)
        self._recorder.tell()
        await self._uncharged.finish()
        await self._remotes.close()
        if self._reading is not self._database:
            await self._reading.close()
        await self._database.close()
        await self._sandbox.close()
