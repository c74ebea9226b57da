"""Pushes in great numbers: unsigned ones take little memory, and honest sources get through."""

import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from select import select

import httpx
import msgspec
import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.orders import order, sealer_of
from tests.support.pushes import EVERYONE, SOURCE, push
from tests.support.raw import request, talk
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.intake.sources import SourceScope, add_source, rotate_secret, set_source_scope
from tollway.webhooks.signature import ACTIVE_SECRETS, key_of, sign

# More than what is read without waiting for a place.
LARGE = 70_000


@pytest.fixture
def own(tmp_path: Path) -> Store:
    return Store(tmp_path / "tollway.db")


@pytest.fixture
def secret(own: Store) -> str:
    return own.do(
        lambda database: add_source(database, sealer_of(own), SOURCE, EVERYONE, RUNTIME)
    ).secret


@pytest.fixture
def gateway(own: Store) -> Iterator[Gateway]:
    with Gateway(own) as started:
        yield started


def _order(order_sn: str) -> bytes:
    return msgspec.json.encode(order(order_sn))


def _stored(store: Store) -> list[tuple[str, int]]:
    return store.run("SELECT order_sn, status FROM shop_order ORDER BY 1")


def _head(secret: str, length: int, **changed: str) -> bytes:
    """The beginning of a push whose body never comes."""
    headers = {
        "Host": "gateway",
        "webhook-source": SOURCE,
        "webhook-id": "1",
        "webhook-timestamp": str(int(time.time())),
        "webhook-signature": sign(key_of(secret), "1", "1", b""),
        **{name.replace("_", "-"): value for name, value in changed.items()},
        "Content-Length": str(length),
    }
    lines = (f"{name}: {value}" for name, value in headers.items())
    return request("/push/orders", *lines, method="POST")


@pytest.mark.parametrize("signature", ["x", "v2,AAAA", "V1,AAAA"])
def test_401_without_a_signature_of_a_known_kind_comes_before_the_body(
    gateway: Gateway, secret: str, signature: str
) -> None:
    sent = _head(secret, 100_000, webhook_signature=signature)
    (reply,) = talk(gateway.port, sent, expected=1).replies
    assert reply.status == 401


@pytest.mark.parametrize(
    ("length", "answer"), [(100, b"100"), (LARGE, b"100"), (10**9, b"413")], ids=str
)
def test_before_the_signature_is_checked_no_answer_shows_that_a_source_is_known(
    gateway: Gateway, secret: str, length: int, answer: bytes
) -> None:
    for source in (SOURCE, "unknown"):
        with socket.create_connection(("127.0.0.1", gateway.port)) as sender:
            sender.sendall(_head(secret, length, Expect="100-continue", webhook_source=source))
            assert sender.makefile("rb").readline().split()[1] == answer


@pytest.mark.parametrize(
    ("change", "status"),
    [("nothing", b"200"), ("the secret is replaced", b"401"), ("other shops", b"200")],
)
def test_a_push_counts_by_what_its_source_may_when_its_end_has_come(
    own: Store, gateway: Gateway, secret: str, change: str, status: bytes
) -> None:
    body, sealer, now = _order("sn-held"), sealer_of(own), str(int(time.time()))
    signature = sign(key_of(secret), "1", now, body)
    head = _head(
        secret,
        len(body),
        webhook_timestamp=now,
        webhook_signature=signature,
        Expect="100-continue",
    )
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as sender:
        sender.sendall(head)
        assert sender.recv(64).split()[1] == b"100"
        if change == "the secret is replaced":
            for _ in range(ACTIVE_SECRETS):
                own.do(lambda database: rotate_secret(database, sealer, SOURCE, RUNTIME))
        elif change == "other shops":
            scope = SourceScope(("another",), ())
            own.do(lambda database: set_source_scope(database, SOURCE, scope, RUNTIME))
        sender.sendall(body)
        assert sender.recv(65_536).split()[1] == status
    assert _stored(own) == ([("sn-held", 1)] if change == "nothing" else [])


@contextmanager
def _slow_senders(
    gateway: Gateway,
    secret: str,
    number: int,
    addresses: Sequence[str] = ("127.0.0.1",),
    places: int = 4,
) -> Iterator[list[socket.socket]]:
    """So many of each address announce a large push and send nothing of it; gives those that are
    being read, as soon as every place is taken."""
    with ExitStack() as stack:
        senders = [
            stack.enter_context(
                socket.create_connection(("127.0.0.1", gateway.port), source_address=(each, 0))
            )
            for each in [*addresses] * number
        ]
        for sender in senders:
            sender.sendall(_head(secret, LARGE, Expect="100-continue"))
        # "100 Continue" comes when the server begins to read.
        yield eventually(lambda: select(senders, [], [], 0)[0], lambda ready: len(ready) >= places)


def test_large_pushes_of_one_address_hold_up_another_for_the_time_of_one_body(
    own: Store, secret: str
) -> None:
    gateway = Gateway(own, body_timeout_s=4)
    with _slow_senders(gateway, secret, 20):
        elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(base_url=gateway.base_url, transport=elsewhere, timeout=60) as client:
            assert push(gateway, secret, _large("sn-1"), client=client).status_code == 200
    assert _stored(own) == [("sn-1", 1)]
    assert gateway.stop() == 0


def test_a_few_addresses_that_send_nothing_keep_no_large_push_of_another_out(
    own: Store, secret: str
) -> None:
    """Each in its turn, they would hold all places for longer than a push waits for one."""
    gateway = Gateway(own, body_timeout_s=6)
    addresses = [f"127.0.3.{number}" for number in range(1, 9)]
    elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
    with (
        _slow_senders(gateway, secret, 5, addresses),
        httpx.Client(base_url=gateway.base_url, transport=elsewhere, timeout=60) as client,
    ):
        assert push(gateway, secret, _large("sn-1"), client=client).status_code == 200
    assert gateway.stop() == 0


def test_a_push_that_goes_on_coming_keeps_its_place_while_others_wait(
    own: Store, secret: str
) -> None:
    gateway = Gateway(own, body_timeout_s=60, push_max_bytes=2 * LARGE)
    body, now = _large("sn-1"), str(int(time.time()))
    signed = sign(key_of(secret), "1", now, body)
    head = _head(secret, len(body), webhook_timestamp=now, webhook_signature=signed)
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as sender:
        sender.sendall(head + body[:-1])
        with _slow_senders(gateway, secret, 3, ("127.0.3.1", "127.0.3.2"), places=3) as read:
            # These lose theirs.
            for each in read:
                assert b"HTTP/1.1 408" in each.makefile("rb").read()
        sender.sendall(body[-1:])
        assert sender.recv(65_536).split()[1] == b"200"
    assert _stored(own) == [("sn-1", 1)]
    assert gateway.stop() == 0


def _large(order_sn: str) -> bytes:
    return _order(order_sn).ljust(LARGE)


def test_503_large_pushes_wait_for_each_other_and_small_ones_for_none(
    own: Store, secret: str
) -> None:
    gateway = Gateway(own, body_timeout_s=4)
    # The pushes that get the slots next keep them for longer than the following one waits.
    with _slow_senders(gateway, secret, 12) as read:
        for _ in range(3):
            assert push(gateway, secret, _order("sn-small")).status_code == 200
        assert len(read) == 4
        refused = push(gateway, secret, _large("sn-large"))
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) > 0
    assert _stored(own) == [("sn-small", 1)]
    assert gateway.stop() == 0


def test_slow_senders_hold_up_large_pushes_for_the_time_of_a_body_only(
    own: Store, secret: str
) -> None:
    other = own.do(
        lambda database: add_source(database, sealer_of(own), "other", EVERYONE, RUNTIME)
    ).secret
    gateway = Gateway(own, body_timeout_s=4)
    with _slow_senders(gateway, secret, 4) as read, ThreadPoolExecutor(2) as beside:
        first = beside.submit(push, gateway, secret, _large("sn-1"))
        second = beside.submit(push, gateway, other, _large("sn-2"), source="other")
        assert [first.result().status_code, second.result().status_code] == [200, 200]
        for each in read:
            assert b"HTTP/1.1 408" in each.makefile("rb").read()
    assert _stored(own) == [("sn-1", 1), ("sn-2", 1)]
    assert gateway.stop() == 0
