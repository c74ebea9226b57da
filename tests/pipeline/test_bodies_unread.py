"""A request that is answered before its body is read leaves a connection that can be used again, or
it says that it cannot: no client sends its next request into one that is about to end."""

import socket
from collections.abc import Iterator

import pytest

from tests.support.gateway import Gateway
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.waybills.more_calls import WAYBILL_BATCH

FORM = "application/x-www-form-urlencoded"
SHORT = b"sid=1&page=1"
# Less than a gateway waits for a body.
IN_TIME_S = 9


@pytest.fixture
def connection(gateway: Gateway) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=IN_TIME_S) as made:
        # Headers and body as two packets.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield made


def head(*headers: str) -> bytes:
    """The beginning of a call without a token, which is refused before its body is wanted."""
    lines = [f"POST {COUPON_CLAIMS.path} HTTP/1.1", "Host: x", f"Content-Type: {FORM}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def answer(connection: socket.socket) -> bytes:
    """The head of the next answer, once all of it is there."""
    received = b""
    while b"\r\n\r\n" not in received or not received.rstrip().endswith(b"}"):
        piece = connection.recv(65_536)
        assert piece, "the connection ended without an answer"
        received += piece
    assert b'"code":401' in received
    return received.partition(b"\r\n\r\n")[0].lower()


def test_a_body_that_comes_behind_its_headers_keeps_the_connection(
    connection: socket.socket,
) -> None:
    for _ in range(20):
        connection.sendall(head(f"Content-Length: {len(SHORT)}"))
        connection.sendall(SHORT)
        assert b"connection: close" not in answer(connection)


def test_who_sends_a_whole_batch_before_reading_gets_the_answer(
    connection: socket.socket,
) -> None:
    """Most clients read nothing until all is sent, and a reset would hide why it was refused."""
    for _ in range(5):
        connection.sendall(head(f"Content-Length: {WAYBILL_BATCH.body_max_bytes}"))
        connection.sendall(b" " * WAYBILL_BATCH.body_max_bytes)
        assert b"connection: close" not in answer(connection)


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (f"Content-Length: {len(SHORT)}", SHORT[:-1]),
        ("Content-Length: 1000000", SHORT),
        ("Transfer-Encoding: chunked", b"5\r\nhello\r\n"),
    ],
    ids=["never ends", "too long to be read over", "of no length"],
)
def test_otherwise_the_end_of_the_connection_is_announced(
    connection: socket.socket, header: str, body: bytes
) -> None:
    connection.sendall(head(header) + body)
    assert b"connection: close" in answer(connection)
    assert connection.recv(1) == b""


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/push/orders", "/push/none", "/none"])
def test_so_it_is_of_what_is_no_call(connection: socket.socket, path: str) -> None:
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Content-Length: 100000000", "", "some of it"]
    connection.sendall("\r\n".join(lines).encode())
    received = connection.recv(65_536)
    assert b"connection: close" in received.partition(b"\r\n\r\n")[0].lower()


def test_a_page_that_reads_the_body_keeps_the_connection(connection: socket.socket) -> None:
    body = "grant_type=password"
    lines = ["POST /oauth/token HTTP/1.1", "Host: x", f"Content-Type: {FORM}"]
    for _ in range(2):
        sent = [*lines, f"Content-Length: {len(body)}", "", body]
        connection.sendall("\r\n".join(sent).encode())
        received = connection.recv(65_536)
        assert b" 400 " in received and b"connection: close" not in received.lower()
