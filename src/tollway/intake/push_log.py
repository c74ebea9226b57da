"""Metrics of every push, and a log line for each that was not stored whole."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import CONTEXT, RequestContext, RequestLog

_OUTCOMES = {
    200: "stored",
    400: "malformed",
    401: "unsigned",
    408: "timed_out",
    413: "too_large",
    500: "failed",
    503: "store_unavailable",
}

logger = logging.getLogger("tollway.push")


@dataclass
class PushFacts:
    """The source of a push, if it is a known one, and how many of its records were stored,
    unchanged and rejected."""

    source: str | None = None
    records: dict[str, int] = field(default_factory=dict)


class PushRecorder:
    """Answers pushes of one kind; counts and logs each."""

    def __init__(
        self,
        kind: str,
        take: Callable[[Request, PushFacts], Awaitable[Response]],
        metrics: Metrics,
        log: RequestLog,
    ) -> None:
        self._kind = kind
        self._take = take
        self._metrics = metrics
        self._log = log

    async def __call__(self, request: Request) -> Response:
        began_s, facts = perf_counter(), PushFacts()
        context: RequestContext = request.scope[CONTEXT]
        try:
            response = await self._take(request, facts)
        except Exception as error:
            extra = {"request_id": context.request_id}
            logger.error("a push failed unexpectedly", exc_info=error, extra=extra)
            response = JSONResponse({"error": "It was not your fault: send it again later."}, 500)
        outcome = _OUTCOMES[response.status_code]
        self._metrics.pushed(self._kind, outcome)
        self._metrics.pushed_records(self._kind, facts.records)
        self._log.write(
            "tollway.push",
            context,
            is_failure=outcome != "stored" or facts.records["rejected"] > 0,
            kind=self._kind,
            source=facts.source,
            outcome=outcome,
            status=response.status_code,
            **facts.records,
            msec=round((perf_counter() - began_s) * 1000, 3),
        )
        return response
