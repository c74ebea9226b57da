"""What machines ask of a running gateway: is it alive, is it ready, how is it doing, what is it."""

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
    # Both take the event loop as long as a few calls: here one for all who ask at the same time,
    # there one for good.
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
    """One attempt at a time, shared by all who ask meanwhile; that it succeeded is remembered for a
    second. A failure is not, so that the end of an outage is seen at once."""

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
