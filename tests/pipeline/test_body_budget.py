"""Bodies that are sent almost to their end take memory. How much, and of whom, is limited."""

import asyncio
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.gateway import Gateway
from tests.support.ledger import Caller, new_caller
from tests.support.raw import request, talk
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.contract.operation import Operation
from tollway.gateway.oauth import TOKEN_PATH
from tollway.gateway.pages import Pages
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.waybills.more_calls import WAYBILL_BATCH
from tollway.operations.waybills.operation import WAYBILLS
from tollway.pipeline.bodies import BodyShare, ByteBudget, Message, OverBudgetError
from tollway.settings import Settings

pytestmark = pytest.mark.sqlite
LIMIT = COUPON_CLAIMS.body_max_bytes
# More than an account may hold, and than an address may.
STALLED = 8 * 2**20 // (LIMIT - 1024) + 50


def test_a_sender_may_hold_what_it_leaves_free() -> None:
    budget = ByteBudget(1000)
    budget.take("a", 500)
    for sender in ("a", "b"):
        with pytest.raises(OverBudgetError):
            budget.take(sender, 251)
    budget.take("b", 250)
    budget.take("c", 125)
    budget.give_back("a", 500)
    budget.take("c", 250)


def test_what_a_body_took_is_given_back_whatever_happens() -> None:
    budget = ByteBudget(130_000)
    for size in (0, 1, 1024, 1025, 50_000, 66_000):
        with pytest.raises(ZeroDivisionError), BodyShare(budget, "a") as share:
            share.cover(size // 2)
            share.cover(size)
            raise ZeroDivisionError
    budget.take("a", 65_000)


def test_a_page_that_reads_its_body_itself_has_no_more_than_its_sender_may_hold() -> None:
    """By the bytes alone: through HTTP a body that is held back would also end by its timeout."""
    budget, read, statuses = ByteBudget(100_000), [], []
    pieces = [b"x" * 20_000] * 100

    async def endpoint(request: Request) -> Response:
        try:
            async for piece in request.stream():
                read.append(len(piece))
        except ClientDisconnect:
            return Response(status_code=408)
        return Response()

    async def receive() -> Message:
        return {"type": "http.request", "body": pieces.pop(), "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        statuses.append(message.get("status"))

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/page",
        "raw_path": b"/page",
        "query_string": b"",
        "headers": [],
        "client": ("192.0.2.1", 1),
    }
    app = Starlette(routes=[Route("/page", endpoint, methods=["POST"])])
    pages = Pages(app, ["/page"], Settings(), budget)
    asyncio.run(pages(scope, receive, send))
    assert (statuses[0], sum(read)) == (408, 40_000)
    # And all of it is given back.
    budget.take("192.0.2.2", 50_000)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    return Store(tmp_path_factory.mktemp("budget") / "tollway.db")


@pytest.fixture(scope="module")
def served(own: Store) -> Iterator[Gateway]:
    with Gateway(own, body_timeout_s=120) as gateway:
        yield gateway


def sender(store: Store) -> Caller:
    return new_caller(store, operations=(COUPON_CLAIMS,), credits_=100, rate_limit=100_000)


def form(path: str, size: int, token: str = "") -> bytes:
    headers = [
        "Host: x",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {size}",
    ]
    if token:
        headers.append(f"Authorization: Bearer {token}")
    return request(path, *headers, method="POST", body=b"sid=" + b"x" * (size - 4))


def code(gateway: Gateway, sent: bytes) -> int:
    return talk(gateway.port, sent, expected=1).codes[0]


def answered(connections: list[socket.socket]) -> list[socket.socket]:
    poll = select.poll()
    for each in connections:
        poll.register(each, select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll(0)}
    return [each for each in connections if each.fileno() in ready]


@contextmanager
def stalled(gateway: Gateway, sent: bytes) -> Iterator[list[socket.socket]]:
    """Connections that each sent all but the last byte, once some of them were refused."""
    with ExitStack() as held:
        made = [
            held.enter_context(socket.create_connection(("127.0.0.1", gateway.port)))
            for _ in range(STALLED)
        ]
        for each in made:
            each.sendall(sent[:-1])
        yield eventually(lambda: answered(made), lambda some: len(some) >= 40)


def test_202_bodies_too_many(served: Gateway, own: Store) -> None:
    hostile, other = sender(own), sender(own)
    large = form(COUPON_CLAIMS.path, LIMIT, hostile.token)
    with stalled(served, large) as refused:
        for each in refused:
            assert b'"code":202,"msg":"Too many request bodies' in each.recv(65_536)
        small = form(COUPON_CLAIMS.path, 1024, hostile.token)
        assert code(served, small) == 100, "an ordinary call is read as ever"
        assert code(served, form(COUPON_CLAIMS.path, LIMIT, other.token)) == 100
    eventually(lambda: code(served, large), lambda answered: answered == 100)


def test_so_are_those_of_outsiders(served: Gateway) -> None:
    with stalled(served, form("/owner/sign-in", 16_384)) as refused:
        for each in refused:
            assert each.recv(65_536).startswith(b"HTTP/1.1 408 ")
        small = form(TOKEN_PATH, 1024)
        assert talk(served.port, small, expected=1).replies[0].status == 400


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_no_operation_takes_large_bodies(operation: Operation) -> None:
    assert operation.body_max_bytes <= 16_384


def test_the_body_of_a_batch_counts_whole(served: Gateway, own: Store) -> None:
    """Half of the budget of 16 MiB is 16 of the largest."""
    token = new_caller(own, operations=(WAYBILLS,), rate_limit=100_000).token
    sent = form(WAYBILL_BATCH.path, WAYBILL_BATCH.body_max_bytes, token)
    with ExitStack() as held:
        made = [
            held.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            for _ in range(20)
        ]
        for each in made:
            # One that is refused is closed before all of it is sent.
            with suppress(ConnectionError):
                each.sendall(sent[:-1])
        for each in eventually(lambda: answered(made), lambda some: len(some) >= 4):
            assert b'"code":202,"msg":"Too many request bodies' in each.recv(65_536)
