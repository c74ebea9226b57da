"""However much one kind of request sends, it does not take the connections that others need."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from urllib.parse import urlencode

import msgspec
import pytest

from tests.support.browsers import Browser
from tests.support.consent import new_person
from tests.support.figures import store_with_figures
from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.orders import OWNER, order, put_orders, sealer_of
from tests.support.owners import authorize, shop
from tests.support.postgresql import locked, waiting
from tests.support.pushes import EVERYONE
from tests.support.raw import RawReply, request, talk
from tests.support.receipts import ask_receipt
from tests.support.remote import eventually
from tests.support.stores import Store
from tests.support.wire import Wire
from tollway.gateway.oauth import GRANT_TYPE, TOKEN_PATH
from tollway.intake.sources import add_source
from tollway.ledger.token_format import SECRET, mint
from tollway.operations.orders.operation import ORDERS
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.webhooks.signature import key_of, sign

pytestmark = pytest.mark.postgresql

# More than a worker has connections.
CROWD = 24


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, today: date, engine: str) -> Store:
    store = store_with_figures(tmp_path_factory.mktemp("crowds") / "tollway.db", today)
    put_orders(store, [order("sn-1", remark="请尽快发货")])
    return store


@pytest.fixture(scope="module")
def served(own: Store) -> Iterator[Gateway]:
    """Whatever a test holds is waited for as long as it likes."""
    with Gateway(own, call_timeout_s=120) as gateway:
        yield gateway


def new_shopper(store: Store) -> Caller:
    """A caller that may read the orders of the shop, at any rate."""
    made = new_caller(store, operations=(ORDERS, PRODUCT_ANALYSIS), credits_=100, rate_limit=1000)
    store.do(lambda database: authorize(database, made.account_id, ORDERS, shop(OWNER)))
    return made


def asking_for_orders(token: str, **fields: str) -> bytes:
    body = urlencode({"owner_id": OWNER, **fields}).encode()
    headers = (
        "Host: gateway",
        f"Authorization: Bearer {token}",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
    )
    return request(ORDERS.path, *headers, method="POST", body=body)


@contextmanager
def crowd(
    gateway: Gateway, table: str, sent: Sequence[bytes], mode: str = "ACCESS EXCLUSIVE"
) -> Iterator[Callable[[], list[RawReply]]]:
    """All of these are sent at once, and wait for a table that is held meanwhile; gives what they
    were answered in the end."""

    def send(each: bytes) -> RawReply:
        return talk(gateway.port, each, expected=1, patience_s=120).replies[0]

    with ThreadPoolExecutor(len(sent)) as pool, locked(gateway.store.url, table, mode=mode):
        answers = [pool.submit(send, each) for each in sent]
        eventually(lambda: waiting(gateway.store.url), lambda number: number > 0)
        yield lambda: [answer.result() for answer in answers]


def test_the_long_reads_of_one_account_leave_slots_for_those_of_others(
    own: Store, served: Gateway, question: dict[str, str]
) -> None:
    busy, other = new_shopper(own), new_shopper(own)
    charged = served.get(token=other.token, query=question)
    searches = [asking_for_orders(busy.token, remark="尽快")] * CROWD
    with crowd(served, "shop_order", searches) as answers:
        for _ in range(3):
            receipt = ask_receipt(served, other.token, charged.headers["x-request-id"])
            assert receipt.code == 0, receipt.envelope
        assert waiting(own.url) == 1
    assert [reply.envelope["code"] for reply in answers()] == [0] * CROWD, "each in its turn"


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[tuple[Gateway, Wire]]:
    """A gateway whose calls wait for a second only, and what passes to its database."""
    store = Store(tmp_path / "tollway.db")
    wire = Wire(store.url)
    try:
        direct, store.url = store.url, wire.url
        gateway = Gateway(store, call_timeout_s=1)
        store.url = direct
        yield gateway, wire
        assert gateway.stop() == 0
    finally:
        wire.close()


def test_101_a_long_read_that_gets_no_turn_in_time(hasty: tuple[Gateway, Wire]) -> None:
    gateway, wire = hasty
    shoppers = [new_shopper(gateway.store) for _ in range(CROWD)]
    searches = [asking_for_orders(each.token, remark="尽快") for each in shoppers]
    with crowd(gateway, "shop_order", searches) as answers:
        assert {reply.envelope["code"] for reply in answers()} == {101}
    # Not even preparing such a statement can be done while the table is held.
    asked = sum(count for text, count in wire.trips.items() if "replace(" in text)
    assert 0 < asked < CROWD, "the others were refused without a query"


def assert_paid(gateway: Gateway, caller: Caller, question: dict[str, str]) -> None:
    for _ in range(3):
        paid = gateway.get(token=caller.token, query=question)
        assert paid.code == 0, paid.envelope


def unknown_tokens() -> list[bytes]:
    tokens = [mint("live", secrets.choice) for _ in range(CROWD)]
    return [
        request(ANALYSIS, "Host: gateway", f"Authorization: Bearer {token}") for token in tokens
    ]


def unknown_clients() -> list[bytes]:
    """Each with an id and a secret that a client could have."""

    def ask() -> bytes:
        secret = mint(SECRET, secrets.choice)
        form = {
            "grant_type": GRANT_TYPE,
            "client_id": RUNTIME.new_id("cli_"),
            "client_secret": secret,
        }
        body = urlencode(form).encode()
        headers = (
            "Host: gateway",
            "Content-Type: application/x-www-form-urlencoded",
            f"Content-Length: {len(body)}",
        )
        return request(TOKEN_PATH, *headers, method="POST", body=body)

    return [ask() for _ in range(CROWD)]


def pushes(store: Store) -> list[bytes]:
    """Each of another source."""

    def push(number: int) -> bytes:
        name = f"source-{number}-{secrets.token_hex(4)}"
        secret = store.do(
            lambda database: add_source(database, sealer_of(store), name, EVERYONE, RUNTIME)
        ).secret
        body, at = msgspec.json.encode(order(f"pushed-{name}")), str(int(time.time()))
        headers = (
            "Host: gateway",
            f"webhook-source: {name}",
            "webhook-id: 1",
            f"webhook-timestamp: {at}",
            f"webhook-signature: {sign(key_of(secret), '1', at, body)}",
            f"Content-Length: {len(body)}",
        )
        return request("/push/orders", *headers, method="POST", body=body)

    return [push(number) for number in range(CROWD)]


def pages(gateway: Gateway) -> list[bytes]:
    """All of one owner, who has signed in."""
    browser = Browser(gateway)
    browser.open("/owner")
    browser.sign_in(new_person(gateway.store).login)
    cookies = "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())
    browser.client.close()
    return [request("/owner", "Host: gateway", f"Cookie: {cookies}")] * CROWD


# How many of them are at the database at once, and one of what a gateway does now and then.
@pytest.mark.parametrize(
    ("who", "most"),
    [
        ("unknown tokens", 2 + 1),
        ("unknown clients", 2 + 1),
        ("readers", 6 + 1),
        ("sources", 1 + 1),
        ("probes", 1 + 1),
        ("pages", 2 + 1),
    ],
)
def test_calls_are_paid_whatever_crowds_the_database(
    own: Store, served: Gateway, question: dict[str, str], who: str, most: int
) -> None:
    caller = new_shopper(own)
    made = {
        "unknown tokens": lambda: ("token", unknown_tokens(), "ACCESS EXCLUSIVE"),
        "unknown clients": lambda: ("client", unknown_clients(), "ACCESS EXCLUSIVE"),
        "readers": lambda: (
            "shop_order",
            [asking_for_orders(caller.token)] * CROWD,
            "ACCESS EXCLUSIVE",
        ),
        "sources": lambda: ("shop_order", pushes(own), "EXCLUSIVE"),
        "probes": lambda: (
            "version",
            [request("/readyz", "Host: gateway")] * CROWD,
            "EXCLUSIVE",
        ),
        "pages": lambda: ("consent", pages(served), "ACCESS EXCLUSIVE"),
    }
    table, sent, mode = made[who]()
    assert_paid(served, caller, question)
    with crowd(served, table, sent, mode):
        assert_paid(served, caller, question)
        assert waiting(own.url) <= most


def test_a_crowd_does_take_the_connections_that_are_not_kept(
    own: Store, question: dict[str, str]
) -> None:
    gateway = Gateway(own, call_timeout_s=120, database_connections=1)
    caller = new_shopper(own)
    assert_paid(gateway, caller, question)
    with crowd(gateway, "token", unknown_tokens()):
        assert gateway.get(token=caller.token, query=question).code == 101
    assert gateway.stop() == 0
