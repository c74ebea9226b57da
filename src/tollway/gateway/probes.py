"""The paths for monitoring, and whether a gateway is ready for calls, and if not, why.

They are plain ASGI: the library that routes pages is loaded with these.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from time import monotonic
from typing import NamedTuple

import msgspec

from tollway.pipeline.bodies import Receive, Scope, Send
from tollway.store.cache_versions import write_nothing_new
from tollway.store.concurrency import SingleFlight
from tollway.store.database import Database, StoreBusyError, StoreCrowdedError, StoreError
from tollway.telemetry.families import CONTENT_TYPE

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


App = Callable[[Scope, Receive, Send], Awaitable[None]]


class _Answer(NamedTuple):
    status: int
    kind: str
    body: bytes


def probes(metrics: Callable[[], Awaitable[bytes]], readiness: Readiness) -> dict[str, App]:
    """The probes by their paths."""
    shared_metrics = SharedMetrics(metrics).shared

    async def healthz() -> _Answer:
        return _in_json({"status": "ok"})

    async def readyz() -> _Answer:
        reason = await readiness.problem()
        if reason is not None:
            content = {"status": "not ready", "reason": reason, "message": _SENTENCES[reason]}
            return _in_json(content, 503)
        # Still ready: all nodes are short at the same time.
        if readiness.is_crowded():
            return _in_json({"status": "ready", "warning": _SHORT})
        return _in_json({"status": "ready"})

    async def show_metrics() -> _Answer:
        return _Answer(200, CONTENT_TYPE, await shared_metrics())

    return {
        "/healthz": _app(healthz),
        "/readyz": _app(readyz),
        "/metrics": _app(show_metrics),
    }


def by_path(apps: dict[str, App]) -> App:
    async def at_path(scope: Scope, receive: Receive, send: Send) -> None:
        await apps[scope["path"]](scope, receive, send)

    return at_path


def _in_json(content: dict[str, str], status: int = 200) -> _Answer:
    return _Answer(status, "application/json", msgspec.json.encode(content))


def _app(answer: Callable[[], Awaitable[_Answer]]) -> App:
    async def answered(scope: Scope, _: Receive, send: Send) -> None:
        if scope["method"] in ("GET", "HEAD"):
            (status, kind, body), more = await answer(), []
        else:
            status, kind, body = 405, "text/plain; charset=utf-8", b"Method Not Allowed"
            more = [(b"allow", b"GET, HEAD")]
        about = [(b"content-length", b"%d" % len(body)), (b"content-type", kind.encode()), *more]
        await send({"type": "http.response.start", "status": status, "headers": about})
        await send({"type": "http.response.body", "body": body})

    return answered
