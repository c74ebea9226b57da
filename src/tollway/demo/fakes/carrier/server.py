"""The HTTP/1.1 server of the carrier, written by hand so that it can cut a connection between two
exact steps."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tollway.demo.fakes.carrier.faults import Fault, Faults, Kind, Reply, answer_control
from tollway.demo.fakes.carrier.signed_form import (
    Message,
    MessageError,
    read_message,
    written_answer,
)
from tollway.demo.fakes.carrier.waybill_book import Journal, WaybillBook

_BODY_MAX = 1024 * 1024
_GARBAGE = b"<html><body>502 Bad Gateway</body></html>"
_FORM = "application/x-www-form-urlencoded; charset=utf-8"


class _Cut(Exception):  # noqa: N818 - no error, but what was asked for
    """Ends the connection here, with what may be written before."""


@dataclass
class Carrier:
    """All of the carrier's state."""

    journal: Journal
    waybill_book: WaybillBook
    faults: Faults
    secret: str
    received: Counter[str] = field(default_factory=Counter)


async def serve(carrier: Carrier, port: int) -> asyncio.Server:
    # Referenced here: a task that waits for ever could otherwise be garbage collected.
    talking: set[asyncio.Task[None] | None] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talking.add(asyncio.current_task())
        try:
            while await _answer_one(carrier, reader, writer):
                pass
        except (_Cut, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:
            # The program ends while a client still waits; that is nothing to report.
            pass
        finally:
            # Cut, and not closed politely: nothing that is still buffered goes out.
            writer.transport.abort()
            talking.discard(asyncio.current_task())

    return await asyncio.start_server(talk, "127.0.0.1", port)


async def _answer_one(
    carrier: Carrier, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Answers one request; returns whether another may follow on the connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request_line, *header_lines = head.split("\r\n")
    method, path, _ = request_line.split(" ")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in header_lines)
    }
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= _BODY_MAX:
        return False
    body = await reader.readexactly(length)
    if path in ("/control", "/journal"):
        reply = answer_control(
            carrier.faults, carrier.journal, carrier.received, method, path, body
        )
        await _write(writer, reply)
    else:
        await _answer_message(carrier, writer, body)
    return headers.get("connection", "").lower() != "close"


async def _answer_message(carrier: Carrier, writer: asyncio.StreamWriter, body: bytes) -> None:
    try:
        message = read_message(body, carrier.secret)
        carrier.received[message.kind] += 1
        fault = carrier.faults.next(message.kind)
        content = await _work(carrier, message, fault)
    except MessageError as error:
        fault = None
        content = {
            "success": False,
            "objectId": error.object_id,
            "errorCode": error.code,
            "errorMsg": error.words,
        }
    await _send_answer(carrier, writer, content, fault)


async def _work(carrier: Carrier, message: Message, fault: Fault | None) -> dict[str, Any]:
    """Everything up to and with the commit."""
    if fault is None:
        return carrier.waybill_book.answer(message)
    # The client may be gone meanwhile; a carrier does not notice and goes on.
    await asyncio.sleep(fault.delay_ms / 1000)
    if fault.kind is Kind.STALL_BEFORE_COMMIT:
        await asyncio.Event().wait()
    if fault.kind is Kind.CUT_BEFORE_COMMIT:
        raise _Cut
    if fault.kind is Kind.REFUSE:
        return carrier.waybill_book.refuse(message, fault.reason)
    return carrier.waybill_book.answer(message)


async def _send_answer(
    carrier: Carrier, writer: asyncio.StreamWriter, content: dict[str, Any], fault: Fault | None
) -> None:
    """Everything after the commit."""
    kind = None if fault is None else fault.kind
    if kind is Kind.STALL_AFTER_COMMIT:
        await asyncio.Event().wait()
    if kind is Kind.CUT_AFTER_COMMIT:
        raise _Cut
    # Signing with another secret gives a wrong digest.
    secret = carrier.secret if kind is not Kind.WRONG_DIGEST else f"not {carrier.secret}"
    answer = written_answer(content, secret)
    if kind is Kind.GARBAGE:
        answer = _GARBAGE
    await _write(writer, Reply(200, _FORM, answer), is_cut=kind is Kind.CUT_IN_ANSWER)


async def _write(writer: asyncio.StreamWriter, reply: Reply, *, is_cut: bool = False) -> None:
    head = (
        f"HTTP/1.1 {reply.status} {'OK' if reply.status == 200 else 'Bad Request'}\r\n"
        f"Content-Type: {reply.content_type}\r\nContent-Length: {len(reply.body)}\r\n\r\n"
    )
    writer.write(head.encode() + (reply.body[: len(reply.body) // 2] if is_cut else reply.body))
    await writer.drain()
    if is_cut:
        raise _Cut
