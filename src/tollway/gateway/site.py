"""All paths that are neither operations nor probes. Loaded with the first request for one."""

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from starlette.routing import Route

from tollway.audit.report import CHECKS, audit
from tollway.carriers.reconciling import Reconciler, cancel_at_carrier
from tollway.carriers.waybills import Waybill
from tollway.consent.links import ConsentLinks
from tollway.demo.sandbox_guide import sandbox_contents
from tollway.demo.site import demo_routes
from tollway.demo.world_file import curl_line, saved_world, world_path
from tollway.gateway.description import description_route
from tollway.gateway.internal_calls import own_call
from tollway.gateway.oauth import oauth_routes
from tollway.gateway.openapi import openapi
from tollway.gateway.resources import Resources
from tollway.intake.push import push_routes
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import ALL_OPERATIONS, RECORD_KINDS
from tollway.pipeline.http import Edge
from tollway.settings import Settings
from tollway.store.clock import common_ms
from tollway.store.database import StoreError
from tollway.store.open import is_shared, sqlite_path
from tollway.store.sqlite.database import back_up_file
from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import RequestLog
from tollway.web.area import GatewayWork
from tollway.web.routes import PageDependencies, template_routes, web_routes

_NAME = "tollway"
_REPORTED_EVERY_S = 1.0


def site_routes(
    settings: Settings,
    resources: Resources,
    metrics: Metrics,
    links: ConsentLinks,
    log: RequestLog,
    is_ready: Callable[[], Awaitable[bool]],
    edge: Edge,
    metrics_of_all_workers: Callable[[], Awaitable[bytes]],
) -> list[Route]:
    database, vault = resources.database, resources.vault
    pages = PageDependencies(
        database=database,
        settings=settings,
        secret=resources.secret,
        vault=vault,
        links=links,
        is_ready=is_ready,
        demo=_demo_hints(settings),
        sandbox=sandbox_contents(),
        calls=partial(own_call, edge),
        metrics=metrics_of_all_workers,
        work=_page_work(settings, resources),
    )
    mapped = settings.http_status == "mapped"
    routes = [
        *web_routes(pages),
        *push_routes(database, vault.sealer, settings, RECORD_KINDS.values(), metrics, log),
        *oauth_routes(database, settings, metrics, log),
        *template_routes(),
        *demo_routes(),
    ]
    description = openapi(ALL_OPERATIONS, settings.public_address, mapped=mapped)
    # Last, because it opens a file, which would stay open if a later step failed.
    return [*routes, description_route(description)]


def _page_work(settings: Settings, resources: Resources) -> GatewayWork:
    """Work that pages start, but whose packages they may not import."""
    database = resources.database

    async def run_audit(progress: Callable[[int, int], Awaitable[None]]) -> tuple[bool, str]:
        done = 0

        def count(more: int) -> None:
            nonlocal done
            done += more

        now_ms = await common_ms(database, Runtime().at_ms())
        running = asyncio.create_task(audit(database, now_ms, count))
        try:
            while not running.done():
                await asyncio.wait({running}, timeout=_REPORTED_EVERY_S)
                await progress(done, len(CHECKS))
        finally:
            running.cancel()
        report = await running
        return not report.breaches, report.kept()

    def back_up(destination: Path) -> None:
        back_up_file(sqlite_path(settings.database), str(destination), lambda *_: None)

    async def cancel(waybill: Waybill) -> None:
        await cancel_at_carrier(database, resources.remotes, resources.vault.sealer, waybill)

    reconciler = Reconciler(database, resources.remotes, resources.vault, Runtime())
    # A server has its own tools for copies.
    copying = None if is_shared(settings.database) else back_up
    return GatewayWork(run_audit, copying, cancel, reconciler)


def _demo_hints(settings: Settings) -> dict[str, str] | None:
    """How to sign in to the demo world, if only this machine can reach the gateway."""
    if settings.public_url or settings.host not in ("127.0.0.1", "::1", "localhost"):
        return None
    try:
        world = saved_world(world_path(settings))
    except StoreError:
        return None
    if world is None:
        return None
    # The URL of a server contains a password; the command finds it in the settings.
    where = "" if is_shared(settings.database) else f" --database {settings.database}"
    return {
        "owner_id": world.owner_id_unauthorized,
        "owner_login": world.owner_login,
        "owner_password": world.owner_password,
        "member_login": world.member_login,
        "member_password": world.member_password,
        "operator_command": f"{_own_command()} operator link{where}",
        "curl": curl_line(world, settings.address),
    }


def _own_command() -> str:
    """How to call this program: by its path if the shell does not find its name."""
    called = Path(sys.argv[0])
    return str(called) if called.name == _NAME and shutil.which(_NAME) is None else _NAME
