"""With http_status = "mapped", each code comes with the HTTP status that was decided for it."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.changes import assert_seen
from tests.support.gateway import ANALYSIS, Gateway, Reply
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.rates import at_once
from tests.support.stores import Store
from tollway.ledger.permissions import set_closed
from tollway.ledger.tokens import revoke_token
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS

NAME = PRODUCT_ANALYSIS.name
Get = Callable[[Caller], Reply]


@pytest.fixture(scope="module")
def mapped(its_store: Store) -> Iterator[Gateway]:
    with Gateway(its_store, http_status="mapped") as started:
        yield started


@pytest.fixture
def get(mapped: Gateway, question: dict[str, str]) -> Get:
    return lambda caller: mapped.get(token=caller.token, query=question)


def test_success_and_what_the_caller_did_wrong(mapped: Gateway, its_store: Store, get: Get) -> None:
    caller, revoked = new_caller(its_store), new_caller(its_store)
    its_store.do(lambda database: revoke_token(database, RUNTIME, revoked.token_id))
    found = [
        get(caller),
        mapped.get(token=caller.token),
        get(new_caller(its_store, granted=False)),
        get(new_caller(its_store, calls=0)),
        get(revoked),
        mapped.get("/nowhere"),
        mapped.get(ANALYSIS, method="POST"),
    ]
    assert [(reply.code, reply.status) for reply in found] == [
        (0, 200),
        (100, 400),
        (204, 403),
        (204, 402),
        (401, 401),
        (404, 404),
        (404, 405),
    ]


def test_what_http_demands_with_a_status_is_there(mapped: Gateway) -> None:
    assert mapped.get(ANALYSIS).headers["www-authenticate"] == "Bearer"
    assert mapped.get(ANALYSIS, method="POST").headers["allow"] == "GET"


def test_throttled(its_store: Store, get: Get) -> None:
    _, replies = at_once(
        lambda: new_caller(its_store, rate_limit=1), lambda caller: [get(caller), get(caller)]
    )
    assert [(reply.code, reply.status) for reply in replies] == [(0, 200), (202, 429)]
    assert replies[1].headers["retry-after"] == "1"


def test_closed(its_store: Store, get: Get) -> None:
    caller = new_caller(its_store)
    its_store.do(lambda database: set_closed(database, NAME, is_closed=True))
    reply = get(caller)
    its_store.do(lambda database: set_closed(database, NAME, is_closed=False))
    assert (reply.code, reply.status) == (203, 501)
    assert reply.headers["ratelimit-policy"] == f'"{NAME}";q=10;w=1'
    assert reply.headers["ratelimit"] == f'"{NAME}";r=10;t=1'
    assert_seen(its_store, lambda: get(caller).code, 0)


def test_timed_out(own_store: Store, question: dict[str, str]) -> None:
    # One of its own: no other call need be answered so soon.
    gateway = Gateway(own_store, http_status="mapped", call_timeout_s=1)
    caller = new_caller(own_store)
    with own_store.held():
        reply = gateway.get(token=caller.token, query=question)
    assert (reply.code, reply.status) == (101, 504)
    assert gateway.stop() == 0


def test_an_unexpected_error(mapped: Gateway, its_store: Store, question: dict[str, str]) -> None:
    caller = new_caller(its_store)
    its_store.run("ALTER TABLE product RENAME TO hidden")
    # Asked for something new, which is not kept ready.
    query = {**question, "product_id": "another"}
    reply = mapped.get(token=caller.token, query=query)
    its_store.run("ALTER TABLE hidden RENAME TO product")
    assert (reply.code, reply.status) == (200, 500)
    assert mapped.get(token=caller.token, query=query).code == 100
