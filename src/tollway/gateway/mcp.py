"""The operations as tools for agents, by the Model Context Protocol over streamable HTTP.

A tool call is a call of the operation: it passes through the same pipeline, with the same token,
limit, price, receipt and consent. Requests are stateless, so any worker can answer any of them.
"""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from time import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import JSONResponse

from tollway import __version__
from tollway.contract.language import in_english
from tollway.contract.operation import Operation, Unit
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.request_parsing import shown
from tollway.gateway.internal_calls import own_call
from tollway.gateway.mcp_messages import BodyError, NoMessageError, read_message
from tollway.gateway.openapi import parameters_schema
from tollway.ledger.agent_sessions import Reservation, correct, reserve
from tollway.ledger.entries import entries_of_request
from tollway.ledger.refused_calls import MAY_BE_CHARGED
from tollway.ledger.usage import midnight_s
from tollway.operations.account_api import ACCOUNT_OPERATIONS
from tollway.operations.account_api.operation import AccountOperation
from tollway.operations.orders.more_calls import ORDERS_BY_NUMBER
from tollway.pipeline.authenticate import finish
from tollway.pipeline.bodies import NO_BODY, Message, Receive, Scope, Send
from tollway.pipeline.call import Call
from tollway.pipeline.envelope import NO_STORE, REASON_HEADER
from tollway.pipeline.http import Edge, headers_by_name
from tollway.pipeline.pipeline import Pipeline
from tollway.pipeline.throttle import SlidingSecond
from tollway.store.concurrency import TurnSlots
from tollway.store.database import Database, StoreError

logger = logging.getLogger("tollway.mcp")

MCP_PATH = "/mcp"
BUDGET_HEADER, SESSION_HEADER = "x-tollway-budget", "x-tollway-session"
_SESSION_MAX = 64
# Per account. A client sends several messages around a call, and calls have limits of their own.
_MESSAGES_A_SECOND = 100
# The protocol's server takes the loop as long for a message as ten calls do, in tasks of its own.
# Begun one after the other, messages take about a quarter of it; accounts take turns.
_BEGUN_EVERY_S = 0.004
_BEGIN_WAIT_S = 3.0
_RETRY = {"Retry-After": "1"}
_HEADERS_BY_STATUS = {401: {"WWW-Authenticate": "Bearer"}, 429: _RETRY, 503: _RETRY}
# No name that an attacker's server can have: pages from there are those of this machine.
_THIS_MACHINE: set[str | None] = {"localhost", "127.0.0.1", "::1"}
_INSTRUCTIONS = (
    "Each tool is an operation of a Tollway gateway; its description says what a successful call "
    "costs. Failed calls cost nothing. An answer with code 302 has a link that the shop's owner "
    "must open to approve."
)
_ENDPOINTS = {each.name: each for each in ACCOUNT_OPERATIONS}
# Further tools, by name. Those of a waybill take the objectId of the answer that issued it.
_MORE_TOOLS: dict[str, Operation] = {
    "orders_by_number": ORDERS_BY_NUMBER,
    "balance": _ENDPOINTS["account_balance"],
    "waybill_state": _ENDPOINTS["account_waybills"],
    "waybill_label": _ENDPOINTS["account_waybills_label"],
    "waybill_cancel": _ENDPOINTS["account_waybills_cancel"],
    "waybill_receiver": _ENDPOINTS["account_waybills_receiver"],
}


class AgentTools:
    """The MCP server of a gateway."""

    def __init__(
        self,
        operations: Sequence[Operation],
        pipeline: Pipeline,
        edge: Edge,
        database: Database,
        zone: ZoneInfo,
        body_timeout_s: float,
        address: str = "http://localhost",
    ) -> None:
        # A file comes without an envelope, and an agent could not read it.
        answering = {each.name: each for each in operations if not each.is_file}
        self._operations = {**answering, **_MORE_TOOLS}
        self._pipeline = pipeline
        self._edge = edge
        self._database = database
        self._zone = zone
        self._body_timeout_s = body_timeout_s
        self._own_hosts = _THIS_MACHINE | {_host(address)}
        self._messages = SlidingSecond()
        self._begin = TurnSlots(1, "too many messages of agents at once")
        self._schemas = {name: parameters_schema(each) for name, each in self._operations.items()}
        self._stopping = asyncio.Event()
        server: Server[Any] = Server(
            "tollway",
            version=__version__,
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._answer_call,
            # Otherwise the server would list all tools before each call.
            get_tool_input_schema=self._schemas.get,
        )
        self._manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)

    async def start(self) -> None:
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self._run(started))
        await started

    async def _run(self, started: asyncio.Future[None]) -> None:
        # The manager's task group must be entered and left by the same task.
        async with self._manager.run():
            started.set_result(None)
            await self._stopping.wait()

    async def stop(self) -> None:
        self._stopping.set()
        await self._running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Parses nothing for a client without a valid token."""
        request, send = Request(scope), _unkept(send)
        if request.method != "POST":
            allowed = JSONResponse({"error": "Send POST."}, 405, {"Allow": "POST"})
            return await allowed(scope, receive, send)
        origin = request.headers.get("origin")
        # The protocol demands it, so that no page gets here under a name that it rebound.
        if origin is not None and _host(origin) not in self._own_hosts:
            foreign = JSONResponse({"error": "This Origin is not the gateway's own."}, 403)
            return await foreign(scope, receive, send)
        try:
            call = _without_operation(request)
            await finish(self._pipeline.authenticate(call))
            account_id = call.caller.account_id
            if self._messages.admit(account_id, _MESSAGES_A_SECOND) is None:
                raise Refusal(Reason.THROTTLED, limit=_MESSAGES_A_SECOND)
            message = await read_message(receive, self._body_timeout_s)
            await self._begin.take(_BEGIN_WAIT_S, by=account_id)
        except (Refusal, StoreError) as error:
            refusal = _refusal_of(error)
            status = refusal.reason.value.status
            headers = _HEADERS_BY_STATUS.get(status)
            refused = JSONResponse({"error": refusal.message("en")}, status, headers)
            return await refused(scope, receive, send)
        except (BodyError, NoMessageError) as error:
            return await error.response()(scope, receive, send)
        asyncio.get_running_loop().call_later(_BEGUN_EVERY_S, self._begin.leave)
        return await self._manager.handle_request(scope, message, send)

    async def _list(
        self, context: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Catches every error, because the protocol's server would send its text."""
        if params is not None and params.cursor is not None:
            raise MCPError(types.INVALID_PARAMS, "All tools are on one page: send no cursor.")
        try:
            return self._tools(await self._identify(_request_of(context)))
        except Exception as error:
            said = _refusal_of(error).message("en")
            raise MCPError(types.INTERNAL_ERROR, said) from None

    def _tools(self, call: Call) -> types.ListToolsResult:
        tools = [
            types.Tool(
                name=name,
                title=in_english(each.title),
                description=self._described(call, each),
                input_schema=self._schemas[name],
            )
            for name, each in self._operations.items()
        ]
        return types.ListToolsResult(tools=tools)

    def _described(self, call: Call, operation: Operation) -> str:
        title, note = in_english(operation.title), in_english(operation.note)
        return " ".join(f"{title}. {note} {self._cost(call, operation)}".split())

    def _cost(self, call: Call, operation: Operation) -> str:
        if isinstance(operation, AccountOperation):
            return "Costs nothing; takes a live token."
        price = self._pipeline.permit.price_of(call.caller, operation)
        if price is None:
            return "Your account may not call this: ask the operator."
        if call.caller.is_test:
            return "Costs nothing: the token is a test token, and the data is made up."
        unit = "call of your allowance" if operation.unit is Unit.CALLS else "credit"
        return f"Costs {price} {unit}{'' if price == 1 else 's'} if it succeeds."

    async def _identify(self, request: Request) -> Call:
        """A call with nothing but its caller, whose token is valid now."""
        call = _without_operation(request)
        await self._pipeline.authenticate.check_now(call)
        return call

    async def _answer_call(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Catches every error, as `_list` does."""
        operation = self._operations.get(params.name)
        if operation is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {shown(params.name)}.")
        try:
            return await self._call(_request_of(context), operation, params.arguments or {})
        except Exception as error:
            return _result(_refusal_of(error).message("en"), is_error=True)

    async def _call(
        self, request: Request, operation: Operation, values: Mapping[str, Any]
    ) -> types.CallToolResult:
        most = request.headers.get(BUDGET_HEADER)
        if most is None:
            return (await self._perform(operation, values, request))[0]
        call = await self._identify(request)
        try:
            budget = _Budget.of(request, call, most)
        except ValueError as error:
            return _result(str(error), is_error=True)
        price = self._pipeline.permit.price_of(call.caller, operation) or 0
        account_id = call.caller.account_id
        if price == 0:
            return (await self._perform(operation, values, request))[0]
        wanted = Reservation(account_id, budget.session, price, budget.most)
        day_start_s = midnight_s(call.at_s, self._zone)
        if not await reserve(self._database, wanted, int(call.at_s), day_start_s):
            return _result(
                f"This session's budget is {budget.most}, calls and credits together. What is left "
                f"of it does not cover this call, which costs {price}. Nothing was charged. Ask "
                f"the person you work for for more.",
                is_error=True,
            )
        # If this raises, it is unknown what the call cost, and its price counts.
        result, reason = await self._perform(operation, values, request)
        try:
            cost = await self._charged(result, reason, price)
            if cost != price:
                await correct(self._database, wanted, cost)
        except StoreError as error:
            # The price counts as spent; the answer may be paid for, and must not be lost.
            logger.error("what an agent's call cost was not counted: %s", error)
        return result

    async def _charged(self, result: types.CallToolResult, reason: str, price: int) -> int:
        """What a call was charged, or what is held for it; its price if that is not known yet. A
        waybill that waits for its carrier is charged to the call that started it, not to those that
        repeated it."""
        if reason != Reason.CARRIER_SILENT.name:
            if reason in MAY_BE_CHARGED:
                return price
            if result.is_error:
                return 0
        request_id = (result.structured_content or {})["request_id"]
        entries = await entries_of_request(self._database, request_id)
        return -sum([each.amount for each in entries])

    async def _perform(
        self, operation: Operation, values: Mapping[str, Any], request: Request
    ) -> tuple[types.CallToolResult, str]:
        """Runs the operation as if an HTTP request for it had come in; also returns the reason of a
        refusal, empty if there is none."""
        client = request.scope["client"]
        own = _own_headers(request)
        envelope, headers = await own_call(self._edge, operation, values, own, client)
        request_id = headers.get(b"x-request-id", b"").decode()
        found = envelope | {"request_id": request_id}
        text = json.dumps(found, ensure_ascii=False)
        result = _result(text, found, is_error=envelope["code"] != 0)
        data = envelope["data"]
        if data.get("content_type") == "image/png":
            # An agent sees a picture only if it is sent as image content.
            picture = types.ImageContent(
                type="image", data=data["content"], mime_type=data["content_type"]
            )
            result.content.append(picture)
        return result, headers.get(REASON_HEADER, b"").decode()


def _host(address: str) -> str | None:
    """None if it is no address."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _unkept(send: Send) -> Send:
    """Marks answers so that no cache stores them."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [each for each in message["headers"] if each[0] != NO_STORE[0]]
            message = {**message, "headers": [*headers, NO_STORE]}
        await send(message)

    return sent


class _Budget(NamedTuple):
    """What a session may spend in all, from the agent's headers."""

    session: str
    most: int

    @classmethod
    def of(cls, request: Request, call: Call, most: str) -> "_Budget":
        if not (most.isascii() and most.isdigit() and len(most) <= 12):
            raise ValueError("X-Tollway-Budget must be a whole number of calls and credits.")
        session = request.headers.get(SESSION_HEADER) or call.caller.token_id
        if len(session) > _SESSION_MAX or not session.isprintable():
            raise ValueError(f"X-Tollway-Session must be a name of at most {_SESSION_MAX} letters.")
        return cls(session, int(most))


def _refusal_of(error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, StoreError):
        return Refusal(Reason.STORE_UNAVAILABLE)
    logger.error("a message of an agent failed unexpectedly", exc_info=error)
    return Refusal(Reason.INTERNAL)


def _request_of(context: ServerRequestContext[Any, Any]) -> Request:
    assert isinstance(context.request, Request), "over HTTP, every message comes in a request"
    return context.request


_CARRIED = (b"authorization", b"accept-language", b"x-forwarded-for")


def _without_operation(request: Request) -> Call:
    headers, client = headers_by_name(_own_headers(request)), request.scope["client"]
    return Call("", "POST", MCP_PATH, b"", headers, NO_BODY, time(), client)


def _own_headers(request: Request) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in request.headers.raw if name in _CARRIED]


def _result(
    text: str, structured: dict[str, Any] | None = None, *, is_error: bool
) -> types.CallToolResult:
    content: list[Any] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, structured_content=structured, is_error=is_error)
