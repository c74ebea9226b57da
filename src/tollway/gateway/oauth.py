"""The endpoint `POST /oauth/token`: exchanges a client's id and secret for a token.

A secret has 190 random bits and a checksum, like a token: a mistyped one is refused without a
query, a wrong one costs one read by key. Wrong secrets do not lock a client out: otherwise anyone
who knows its id could. `token_request.py` reads the form.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from time import perf_counter

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tollway.gateway.token_request import (
    ORIGINAL_TOKEN_PATH,
    TOKEN_PATH,
    Credentials,
    TokenAnswer,
    TokenRefusal,
    TokenRefusedError,
    read_request,
)
from tollway.ledger.clients import TooManyTokensError, is_client_id, obtain_token, recognise
from tollway.ledger.runtime import Runtime
from tollway.settings import Settings
from tollway.store.concurrency import BoundedSlots
from tollway.store.database import Database, StoreBusyError, StoreError
from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import CONTEXT, RequestContext, RequestLog

# Each token takes a commit: a client that sends a hundred requests at once must not take every
# database connection.
_AT_ONCE = 2
# Any client can invent secrets that must be looked up; calls must not wait for that.
_RECOGNISED_AT_ONCE = 2
_RECOGNISED_WAIT_S = 3.0


class Issuing:
    """Gives tokens to clients."""

    def __init__(
        self, database: Database, runtime: Runtime, lifetime_s: int, timeout_s: float
    ) -> None:
        self._database = database
        self._runtime = runtime
        self._lifetime_s = lifetime_s
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._look_ups = BoundedSlots(_RECOGNISED_AT_ONCE, "too many ask for a token at once")

    async def token_for(self, credentials: Credentials, address: str) -> TokenAnswer:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._issue(credentials, address)
        except TooManyTokensError as error:
            raise TokenRefusedError(TokenRefusal.TOO_MANY_TOKENS, error.retry_after_s) from None
        except (StoreError, TimeoutError):
            raise TokenRefusedError(TokenRefusal.STORE_AWAY) from None

    async def _issue(self, credentials: Credentials, address: str) -> TokenAnswer:
        async with AsyncExitStack() as held:
            slot = self._look_ups.taken(_RECOGNISED_WAIT_S, by=address)
            try:
                await held.enter_async_context(slot)
            except StoreBusyError:
                raise TokenRefusedError(TokenRefusal.NOT_LOOKED_UP) from None
            client = await recognise(self._database, *credentials)
        if client is None:
            raise TokenRefusedError(TokenRefusal.CLIENT_INVALID)
        async with self._slots:
            issued = await obtain_token(self._database, self._runtime, client, self._lifetime_s)
        if issued is None:
            raise TokenRefusedError(TokenRefusal.CLIENT_INVALID)
        return TokenAnswer(issued.text, "Bearer", self._lifetime_s)


# Far above any real form of four short parameters.
_BODY_MAX = 4096
_HEADERS = {"Cache-Control": "no-store", "Pragma": "no-cache"}

logger = logging.getLogger("tollway.oauth")


class TokenEndpoint:
    """The ASGI application of this path. It answers every method itself, in the OAuth format."""

    def __init__(
        self, issuing: Issuing, body_timeout_s: float, metrics: Metrics, log: RequestLog
    ) -> None:
        self._issuing = issuing
        self._body_timeout_s = body_timeout_s
        self._metrics = metrics
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began_s, client_id, is_unauthenticated = perf_counter(), None, False
        context: RequestContext = scope[CONTEXT]
        try:
            credentials = await self._credentials(Request(scope, receive))
            if is_client_id(credentials.client_id):
                client_id = credentials.client_id
            issued = await self._issuing.token_for(credentials, context.address)
            response: Response = JSONResponse(msgspec.to_builtins(issued), headers=_HEADERS)
            answer = "issued"
        except TokenRefusedError as error:
            response, answer = _error_response(error), error.reason.value.error
            is_unauthenticated = error.reason.is_unauthenticated
        except Exception as error:
            # The content of the request is not logged.
            extra = {"request_id": context.request_id}
            logger.error("a token request failed unexpectedly", exc_info=error, extra=extra)
            response, answer = (
                _error_response(TokenRefusedError(TokenRefusal.FAILED)),
                "server_error",
            )
        self._metrics.token_asked(answer)
        self._log.write(
            "tollway.token",
            context,
            is_failure=answer != "issued",
            is_unauthenticated=is_unauthenticated,
            client=client_id,
            answer=answer,
            status=response.status_code,
            msec=round((perf_counter() - began_s) * 1000, 3),
        )
        await response(scope, receive, send)

    async def _credentials(self, request: Request) -> Credentials:
        if request.method != "POST":
            raise TokenRefusedError(TokenRefusal.METHOD_WRONG)
        body = await self._body(request)
        # Two headers are joined, so that they match no valid value.
        sent = request.headers.getlist("authorization")
        return read_request(
            ", ".join(sent) if sent else None, request.headers.get("content-type", ""), body
        )

    async def _body(self, request: Request) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self._body_timeout_s):
                async for piece in request.stream():
                    body += piece
                    if len(body) > _BODY_MAX:
                        raise TokenRefusedError(TokenRefusal.BODY_TOO_LARGE)
        except (TimeoutError, ClientDisconnect):
            raise TokenRefusedError(TokenRefusal.BODY_TIMED_OUT) from None
        return bytes(body)


def _error_response(error: TokenRefusedError) -> Response:
    fault = error.reason.value
    headers = dict(_HEADERS)
    if error.reason is TokenRefusal.CLIENT_INVALID:
        headers["WWW-Authenticate"] = 'Basic realm="tollway"'
    if error.reason is TokenRefusal.METHOD_WRONG:
        headers["Allow"] = "POST"
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    content = {"error": fault.error, "error_description": fault.sentence}
    return JSONResponse(content, fault.status, headers)


def oauth_routes(
    database: Database, settings: Settings, metrics: Metrics, log: RequestLog
) -> list[Route]:
    lifetime_s = settings.oauth_token_minutes * 60
    issuing = Issuing(database, Runtime(), lifetime_s, settings.call_timeout_s)
    endpoint = TokenEndpoint(issuing, settings.body_timeout_s, metrics, log)
    return [Route(path, endpoint) for path in (TOKEN_PATH, ORIGINAL_TOKEN_PATH)]
