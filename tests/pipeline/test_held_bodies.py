"""A call whose body is held back until its token has ended: nothing is done or charged."""

import time
from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import pytest

from tests.support.gateway import Gateway, Reply, reply_of
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.metrics import all_of, metrics
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.ledger.accounts import close_account
from tollway.ledger.entries import list_balances
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
) -> Reply:
    """The answer to a call whose body comes after something else was done, and after the gateway
    has accepted its token."""
    body = msgspec.json.encode(sent)

    def pieces() -> Iterator[bytes]:
        under_way = partial(all_of, name="tollway_calls_under_way")
        eventually(lambda: under_way(metrics(gateway)).values(), lambda calls: sum(calls) == 1)
        meanwhile()
        yield body

    headers = {"Authorization": f"Bearer {caller.token}", "Content-Length": str(len(body))}
    headers["Content-Type"] = "application/json"
    return reply_of(gateway.client.post(path, content=pieces(), headers=headers))


def revoke(gateway: Gateway, store: Store, caller: Caller) -> None:
    store.do(lambda database: revoke_token(database, RUNTIME, caller.token))
    _refused(gateway, caller)


def close(gateway: Gateway, store: Store, caller: Caller) -> None:
    store.do(lambda database: close_account(database, RUNTIME, caller.account_id))
    _refused(gateway, caller)


def _refused(gateway: Gateway, caller: Caller) -> None:
    # A server tells the gateway a moment later.
    eventually(lambda: gateway.get(token=caller.token).code, lambda code: code == 401)


def nothing(*_: object) -> None:
    pass


@pytest.mark.parametrize(
    ("end", "code", "charged"), [(revoke, 401, 0), (close, 401, 0), (nothing, 0, 1)]
)
def test_a_call(
    gateway: Gateway,
    store: Store,
    caller: Caller,
    end: Callable[..., None],
    code: int,
    charged: int,
) -> None:
    meanwhile = partial(end, gateway, store, caller)
    reply = held_back(gateway, caller, COUPON_CLAIMS.path, claims(), meanwhile)
    (left,) = store.do(lambda database: list_balances(database, caller.account_id))
    assert (reply.code, left.posted) == (code, charged)


@pytest.mark.parametrize(("end", "code", "tokens"), [(revoke, 401, 1), (nothing, 0, 2)])
def test_another_token(
    gateway: Gateway,
    store: Store,
    caller: Caller,
    end: Callable[..., None],
    code: int,
    tokens: int,
) -> None:
    meanwhile = partial(end, gateway, store, caller)
    reply = held_back(gateway, caller, TOKENS, {"label": "x"}, meanwhile)
    found = store.do(lambda database: list_tokens(database, caller.account_id))
    assert (reply.code, len(found)) == (code, tokens)
