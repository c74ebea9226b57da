"""Promotion material: every reason that it answers with; no failure moves a balance."""

import time
from collections.abc import Iterator

import pytest

from tests.support.changes import assert_seen
from tests.support.consent import PATH, Person, allow, ask, new_asker, new_person
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, credits_left
from tests.support.rates import at_once
from tests.support.stores import Store
from tollway.consent.grants import revoke_grant
from tollway.ledger.permissions import set_closed
from tollway.operations.promotion_material.operation import PROMOTION_MATERIAL


@pytest.fixture
def unpaid(store: Store, asker: Caller) -> Iterator[Caller]:
    """An asker whose credits must be the same after the test."""
    before = credits_left(store, asker)
    yield asker
    assert credits_left(store, asker) == before


def test_100_spellings_that_differ(gateway: Gateway, unpaid: Caller, person: Person) -> None:
    reply = ask(gateway, unpaid, person.id, material_id=37116)
    assert (reply.code, reply.data) == (100, {})
    assert "promotion_id" in reply.msg and "material_id" in reply.msg


@pytest.mark.parametrize("field", ["adzone_id", "site_id", "promotion_id", "platform_user_id"])
def test_100_parameter_missing(
    gateway: Gateway, unpaid: Caller, person: Person, field: str
) -> None:
    reply = ask(gateway, unpaid, person.id, **{field: None})
    assert (reply.code, reply.data) == (100, {})
    assert field in reply.msg and "missing" in reply.msg


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("page_size", 11),
        ("page_size", 0),
        ("page_num", 0),
        ("adzone_id", "mm_1"),
        ("site_id", -1),
        ("promotion_id", 1.5),
        ("platform_user_id", True),
        ("platform_user_id", 10**18),
        ("platform_user_id", "１２"),
    ],
)
def test_100_parameter_invalid(
    gateway: Gateway, unpaid: Caller, person: Person, field: str, value: object
) -> None:
    reply = ask(gateway, unpaid, person.id, **{field: value})
    assert (reply.code, reply.data) == (100, {})
    assert field in reply.msg


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"adzone_id": NaN}', b"\xff"])
def test_100_body_unreadable(gateway: Gateway, unpaid: Caller, body: bytes) -> None:
    assert gateway.post_json(PATH, body, token=unpaid.token).code == 100


def test_101_timed_out(own_store: Store) -> None:
    asker, person = new_asker(own_store), new_person(own_store)
    allow(own_store, asker, person)
    gateway = Gateway(own_store, call_timeout_s=1)
    with own_store.held():
        reply = ask(gateway, asker, person.id)
        assert (reply.code, reply.data) == (101, {})
    assert credits_left(own_store, asker) == 100
    gateway.stop()


def test_103_owner_unknown(gateway: Gateway, unpaid: Caller) -> None:
    reply = ask(gateway, unpaid, 5)
    assert (reply.code, reply.data) == (103, {})
    assert "platform_user_id" in reply.msg


def test_200_and_203_and_mapped_statuses(own_store: Store) -> None:
    asker, person = new_asker(own_store), new_person(own_store)
    gateway = Gateway(own_store, http_status="mapped")

    def answered() -> tuple[int, int]:
        reply = ask(gateway, asker, person.id)
        return reply.code, reply.status

    assert answered() == (302, 403)
    assert ask(gateway, asker, 5).status == 400
    name = PROMOTION_MATERIAL.name
    own_store.do(lambda database: set_closed(database, name, is_closed=True))
    assert_seen(own_store, answered, (203, 501))
    # In this order no call can succeed, whenever each of the changes is seen.
    own_store.run("DROP TABLE promotion_material")
    allow(own_store, asker, person)
    own_store.do(lambda database: set_closed(database, name, is_closed=False))
    assert_seen(own_store, answered, (200, 500))
    assert ask(gateway, asker, person.id).data == {}
    assert credits_left(own_store, asker) == 100
    gateway.stop()


def test_202_throttled(gateway: Gateway, store: Store, person: Person) -> None:
    def allowed() -> Caller:
        asker = new_asker(store, rate_limit=1)
        allow(store, asker, person)
        return asker

    asker, codes = at_once(
        allowed, lambda asker: [ask(gateway, asker, person.id).code for _ in range(2)]
    )
    assert codes == [0, 202]
    assert credits_left(store, asker) == 99


def test_204_permission_missing_and_credits_used_up(
    gateway: Gateway, store: Store, person: Person
) -> None:
    reply = ask(gateway, new_asker(store, granted=False), person.id)
    assert (reply.code, reply.data) == (204, {})
    assert "permission" in reply.msg.lower()
    poor = new_asker(store, credits_=1, price=2)
    allow(store, poor, person)
    reply = ask(gateway, poor, person.id)
    assert reply.code == 204
    assert "1 left" in reply.msg and "costs 2" in reply.msg
    assert credits_left(store, poor) == 1


def test_302_tells_where_and_until_when_to_authorize(
    gateway: Gateway, store: Store, person: Person
) -> None:
    asker = new_asker(store)
    reply = ask(gateway, asker, person.id)
    assert (reply.code, list(reply.data)) == (302, ["authorize_url", "expires_at"])
    assert reply.data["authorize_url"].startswith(f"{gateway.base_url}/authorize?link=")
    assert 3500 < reply.data["expires_at"] - time.time() <= 3600
    assert "authorize_url" in reply.msg
    assert credits_left(store, asker) == 100


def test_302_for_another_account_an_expired_and_a_revoked_grant(
    gateway: Gateway, store: Store, asker: Caller, person: Person
) -> None:
    assert ask(gateway, asker, person.id).code == 0
    other = new_asker(store)
    assert ask(gateway, other, person.id).code == 302
    allow(store, other, person, lifetime_s=0)
    assert ask(gateway, other, person.id).code == 302
    given = allow(store, other, person)
    assert_seen(store, lambda: ask(gateway, other, person.id).code, 0)
    assert credits_left(store, other) == 99
    store.do(lambda database: revoke_grant(database, RUNTIME, given.id))
    assert_seen(store, lambda: ask(gateway, other, person.id).code, 302)
    left = credits_left(store, other)
    assert ask(gateway, other, person.id).code == 302
    assert credits_left(store, other) == left


def test_401_and_404(gateway: Gateway, asker: Caller) -> None:
    assert gateway.post_json(PATH, {}).code == 401
    assert gateway.get(PATH, token=asker.token).code == 404
