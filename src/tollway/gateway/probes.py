"""The paths for monitoring and tools, and whether a gateway is ready for calls, and if not, why."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from enum import StrEnum
from time import monotonic
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tollway.store.cache_versions import write_nothing_new
from tollway.store.concurrency import SingleFlight
from tollway.store.database import Database, StoreBusyError, StoreCrowdedError, StoreError
from tollway.telemetry.families import CONTENT_TYPE

DESCRIPTION_PATH = "/openapi.json"
# The same for all clients until the gateway is upgraded.
_DESCRIPTION_HEADERS = {"Cache-Control": "max-age=300"}
_REMEMBERED_S = 1.0
# The pause after rendering metrics: a multiple of how long that took.
_REST_TIMES, _REST_MAX_S = 9, 0.5


class NotReadyReason(StrEnum):
    """Why a gateway should get no calls."""

    DRAINING = "draining"
    UNAVAILABLE = "database_unavailable"
    BUSY = "database_busy"
    NO_CONNECTIONS = "no_connections"


class Readiness:
    """Tries to write, once for all requests that ask meanwhile. Success is cached for a second; a
    failure is not, so that the end of an outage is seen at once.

    A database server whose disk is full may accept this write but not those of calls: so failed
    calls count too (`is_full`)."""

    def __init__(
        self,
        database: Database,
        *,
        is_draining: Callable[[], bool],
        is_crowded: Callable[[], bool],
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        self._database = database
        self._is_draining = is_draining
        # Whether calls may have to wait for a connection, even though the gateway is ready.
        self.is_crowded = is_crowded
        self._is_full = is_full
        self._attempt = SingleFlight(self._try)
        self._good_until_s = float("-inf")
        self._last_problem: NotReadyReason | None = None

    async def problem(self) -> NotReadyReason | None:
        if self._is_draining():
            return NotReadyReason.DRAINING
        if self._is_full():
            self._last_problem = NotReadyReason.UNAVAILABLE
        elif self._last_problem is not None or monotonic() >= self._good_until_s:
            self._last_problem = await self._attempt()
        return self._last_problem

    def by_reason(self) -> dict[str, bool]:
        """What the last attempt found; for the metrics, which must not wait."""
        found = NotReadyReason.DRAINING if self._is_draining() else self._last_problem
        return {reason.value: reason is found for reason in NotReadyReason}

    async def _try(self) -> NotReadyReason | None:
        try:
            await self._database.write(write_nothing_new)
        except StoreError as error:
            if isinstance(error, StoreCrowdedError) or self.is_crowded():
                return NotReadyReason.NO_CONNECTIONS
            return (
                NotReadyReason.BUSY
                if isinstance(error, StoreBusyError)
                else NotReadyReason.UNAVAILABLE
            )
        self._good_until_s = monotonic() + _REMEMBERED_S
        return None


_SENTENCES = {
    NotReadyReason.DRAINING: "The gateway is about to stop: send calls elsewhere.",
    NotReadyReason.UNAVAILABLE: "The database cannot be reached or takes no writes.",
    NotReadyReason.BUSY: "The database does not take a write in time.",
    NotReadyReason.NO_CONNECTIONS: "There is no free connection to the database.",
}
_SHORT = "Connections to the database are short: calls may wait for one."


class SharedMetrics:
    """Renders the metrics once for all concurrent requests, because it takes the event loop as long
    as a few calls. It pauses after each time, so that a flood of requests leaves the loop to calls;
    the first request in a while is answered at once."""

    def __init__(self, render: Callable[[], Awaitable[bytes]]) -> None:
        self._render = render
        self._again_s = float("-inf")
        self.shared = SingleFlight(self._rest_and_render)

    async def _rest_and_render(self) -> bytes:
        await asyncio.sleep(self._again_s - monotonic())
        began_s = monotonic()
        rendered = await self._render()
        took_s = monotonic() - began_s
        self._again_s = monotonic() + min(_REST_MAX_S, _REST_TIMES * took_s)
        return rendered


def probe_routes(metrics: Callable[[], Awaitable[bytes]], readiness: Readiness) -> list[Route]:
    shared_metrics = SharedMetrics(metrics).shared

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        reason = await readiness.problem()
        if reason is not None:
            content = {"status": "not ready", "reason": reason, "message": _SENTENCES[reason]}
            return JSONResponse(content, status_code=503)
        # Still ready: all nodes are short at the same time.
        if readiness.is_crowded():
            return JSONResponse({"status": "ready", "warning": _SHORT})
        return JSONResponse({"status": "ready"})

    async def show_metrics(_: Request) -> Response:
        return Response(await shared_metrics(), media_type=CONTENT_TYPE)

    return [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", show_metrics),
    ]


_PATHSEND = "http.response.pathsend"


class DescriptionResponse(Response):
    """The OpenAPI document, the largest answer that an anonymous client can ask for.

    It is a file in memory, which the server sends piece by piece as the client reads. As bytes,
    each client that does not read would hold a whole copy.
    """

    media_type = JSONResponse.media_type

    def __init__(self, content: bytes | memoryview) -> None:
        super().__init__(content, headers=_DESCRIPTION_HEADERS)
        self._file = os.memfd_create("openapi")
        os.write(self._file, content)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _PATHSEND not in scope.get("extensions", {}) or scope["method"] == "HEAD":
            await super().__call__(scope, receive, send)
            return
        await send(
            {"type": "http.response.start", "status": 200, "headers": list(self.raw_headers)}
        )
        await send({"type": _PATHSEND, "path": f"/proc/self/fd/{self._file}"})


def description_route(description: dict[str, Any]) -> Route:
    # Rendered once per process.
    described = DescriptionResponse(JSONResponse(description).body)

    async def show_description(_: Request) -> Response:
        return described

    return Route(DESCRIPTION_PATH, show_description)
