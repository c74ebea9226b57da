"""A call whose body is held back until its token, or its permission, has ended: nothing is done or
charged."""

import socket
import time
from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from tests.support.consent import PATH, allow, ask, new_asker, new_person
from tests.support.gateway import Gateway, Reply, reply_of
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.raw import request
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.consent.grants import revoke_grant
from tollway.ledger.accounts import close_account, suspend_account
from tollway.ledger.entries import list_balances
from tollway.ledger.permissions import Permission, add_permission, revoke_permission, set_closed
from tollway.ledger.tokens import list_tokens, revoke_token
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS

TOKENS = "/account/v1/tokens/make"


@pytest.fixture
def caller(store: Store) -> Caller:
    return new_caller(store, operations=[COUPON_CLAIMS], credits_=5)


def claims() -> dict[str, str]:
    now_s = int(time.time())
    window = {"startTime": str(now_s - 60), "endTime": str(now_s)}
    return {**window, "page": "1", "limit": "1", "sid": "s", "type": "4"}


def held_back(
    gateway: Gateway, caller: Caller, path: str, sent: object, meanwhile: Callable[[], object]
) -> int:
    """The code of a call whose body comes after something else was done, and after the gateway has
    admitted it."""
    body = msgspec.json.encode(sent)
    head = request(
        path,
        "Host: gateway",
        f"Authorization: Bearer {caller.token}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Expect: 100-continue",
        method="POST",
    )
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as connection:
        connection.sendall(head)
        # It comes when the gateway begins to read the body.
        assert connection.recv(64).startswith(b"HTTP/1.1 100 ")
        meanwhile()
        connection.sendall(body)
        answer = connection.recv(65_536)
    return int(answer.partition(b'{"code":')[2].partition(b",")[0])


def revoke(gateway: Gateway, store: Store, caller: Caller) -> None:
    store.do(lambda database: revoke_token(database, RUNTIME, caller.token))
    _refused(gateway, caller)


def close(gateway: Gateway, store: Store, caller: Caller) -> None:
    store.do(lambda database: close_account(database, RUNTIME, caller.account_id))
    _refused(gateway, caller)


def _refused(gateway: Gateway, caller: Caller) -> None:
    # A server tells the gateway a moment later.
    eventually(lambda: gateway.get(token=caller.token).code, lambda code: code == 401)


def take_permission(gateway: Gateway, store: Store, caller: Caller) -> None:
    name = COUPON_CLAIMS.name
    store.do(lambda database: revoke_permission(database, caller.account_id, name))
    eventually(lambda: _tried(gateway, caller).code, lambda code: code == 204)


def raise_price(gateway: Gateway, store: Store, caller: Caller) -> None:
    dearer = Permission(COUPON_CLAIMS.name, 3, None)
    store.do(lambda database: add_permission(database, caller.account_id, dearer))
    eventually(lambda: _tried(gateway, caller).data.get("cost"), lambda cost: cost == 3)


def _tried(gateway: Gateway, caller: Caller) -> Reply:
    headers = {"Authorization": f"Bearer {caller.token}", "X-Tollway-Dry-Run": "1"}
    return reply_of(gateway.client.post(COUPON_CLAIMS.path, json=claims(), headers=headers))


def suspend(gateway: Gateway, store: Store, caller: Caller) -> None:
    store.do(lambda database: suspend_account(database, RUNTIME, caller.account_id))
    eventually(lambda: _tried(gateway, caller).code, lambda code: code == 204)


def nothing(*_: object) -> None:
    pass


@pytest.mark.parametrize(
    ("end", "code", "charged"),
    [
        (revoke, 401, 0),
        (close, 401, 0),
        (take_permission, 204, 0),
        (suspend, 204, 0),
        # It pays what was the price when it came.
        (raise_price, 0, 1),
        (nothing, 0, 1),
    ],
)
def test_a_call_that_was_held_back(
    gateway: Gateway,
    store: Store,
    caller: Caller,
    end: Callable[..., None],
    code: int,
    charged: int,
) -> None:
    meanwhile = partial(end, gateway, store, caller)
    code_seen = held_back(gateway, caller, COUPON_CLAIMS.path, claims(), meanwhile)
    (left,) = store.do(lambda database: list_balances(database, caller.account_id))
    assert (code_seen, left.posted) == (code, charged)


@pytest.mark.sqlite
def test_a_consent_that_is_revoked_meanwhile_allows_nothing(gateway: Gateway, store: Store) -> None:
    asker, person = new_asker(store), new_person(store)
    given = allow(store, asker, person)
    assert ask(gateway, asker, person.id).code == 0
    asked = {"adzone_id": 7, "site_id": 6, "promotion_id": 37104, "platform_user_id": person.id}

    def revoke_it() -> None:
        store.do(lambda database: revoke_grant(database, RUNTIME, given.id))

    assert held_back(gateway, asker, PATH, asked, revoke_it) == 302


def test_a_call_of_an_operation_that_is_closed_meanwhile(
    gateway: Gateway, store: Store, caller: Caller
) -> None:
    def put(*, is_closed: bool) -> None:
        store.do(lambda database: set_closed(database, COUPON_CLAIMS.name, is_closed=is_closed))
        code = 203 if is_closed else 0
        eventually(lambda: _tried(gateway, caller).code, lambda seen: seen == code)

    close_it = partial(put, is_closed=True)
    code_seen = held_back(gateway, caller, COUPON_CLAIMS.path, claims(), close_it)
    put(is_closed=False)
    (left,) = store.do(lambda database: list_balances(database, caller.account_id))
    assert (code_seen, left.posted) == (203, 0)


@pytest.mark.parametrize(("end", "code", "tokens"), [(revoke, 401, 1), (nothing, 0, 2)])
def test_another_token_that_was_asked_for_so(
    gateway: Gateway,
    store: Store,
    caller: Caller,
    end: Callable[..., None],
    code: int,
    tokens: int,
) -> None:
    meanwhile = partial(end, gateway, store, caller)
    code_seen = held_back(gateway, caller, TOKENS, {"label": "x"}, meanwhile)
    found = store.do(lambda database: list_tokens(database, caller.account_id))
    assert (code_seen, len(found)) == (code, tokens)
