"""The endpoint `POST /oauth/token`: exchanges a client's id and secret for a token.

A secret has 190 random bits and a checksum, like a token: a mistyped one is refused without a
query, a wrong one costs one read by key. Wrong secrets do not lock a client out: otherwise anyone
who knows its id could.

The request is that of OAuth 2 client credentials (RFC 6749, section 4.4). It has no envelope:
requests and answers have the shape that OAuth libraries expect.
"""

import asyncio
import base64
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from enum import Enum
from time import perf_counter
from typing import NamedTuple
from urllib.parse import unquote_plus

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tollway.contract.reasons import Refusal
from tollway.contract.request_parsing import read_form
from tollway.ledger.clients import TooManyTokensError, is_client_id, obtain_token, recognise
from tollway.ledger.runtime import Runtime
from tollway.settings import Settings
from tollway.store.concurrency import BoundedSlots
from tollway.store.database import Database, StoreBusyError, StoreError
from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import CONTEXT, RequestContext, RequestLog

TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path
# The path that clients of the original service use; the answer is the same.
ORIGINAL_TOKEN_PATH = "/api/proxy/oauth/token"  # noqa: S105 - a path
GRANT_TYPE = "client_credentials"
# Far above any id and secret, even with every character escaped; and any form of four such texts.
_BASIC_MAX = 1024
_BODY_MAX = 4096
_HEADERS = {"Cache-Control": "no-store", "Pragma": "no-cache"}
# Each token takes a commit: a client that sends a hundred requests at once must not take every
# database connection.
_AT_ONCE = 2
# Any client can invent secrets that must be looked up; calls must not wait for that.
_RECOGNISED_AT_ONCE = 2
_RECOGNISED_WAIT_S = 3.0

logger = logging.getLogger("tollway.oauth")


class TokenAnswer(msgspec.Struct, frozen=True):
    """A token that was obtained."""

    access_token: str
    token_type: str
    expires_in: int


class Fault(NamedTuple):
    """An error of OAuth, the HTTP status that it comes with, and what to do."""

    error: str
    status: int
    sentence: str


class TokenRefusal(Enum):
    """Every reason why no token is given."""

    FORM_UNREADABLE = Fault(
        "invalid_request",
        400,
        "The request body is not a form: send multipart/form-data or "
        "application/x-www-form-urlencoded, each parameter once.",
    )
    GRANT_TYPE_MISSING = Fault(
        "invalid_request", 400, f"Send grant_type={GRANT_TYPE}, in a form as the body."
    )
    CREDENTIALS_TWICE = Fault(
        "invalid_request",
        400,
        "Send the id and secret of the client once: as HTTP Basic or in the form, not both.",
    )
    GRANT_TYPE_UNKNOWN = Fault(
        "unsupported_grant_type", 400, f"The only grant_type here is {GRANT_TYPE}."
    )
    SCOPE_UNKNOWN = Fault(
        "invalid_scope", 400, "There are no scopes here: leave scope out. The account decides."
    )
    # One sentence whatever is wrong, so that guessing reveals nothing.
    CLIENT_INVALID = Fault(
        "invalid_client", 401, "Client invalid: send the client_id and client_secret of a client."
    )
    METHOD_WRONG = Fault("invalid_request", 405, "Send a POST.")
    BODY_TIMED_OUT = Fault("invalid_request", 408, "The request body did not arrive whole in time.")
    BODY_TOO_LARGE = Fault("invalid_request", 413, "The request body is too large for this form.")
    TOO_MANY_TOKENS = Fault(
        "too_many_requests",
        429,
        "The client obtained too many tokens lately: use each until it expires.",
    )
    FAILED = Fault("server_error", 500, "It was not your fault: try again later.")
    STORE_AWAY = Fault("temporarily_unavailable", 503, "Try again in a moment.")
    NOT_LOOKED_UP = Fault("temporarily_unavailable", 503, "Too many ask at once: try again soon.")

    @property
    def is_unauthenticated(self) -> bool:
        """Whether any client can cause it without valid credentials, and it is no failure of the
        gateway."""
        return self.value.status < 500 or self is TokenRefusal.NOT_LOOKED_UP


class TokenRefusedError(Exception):
    """No token is given; the reason says why."""

    def __init__(self, reason: TokenRefusal, retry_after_s: int | None = None) -> None:
        super().__init__(reason.name)
        self.reason = reason
        self.retry_after_s = retry_after_s


class Credentials(NamedTuple):
    """The id and secret that a client sent; empty if it sent none."""

    client_id: str
    client_secret: str


def read_request(authorization: str | None, content_type: str, body: bytes) -> Credentials:
    """The credentials of a request; raises TokenRefusedError if anything else in it is wrong."""
    try:
        form = read_form(content_type, body)
    except Refusal:
        raise TokenRefusedError(TokenRefusal.FORM_UNREADABLE) from None
    # A parameter without a value counts as left out.
    sent = {name: value for name, value in form.items() if value}
    if "grant_type" not in sent:
        raise TokenRefusedError(TokenRefusal.GRANT_TYPE_MISSING)
    if sent["grant_type"] != GRANT_TYPE:
        raise TokenRefusedError(TokenRefusal.GRANT_TYPE_UNKNOWN)
    if "scope" in sent:
        raise TokenRefusedError(TokenRefusal.SCOPE_UNKNOWN)
    return _credentials(authorization, sent)


def _credentials(authorization: str | None, sent: Mapping[str, str]) -> Credentials:
    in_form = Credentials(sent.get("client_id", ""), sent.get("client_secret", ""))
    if authorization is None:
        return in_form
    if in_form.client_secret:
        raise TokenRefusedError(TokenRefusal.CREDENTIALS_TWICE)
    basic = _basic(authorization)
    # Libraries that use Basic may repeat the client's id in the form, which is no second secret.
    if in_form.client_id not in ("", basic.client_id):
        raise TokenRefusedError(TokenRefusal.CREDENTIALS_TWICE)
    return basic


def _basic(authorization: str) -> Credentials:
    """The id and secret of the header, each of which is also urlencoded there."""
    scheme, _, encoded = authorization.partition(" ")
    try:
        if scheme.lower() != "basic" or len(encoded) > _BASIC_MAX:
            raise ValueError
        text = base64.b64decode(encoded.strip(), validate=True).decode("ascii")
    except ValueError:
        raise TokenRefusedError(TokenRefusal.CLIENT_INVALID) from None
    client_id, _, secret = text.partition(":")
    return Credentials(unquote_plus(client_id), unquote_plus(secret))


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
