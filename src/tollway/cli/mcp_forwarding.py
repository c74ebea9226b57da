"""The work of `tollway mcp`: what comes over stdio is answered with what the gateway answers.

The client of the protocol takes a lost connection for the end of the session, and prints a trace
for what is no message of the protocol. So both become refusals here before it sees them. The server
of the protocol gives up what is under way when its input ends. So that end is held back here: a
call may be charged, and its answer must not be lost.
"""

import asyncio
import json
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp import MCPError
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from tollway import __version__

_TIMEOUT_S = 60
_CANCELLED = "notifications/cancelled"
_STREAM = "text/event-stream"
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol)
_LOST = "No answer from the gateway ({error})."
_IN_DOUBT = (
    " The call may have been done and charged: look at the account's requests before it is "
    "repeated."
)
_OTHER = "The address gives something else than tools: HTTP status {status}."


class NoToolsError(Exception):
    """The session could not begin; the text is one sentence."""


async def forward(url: str, headers: dict[str, str]) -> None:
    """Serves until the input ends; raises NoToolsError."""
    try:
        async with (
            _Http(headers=headers, timeout=_TIMEOUT_S) as http,
            Client(streamable_http_client(url, http_client=http)) as remote,
            stdio_server() as (incoming, outgoing),
        ):
            await _serve(_server(remote), incoming, outgoing)
    except Exception as error:
        raise NoToolsError(_text_of(error)) from error


async def _serve(server: Server[Any], incoming: Any, outgoing: Any) -> None:
    """Serves until the input has ended and what came in is answered."""
    asked, questions = anyio.create_memory_object_stream[Any]()
    answers, given = anyio.create_memory_object_stream[Any]()
    unanswered = _Unanswered()

    async def pass_questions() -> None:
        async with asked, incoming:
            async for each in incoming:
                unanswered.note_question(each)
                await asked.send(each)
            with anyio.move_on_after(_TIMEOUT_S):
                await unanswered.is_none.wait()

    async def pass_answers() -> None:
        async with given, outgoing:
            async for each in given:
                await outgoing.send(each)
                unanswered.note_answer(each)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pass_questions)
        tasks.start_soon(pass_answers)
        await server.run(questions, answers, server.create_initialization_options())


class _Unanswered:
    """The ids of requests without an answer. One that is cancelled gets none."""

    def __init__(self) -> None:
        self.is_none = asyncio.Event()
        self.is_none.set()
        self._ids: set[str] = set()

    def note_question(self, item: Any) -> None:
        message = getattr(item, "message", None)
        if isinstance(message, types.JSONRPCRequest):
            self._ids.add(str(message.id))
            self.is_none.clear()
        elif isinstance(message, types.JSONRPCNotification) and message.method == _CANCELLED:
            self._forget((message.params or {}).get("requestId"))

    def note_answer(self, item: Any) -> None:
        self._forget(getattr(item.message, "id", None))

    def _forget(self, request_id: object) -> None:
        self._ids.discard(str(request_id))
        if not self._ids:
            self.is_none.set()


def _text_of(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error.message if isinstance(error, MCPError) else f"{str(error).rstrip('.')}."


def _server(remote: Client) -> Server[Any]:
    async def tools(_context: Any, _params: Any) -> Any:
        return await remote.list_tools()

    async def call(_context: Any, params: Any) -> Any:
        try:
            return await remote.call_tool(params.name, params.arguments)
        except MCPError as error:
            if error.code == types.INVALID_PARAMS:
                raise
            said = error.message + (_IN_DOUBT if error.code == types.CONNECTION_CLOSED else "")
            text = types.TextContent(type="text", text=said)
            return types.CallToolResult(content=[text], is_error=True)

    return Server(
        "tollway",
        version=__version__,
        instructions=remote.instructions,
        on_list_tools=tools,
        on_call_tool=call,
    )


class _Http(httpx2.AsyncClient):
    """Answers every request: with a refusal, if the gateway does not answer it as one of tools."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
            if response.status_code == 202 or _kind(response) == _STREAM:
                return response
            content = await response.aread()
        except httpx2.RequestError as error:
            code = types.INTERNAL_ERROR if isinstance(error, _UNSENT) else types.CONNECTION_CLOSED
            return _refusal(request, code, _LOST.format(error=str(error) or type(error).__name__))
        if _is_message(content):
            return response
        said, status = _said(content), response.status_code
        # A proxy lost the answer: the gateway itself refuses with 503, and says why.
        is_lost = status >= 500 and not (status == 503 and said)
        code = types.CONNECTION_CLOSED if is_lost else types.INTERNAL_ERROR
        return _refusal(request, code, said or _OTHER.format(status=status))


def _kind(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def _is_message(content: bytes) -> bool:
    try:
        return "jsonrpc" in json.loads(content)
    except (ValueError, TypeError):
        return False


def _said(content: bytes) -> str:
    """What the gateway says, or its envelope, where it is asked for something else; or nothing."""
    try:
        values = json.loads(content)
    except ValueError:
        values = None
    known = values if isinstance(values, dict) else {}
    return str(known.get("error") or known.get("msg") or "")


def _refusal(request: httpx2.Request, code: int, text: str) -> httpx2.Response:
    # The client fills in the id of its request.
    content = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}}
    return httpx2.Response(503, json=content, request=request)
