"""Pushes that are refused before all of their body is read: the sender gets the answer all the
same, also one that reads nothing before it has sent everything, as proxies do."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.orders import order, sealer_of
from tests.support.pushes import EVERYONE, SOURCE, push
from tests.support.raw import request
from tests.support.stores import Store
from tollway.intake.sources import add_source

# More than the buffers of a connection take.
LARGE = 8_000_000
PIECE = b" " * 100_000
# Longer than a gateway reads what it has refused.
IN_TIME_S = 30
UNSIGNED: dict[str, str] = {}
# Its time is long past.
STALE = {
    "webhook-source": SOURCE,
    "webhook-id": "1",
    "webhook-timestamp": "1700000000",
    "webhook-signature": "v1,AAAA",
}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("unread") / "tollway.db")


@pytest.fixture(scope="module")
def gateway(own: Store) -> Iterator[Gateway]:
    with Gateway(own, body_timeout_s=IN_TIME_S) as started:
        yield started


@pytest.fixture
def hasty(own_store: Store) -> Iterator[Gateway]:
    """It soon leaves a sender that stalls."""
    with Gateway(own_store, body_timeout_s=4) as started:
        yield started


def _head(path: str, headers: dict[str, str], *more: str) -> bytes:
    signed = (f"{name}: {value}" for name, value in headers.items())
    return request(path, "Host: gateway", *signed, *more, method="POST")


def _connected(gateway: Gateway) -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.port), timeout=IN_TIME_S)


def _rest(sender: socket.socket) -> bytes:
    return sender.makefile("rb").read()


@pytest.mark.parametrize(
    ("path", "headers", "size", "status"),
    [
        ("/push/orders", UNSIGNED, LARGE, b"401"),
        ("/push/orders", STALE, LARGE, b"401"),
        ("/push/nothing", STALE, LARGE, b"404"),
        ("//push/orders", UNSIGNED, LARGE, b"404"),
        ("/push/orders", STALE | {"webhook-timestamp": "now"}, 2 * LARGE, b"413"),
    ],
    ids=["unsigned", "stale", "to no path", "after a slash", "too large"],
)
@pytest.mark.parametrize("is_announced", [True, False], ids=["announced", "chunked"])
def test_a_sender_that_reads_last_gets_the_answer(
    gateway: Gateway,
    path: str,
    headers: dict[str, str],
    size: int,
    status: bytes,
    is_announced: bool,
) -> None:
    now = {name: str(int(time.time())) if of == "now" else of for name, of in headers.items()}
    how = f"Content-Length: {size}" if is_announced else "Transfer-Encoding: chunked"
    body = b" " * size if is_announced else b"%x\r\n%b\r\n0\r\n\r\n" % (size, b" " * size)
    for _ in range(2):
        with _connected(gateway) as sender:
            sender.sendall(_head(path, now, how))
            sender.sendall(body)
            answer = _rest(sender)
        assert answer.split()[1] == status
        assert b"connection: close" in answer.lower()


def test_the_answer_does_not_wait_for_the_body(gateway: Gateway) -> None:
    with _connected(gateway) as sender:
        sender.sendall(_head("/push/orders", UNSIGNED, f"Content-Length: {LARGE}"))
        assert sender.recv(65_536).split()[1] == b"401"


@pytest.mark.parametrize(
    "how", [f"Content-Length: {10**9}", "Transfer-Encoding: chunked"], ids=["announced", "chunked"]
)
def test_a_body_without_an_end_is_not_read_on(gateway: Gateway, how: str) -> None:
    with _connected(gateway) as sender:
        sender.sendall(_head("/push/orders", UNSIGNED, how))
        piece = b"%x\r\n%b\r\n" % (len(PIECE), PIECE)
        with pytest.raises(ConnectionError):
            for _ in range(1000):
                sender.sendall(piece)


def test_senders_that_stall_are_left_and_hold_up_no_signed_push(
    own_store: Store, hasty: Gateway
) -> None:
    sealer = sealer_of(own_store)
    secret = own_store.do(
        lambda database: add_source(database, sealer, SOURCE, EVERYONE, RUNTIME)
    ).secret
    with ExitStack() as stack:
        stalled = [stack.enter_context(_connected(hasty)) for _ in range(80)]
        for sender in stalled:
            sender.sendall(_head("/push/orders", UNSIGNED, f"Content-Length: {LARGE}") + PIECE)
        large = PIECE + msgspec.json.encode(order("sn-1"))
        assert push(hasty, secret, large).status_code == 200
        # To the end of each connection.
        assert {_rest(sender).split()[1] for sender in stalled} == {b"401"}
