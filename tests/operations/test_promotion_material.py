"""Promotion material through real HTTP: every field, every reason; no failure moves a balance."""

import time
from collections.abc import Iterator
from datetime import date
from typing import Any

import msgspec
import pytest

from tests.support.books import WORLD
from tests.support.changes import assert_seen
from tests.support.consent import (
    PATH,
    Asker,
    Person,
    allow,
    ask,
    credits_left,
    new_asker,
    new_person,
)
from tests.support.gateway import Gateway, Reply
from tests.support.rates import at_once
from tests.support.stores import Store
from tollway.consent.grants import revoke_grant
from tollway.demo.filling import fill_materials
from tollway.demo.owners import USER, USER_UNAUTHORIZED
from tollway.demo.promotion import PROMOTION_IDS
from tollway.ledger.permissions import set_closed
from tollway.operations.promotion_material.descriptor import PROMOTION_MATERIAL
from tollway.operations.promotion_material.handler import with_slot
from tollway.operations.promotion_material.response import PromotionMaterial

PER_PROMOTION = 12


@pytest.fixture(scope="module", autouse=True)
def material(store: Store, today: date) -> None:
    store.do(lambda db: fill_materials(db, per_promotion=PER_PROMOTION, today=today))


@pytest.fixture
def person(store: Store) -> Person:
    return new_person(store)


@pytest.fixture
def asker(store: Store, person: Person) -> Asker:
    made = new_asker(store)
    allow(store, made, person)
    return made


@pytest.fixture
def unpaid(store: Store, asker: Asker) -> Iterator[Asker]:
    """An asker whose credits must be the same after the test."""
    before = credits_left(store, asker)
    yield asker
    assert credits_left(store, asker) == before


def listed(reply: Reply) -> list[dict[str, Any]]:
    assert reply.code == 0, reply.msg
    response = reply.data["affiliate_sc_optimus_promotion_response"]
    assert list(response) == ["result_list"]
    assert list(response["result_list"]) == ["map_data"]
    records: list[dict[str, Any]] = response["result_list"]["map_data"]
    return records


def test_0_success_costs_the_price_and_tells_it(
    gateway: Gateway, store: Store, asker: Asker, person: Person
) -> None:
    reply = ask(gateway, asker, person.id)
    assert (reply.code, reply.status, reply.msg) == (0, 200, "Success")
    assert reply.data["withholding_money"] == 1
    assert credits_left(store, asker) == 99


def test_an_own_price_is_charged_and_told(gateway: Gateway, store: Store, person: Person) -> None:
    asker = new_asker(store, price=7)
    allow(store, asker, person)
    assert ask(gateway, asker, person.id).data["withholding_money"] == 7
    assert credits_left(store, asker) == 93


@pytest.mark.parametrize("promotion_id", PROMOTION_IDS)
def test_every_field_has_its_type(
    gateway: Gateway, asker: Asker, person: Person, promotion_id: int
) -> None:
    reply = ask(gateway, asker, person.id, promotion_id=promotion_id)
    # Strict: a number is no string here, and a missing field is an error.
    msgspec.convert(reply.data, PromotionMaterial, strict=True)
    for record in listed(reply):
        assert set(record) == {
            "promotion_type", "condition_type", "discount_type", "total_count", "remain_count",
            "display_start_time", "display_end_time", "promotion_list", "promotion_extend",
            "seller_id", "nick", "shop_title", "shop_picture_url",
        }  # fmt: skip
        assert record["promotion_type"] in "1234"
        assert 0 <= record["remain_count"] <= record["total_count"]
        assert len(record["display_start_time"]) == 13
        assert list(record["promotion_list"]) == ["promotion_list"]
        for entry in record["promotion_list"]["promotion_list"]:
            assert all(isinstance(value, str) and value.isdigit() for value in entry.values())
        extension = record["promotion_extend"]
        assert list(extension["recommend_item_list"]) == ["recommend_item_list"]
        assert isinstance(extension["recommend_item_list"]["recommend_item_list"], list)
        assert bool(extension["youjia_coupon_info"]["url"]) == (promotion_id == 37104)


def test_every_link_carries_the_slot(gateway: Gateway, asker: Asker, person: Person) -> None:
    slot = f"pid=mm_{person.id}_66_77"
    links = []
    for record in listed(ask(gateway, asker, person.id)):
        extension = record["promotion_extend"]
        items = extension["recommend_item_list"]["recommend_item_list"]
        links += [extension["promotion_url"], extension["youjia_coupon_info"]["url"]]
        links += [item["url"] for item in items]
    assert len(links) > 20
    assert all(link.endswith(slot) for link in links)


def test_a_slot_goes_where_a_query_belongs() -> None:
    assert with_slot("https://a.example/x", "mm_1_2_3") == "https://a.example/x?pid=mm_1_2_3"
    assert with_slot("https://a.example/?b=1#top", "mm_1") == "https://a.example/?b=1&pid=mm_1#top"
    assert with_slot("", "mm_1_2_3") == ""


def test_pages_follow_each_other_and_only_what_is_on_display_is_listed(
    gateway: Gateway, asker: Asker, person: Person
) -> None:
    first = listed(ask(gateway, asker, person.id))
    second = listed(ask(gateway, asker, person.id, page_num=2))
    third = listed(ask(gateway, asker, person.id, page_num=3))
    assert (len(first), len(second), third) == (10, PER_PROMOTION - 10, [])
    singles = [
        listed(ask(gateway, asker, person.id, page_size=1, page_num=number))[0]
        for number in range(1, PER_PROMOTION + 1)
    ]
    assert singles == first + second
    now_ms = time.time() * 1000
    assert all(
        int(each["display_start_time"]) <= now_ms < int(each["display_end_time"])
        for each in singles
    )


def test_an_unknown_promotion_id_is_an_empty_page_and_a_success(
    gateway: Gateway, store: Store, asker: Asker, person: Person
) -> None:
    reply = ask(gateway, asker, person.id, promotion_id=99999)
    assert listed(reply) == []
    assert reply.data["withholding_money"] == 1
    assert credits_left(store, asker) == 99


def test_both_spellings_and_both_ways_to_write_a_number_are_taken(
    gateway: Gateway, asker: Asker, person: Person
) -> None:
    expected = ask(gateway, asker, person.id).data
    for change in (
        {"promotion_id": None, "material_id": 37104},
        {"material_id": "37104"},
        {"platform_user_id": str(person.id), "site_id": "66", "adzone_id": "77", "page_num": "1"},
        {"page_size": 10.0, "unknown": [1]},
    ):
        assert ask(gateway, asker, person.id, **change).data == expected


def test_100_spellings_that_differ(gateway: Gateway, unpaid: Asker, person: Person) -> None:
    reply = ask(gateway, unpaid, person.id, material_id=37116)
    assert (reply.code, reply.data) == (100, {})
    assert "promotion_id" in reply.msg and "material_id" in reply.msg


@pytest.mark.parametrize("field", ["adzone_id", "site_id", "promotion_id", "platform_user_id"])
def test_100_parameter_missing(gateway: Gateway, unpaid: Asker, person: Person, field: str) -> None:
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
    gateway: Gateway, unpaid: Asker, person: Person, field: str, value: object
) -> None:
    reply = ask(gateway, unpaid, person.id, **{field: value})
    assert (reply.code, reply.data) == (100, {})
    assert field in reply.msg


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"adzone_id": NaN}', b"\xff"])
def test_100_body_unreadable(gateway: Gateway, unpaid: Asker, body: bytes) -> None:
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


def test_103_owner_unknown(gateway: Gateway, unpaid: Asker) -> None:
    reply = ask(gateway, unpaid, 5)
    assert (reply.code, reply.data) == (103, {})
    assert "platform_user_id" in reply.msg


def test_200_and_203_and_mapped_statuses(own_store: Store) -> None:
    asker, person = new_asker(own_store), new_person(own_store)
    gateway = Gateway(own_store, http_status="mapped")

    def told() -> tuple[int, int]:
        reply = ask(gateway, asker, person.id)
        return reply.code, reply.status

    assert told() == (302, 403)
    assert ask(gateway, asker, 5).status == 400
    name = PROMOTION_MATERIAL.name
    own_store.do(lambda database: set_closed(database, name, is_closed=True))
    assert_seen(own_store, told, (203, 501))
    # In this order no call can succeed, whenever each of the changes is seen.
    own_store.run("DROP TABLE promotion_material")
    allow(own_store, asker, person)
    own_store.do(lambda database: set_closed(database, name, is_closed=False))
    assert_seen(own_store, told, (200, 500))
    assert ask(gateway, asker, person.id).data == {}
    assert credits_left(own_store, asker) == 100
    gateway.stop()


def test_202_throttled(gateway: Gateway, store: Store, person: Person) -> None:
    def allowed() -> Asker:
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
    poor = new_asker(store, credits=1, price=2)
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
    gateway: Gateway, store: Store, asker: Asker, person: Person
) -> None:
    assert ask(gateway, asker, person.id).code == 0
    other = new_asker(store)
    assert ask(gateway, other, person.id).code == 302
    allow(store, other, person, lifetime_s=0)
    assert ask(gateway, other, person.id).code == 302
    given = allow(store, other, person)
    assert_seen(store, lambda: ask(gateway, other, person.id).code, 0)
    assert credits_left(store, other) == 99
    store.do(lambda database: revoke_grant(database, WORLD, given.id))
    assert_seen(store, lambda: ask(gateway, other, person.id).code, 302)
    left = credits_left(store, other)
    assert ask(gateway, other, person.id).code == 302
    assert credits_left(store, other) == left


def test_401_and_404(gateway: Gateway, asker: Asker) -> None:
    assert gateway.post_json(PATH, {}).code == 401
    assert gateway.get(PATH, token=asker.token).code == 404


def test_the_sandbox_has_a_user_of_each_kind_and_charges_nothing(
    gateway: Gateway, store: Store, person: Person
) -> None:
    asker = new_asker(store, kind="test", credits=0)
    reply = ask(gateway, asker, int(USER.id))
    assert len(listed(reply)) == 3
    assert reply.data["withholding_money"] == 0
    assert ask(gateway, asker, int(USER_UNAUTHORIZED.id)).code == 302
    # The live users are nobody there.
    assert ask(gateway, asker, person.id).code == 103
