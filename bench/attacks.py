"""The attacks of `crowds.py`: each is a process that sends until it is killed.

The figures (how many connections, how large) are those with which an earlier version was slowed
down or locked out.
"""

import re
import socket
from collections.abc import Callable
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from time import sleep
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tollway.gateway.oauth import TOKEN_PATH
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.orders.operation import ORDERS
from tollway.operations.promotion_material.operation import PROMOTION_MATERIAL

# Not the address of the client that is measured.
ADDRESS = "127.0.0.9"
SIGN_IN_PATH = "/owner/sign-in"
_FORM = "application/x-www-form-urlencoded"
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def request(path: str, *headers: str, body: bytes | None = None) -> bytes:
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "Host: gateway", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


class Connection:
    """Sends one request again and again, each time once it is answered, or on a new connection if
    the last one was closed."""

    def __init__(self, port: int, sent: bytes) -> None:
        self._port, self._sent = port, sent
        self.begin()

    def begin(self) -> None:
        self.socket = socket.create_connection(
            ("127.0.0.1", self._port), source_address=(ADDRESS, 0)
        )
        self._answer()

    def _answer(self) -> None:
        self._received, self._left = b"", -1
        # The gateway may refuse before it has read everything.
        with suppress(OSError):
            self.socket.sendall(self._sent)

    def go_on(self) -> bool:
        """Takes what came back; False if the connection has ended."""
        try:
            piece = self.socket.recv(1 << 18)
        except OSError:
            piece = b""
        if not piece:
            self.socket.close()
            return False
        self._received += piece
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head) if found else None
        if length is not None and len(body) >= int(length[1]):
            self._answer()
        return True


def repeat(port: int, has_begun: Any, sent: bytes, connections: int) -> None:
    selector = DefaultSelector()
    for _ in range(connections):
        made = Connection(port, sent)
        selector.register(made.socket, EVENT_READ, made)
    has_begun.set()
    while True:
        for key, _ in selector.select():
            if not key.data.go_on():
                selector.unregister(key.fileobj)
                key.data.begin()
                selector.register(key.data.socket, EVENT_READ, key.data)


def hold(port: int, has_begun: Any, sent: bytes, connections: int) -> None:
    """Sends once on each connection and reads nothing; those that were ended are made again."""
    held: list[socket.socket] = []
    for _ in range(connections):
        held.append(_holding(port, sent))
    has_begun.set()
    while True:
        for number, each in enumerate(held):
            with suppress(BlockingIOError, OSError):
                if each.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
                    each.close()
                    held[number] = _holding(port, sent)
        sleep(0.5)


def _holding(port: int, sent: bytes) -> socket.socket:
    made = socket.socket()
    made.bind((ADDRESS, 0))
    made.setblocking(False)
    with suppress(BlockingIOError):
        made.connect(("127.0.0.1", port))
    for _ in range(100):
        try:
            made.send(sent)
        except OSError:
            sleep(0.001)
        else:
            break
    return made


class Attack(NamedTuple):
    """What is sent, how, and on how many connections."""

    name: str
    act: Callable[[int, Any, bytes, int], None]
    sent: bytes
    connections: int
    # Whether the client that is measured makes a connection for each call.
    is_fresh: bool = False


def attacks(
    free_token: str, paid_token: str, owner_id: str, cookie: str, guess: dict[str, str]
) -> list[Attack]:
    """`cookie` and `guess` are what a browser sends with a wrong password."""
    free, paid = (f"Authorization: Bearer {each}" for each in (free_token, paid_token))
    percents, objects = b"sid=" + b"%41" * 349_524, b'{"a":[' + b"{}," * 349_520 + b"{}]}"
    stalled = request(COUPON_CLAIMS.path, free, f"Content-Type: {_FORM}", body=b"x" * 2**20)[:-1]
    small = request(COUPON_CLAIMS.path, free, f"Content-Type: {_FORM}", body=b"x" * 16_384)[:-1]
    page = urlencode({"owner_id": owner_id}).encode()
    hundred = request("/openapi.json") * 100
    form = f"Content-Type: {_FORM}"
    return [
        Attack(
            "1 form, 1 MiB of %41",
            repeat,
            request(COUPON_CLAIMS.path, free, form, body=percents),
            4,
        ),
        Attack(
            "1 the same in 16 KiB",
            repeat,
            request(COUPON_CLAIMS.path, free, form, body=percents[:16_384]),
            4,
        ),
        Attack(
            "1 JSON, 1 MiB of {}", repeat, request(PROMOTION_MATERIAL.path, free, body=objects), 4
        ),
        Attack(
            "1 16 KiB to /oauth/token",
            repeat,
            request(TOKEN_PATH, form, body=percents[:16_384]),
            16,
        ),
        Attack(
            "1 Accept-Language, 14 kB",
            repeat,
            request("/nowhere", "Accept-Language: " + "zh;q=0.1," * 1555),
            16,
        ),
        Attack(
            "1 page, 15 kB of query",
            repeat,
            request("/owner?" + "a=%41&" * 2500, "Accept: text/html"),
            64,
        ),
        Attack("2 never read", hold, hundred, 4200),
        Attack("2 never read, new client", hold, hundred, 4200, is_fresh=True),
        Attack("3 orders, long addresses", repeat, request(ORDERS.path, paid, form, body=page), 4),
        Attack("8 bodies, one byte short", hold, stalled, 400),
        Attack("8 small ones, the same", hold, small, 2000),
        Attack(
            "9 guessed passwords",
            repeat,
            request(SIGN_IN_PATH, form, f"Cookie: {cookie}", body=urlencode(guess).encode()),
            30,
        ),
        Attack("0 /healthz", repeat, request("/healthz"), 128),
        Attack("0 /owner", repeat, request("/owner"), 128),
        Attack("0 /metrics", repeat, request("/metrics"), 128),
    ]
