"""Bytes to a gateway as no proper client would send them, and what comes back."""

import json
import re
import socket
import time
from contextlib import suppress
from typing import Any, NamedTuple

_HEAD = re.compile(rb"HTTP/1\.[01] (\d{3}) [^\r\n]*\r\n(.*?)\r\n\r\n", re.DOTALL)
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class RawReply(NamedTuple):
    """One response; `envelope` is empty where the body is."""

    status: int
    envelope: dict[str, Any]


class Talk(NamedTuple):
    """Everything that came back on one connection."""

    replies: list[RawReply]
    is_closed: bool
    elapsed_s: float

    @property
    def codes(self) -> list[int]:
        return [reply.envelope["code"] for reply in self.replies if reply.envelope]


def talk(port: int, sent: bytes, *, patience_s: float = 30, expected: int | None = None) -> Talk:
    """Sends bytes, then reads until the other side closes, or `expected` responses are there."""
    began_s = time.monotonic()
    received, is_closed = b"", False
    with socket.create_connection(("127.0.0.1", port), timeout=patience_s) as connection:
        # The other side may refuse before it has read everything.
        with suppress(ConnectionError):
            connection.sendall(sent)
        with suppress(TimeoutError):
            while not _has(received, expected):
                try:
                    piece = connection.recv(65_536)
                except ConnectionError:
                    piece = b""
                if not piece:
                    is_closed = True
                    break
                received += piece
    return Talk(_replies(received), is_closed, time.monotonic() - began_s)


def _has(received: bytes, expected: int | None) -> bool:
    # To look through all of it with every piece would take long.
    return (
        expected is not None
        and received.count(b"HTTP/1.") >= expected
        and len(_replies(received)) >= expected
    )


def _replies(received: bytes) -> list[RawReply]:
    """The whole responses at the beginning of what was received."""
    replies = []
    while (head := _HEAD.match(received)) is not None:
        length = _LENGTH.search(head[2])
        end = head.end() + (int(length[1]) if length else 0)
        if len(received) < end:
            break
        body = received[head.end() : end]
        replies.append(RawReply(int(head[1]), json.loads(body) if body else {}))
        received = received[end:]
    return replies


def request(
    target: str, *headers: str, method: str = "GET", version: str = "HTTP/1.1", body: bytes = b""
) -> bytes:
    """A request, written exactly as given."""
    lines = [f"{method} {target} {version}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body
