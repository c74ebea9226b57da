"""The paths for monitoring and tools: /healthz, /readyz, /metrics and /openapi.json."""

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tollway.store.concurrency import SingleFlight
from tollway.store.database import Database, StoreError
from tollway.store.versions import write_nothing_new


def probe_routes(
    metrics: Callable[[], Awaitable[bytes]],
    is_ready: Callable[[], Awaitable[bool]],
    description: dict[str, Any],
) -> list[Route]:
    # Both take the event loop as long as a few calls. So the metrics are rendered once for all
    # requests at the same time, and the description once for the whole run.
    shared_metrics = SingleFlight(metrics)
    described = JSONResponse(description).body

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        ready = await is_ready()
        return JSONResponse(
            {"status": "ready" if ready else "not ready"}, status_code=200 if ready else 503
        )

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


_REMEMBERED_S = 1.0


class Readiness:
    """Whether the database takes writes. Requests at the same time share one attempt. A success
    counts for a second; a failure does not, so that the end of an outage is seen at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._attempt = SingleFlight(self._try)
        self._good_until_s = float("-inf")

    async def takes_writes(self) -> bool:
        return monotonic() < self._good_until_s or await self._attempt()

    async def _try(self) -> bool:
        try:
            await self._database.write(write_nothing_new)
        except StoreError:
            return False
        self._good_until_s = monotonic() + _REMEMBERED_S
        return True
