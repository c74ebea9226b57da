"""Messages of the Model Context Protocol, read and checked before the protocol's server gets them.

That server would wait for a body forever, parse any number of parts, take a request with a wrong id
for a notification that needs no answer, and name its own classes in its errors.
"""

import asyncio
import json

from pydantic_core import from_json
from starlette.responses import JSONResponse

from tollway.contract.reasons import Refusal
from tollway.contract.request_parsing import collect
from tollway.pipeline.bodies import Message, Receive

_BODY_MAX = 65_536
# About how many elements of lists and objects. The protocol's parser takes as long for tens of
# thousands as dozens of calls take; a tool call has a hundred parameters at most.
_PARTS_MAX = 1000
# Of JSON-RPC.
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600


class BodyError(Exception):
    """The body of a message was not read to its end."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self._status, self._sentence = status, sentence

    def response(self) -> JSONResponse:
        """Closes the connection: the rest of the body may still come."""
        return JSONResponse({"error": self._sentence}, self._status, {"Connection": "close"})


class NoMessageError(Exception):
    """The body is no message; the text is one sentence."""

    def __init__(self, sentence: str, code: int = _INVALID_REQUEST) -> None:
        super().__init__(sentence)
        self._error = {"code": code, "message": sentence}

    def response(self) -> JSONResponse:
        return JSONResponse({"jsonrpc": "2.0", "id": None, "error": self._error}, 400)


async def read_message(receive: Receive, timeout_s: float) -> Receive:
    """Receives the message, as it was understood here; raises BodyError or NoMessageError."""
    message = _checked(await _body(receive, timeout_s))
    whole: list[Message] = [{"type": "http.request", "body": message, "more_body": False}]

    async def received() -> Message:
        return whole.pop() if whole else await receive()

    return received


async def _body(receive: Receive, timeout_s: float) -> bytes:
    body, parts, has_more = bytearray(), 0, True
    late = BodyError(408, "The request body did not arrive whole in time.")
    try:
        async with asyncio.timeout(timeout_s):
            while has_more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise late
                piece: bytes = message.get("body", b"")
                body += piece
                if len(body) > _BODY_MAX:
                    raise BodyError(413, f"The request body has more than {_BODY_MAX:,} bytes.")
                parts += sum(map(piece.count, (b",", b"[", b"{")))
                if parts > _PARTS_MAX:
                    raise BodyError(413, f"The request body has more than {_PARTS_MAX} parts.")
                has_more = message.get("more_body", False)
    except TimeoutError:
        raise late from None
    return bytes(body)


def _checked(body: bytes) -> bytes:
    """The message, written again: of a repeated name, the protocol's server would take the last
    value, where calls take the one that is not blank."""
    try:
        message = json.loads(body.decode(), object_pairs_hook=collect)
        written = json.dumps(message, ensure_ascii=False).encode()
        # What that server can read: not NaN, and not any depth.
        from_json(written, allow_inf_nan=False)
    except Refusal as error:
        raise NoMessageError(error.message("en")) from None
    except (ValueError, RecursionError):
        raise NoMessageError("The request body is not valid JSON.", _PARSE_ERROR) from None
    if isinstance(message, list):
        raise NoMessageError("Send one message at a time: batches are not taken.")
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise NoMessageError('A message is an object whose "jsonrpc" is "2.0".')
    if not isinstance(message.get("method"), str):
        raise NoMessageError('A message has a "method", which is a text.')
    # Some clients write null where there are none.
    if not isinstance(message.get("params"), dict | None):
        raise NoMessageError('The "params" of a message must be an object.')
    # In Python, true is a whole number too.
    if "id" in message and type(message["id"]) not in (str, int):
        raise NoMessageError('The "id" of a request must be a text or a whole number.')
    return written
