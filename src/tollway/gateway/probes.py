"""The paths for monitoring and tools: /healthz, /readyz, /metrics and /openapi.json."""

from collections.abc import Awaitable, Callable
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tollway.gateway.readiness import Readiness, Unready
from tollway.store.concurrency import SingleFlight

_SENTENCES = {
    Unready.DRAINING: "The gateway is about to stop: send calls elsewhere.",
    Unready.UNAVAILABLE: "The database cannot be reached or takes no writes.",
    Unready.BUSY: "The database does not take a write in time.",
    Unready.NO_CONNECTIONS: "There is no free connection to the database.",
}
_SHORT = "Connections to the database are short: calls may wait for one."


def probe_routes(
    metrics: Callable[[], Awaitable[bytes]], readiness: Readiness, description: dict[str, Any]
) -> list[Route]:
    # Both take the event loop as long as a few calls. So the metrics are rendered once for all
    # requests at the same time, and the description once for the whole run.
    shared_metrics = SingleFlight(metrics)
    described = JSONResponse(description).body

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        reason = await readiness.problem()
        if reason is not None:
            content = {"status": "not ready", "reason": reason, "message": _SENTENCES[reason]}
            return JSONResponse(content, status_code=503)
        # Not a reason to get no calls: all nodes are short at the same time.
        if readiness.is_short_of_connections:
            return JSONResponse({"status": "ready", "warning": _SHORT})
        return JSONResponse({"status": "ready"})

    async def show_metrics(_: Request) -> Response:
        return Response(await shared_metrics(), media_type=CONTENT_TYPE_LATEST)

    async def show_description(_: Request) -> Response:
        return Response(described, media_type=JSONResponse.media_type)

    return [
        Route("/openapi.json", show_description),
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", show_metrics),
    ]
