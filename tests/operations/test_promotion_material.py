"""Promotion material through real HTTP: every field, every page, and what they cost."""

import time
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from tests.support.any_records import MATERIAL
from tests.support.consent import Person, allow, ask, new_asker
from tests.support.gateway import Gateway, Reply
from tests.support.ledger import Caller, credits_left
from tests.support.stores import Store
from tollway.demo.owners import USER, USER_UNAUTHORIZED
from tollway.intake.record_problems import RecordError
from tollway.operations.demo_data import DemoTarget
from tollway.operations.promotion_material.demo import fill_materials
from tollway.operations.promotion_material.operation import PromotionMaterial
from tollway.operations.promotion_material.records import checked_material, with_slot
from tollway.store.sealing import Sealer

PER_PROMOTION = 12


@pytest.fixture(scope="module", autouse=True)
def material(store: Store) -> None:
    sealer, zone, site = Sealer({1: bytes(32)}, 1), ZoneInfo("Asia/Shanghai"), "http://127.0.0.1"
    store.do(
        lambda db: fill_materials(DemoTarget(db, sealer, time.time(), zone, site), PER_PROMOTION)
    )


def listed(reply: Reply) -> list[dict[str, Any]]:
    assert reply.code == 0, reply.msg
    response = reply.data["affiliate_sc_optimus_promotion_response"]
    assert list(response) == ["result_list"]
    assert list(response["result_list"]) == ["map_data"]
    records: list[dict[str, Any]] = response["result_list"]["map_data"]
    return records


def test_0_success_costs_the_price_and_tells_it(
    gateway: Gateway, store: Store, asker: Caller, person: Person
) -> None:
    reply = ask(gateway, asker, person.id)
    assert (reply.code, reply.status, reply.msg) == (0, 200, "Success")
    assert reply.data["withholding_money"] == 1
    assert credits_left(store, asker) == 99


def test_an_own_price_is_charged_and_reported(
    gateway: Gateway, store: Store, person: Person
) -> None:
    asker = new_asker(store, price=7)
    allow(store, asker, person)
    assert ask(gateway, asker, person.id).data["withholding_money"] == 7
    assert credits_left(store, asker) == 93


@pytest.mark.parametrize("promotion_id", [37104, 37116, 62191, 61809])
def test_every_field_has_its_type(
    gateway: Gateway, asker: Caller, person: Person, promotion_id: int
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


def test_every_link_carries_the_slot(gateway: Gateway, asker: Caller, person: Person) -> None:
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


@pytest.mark.parametrize("query", ["pid=mm_9", "a=1&pid=", "p%69d"])
def test_a_link_that_has_a_slot_already_is_no_material(query: str) -> None:
    with pytest.raises(RecordError, match="promotion_url: it has the parameter pid; send"):
        checked_material({**MATERIAL, "promotion_url": f"https://a.example/?{query}"})


def test_pages_follow_each_other_and_only_what_is_on_display_is_listed(
    gateway: Gateway, asker: Caller, person: Person
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
    gateway: Gateway, store: Store, asker: Caller, person: Person
) -> None:
    reply = ask(gateway, asker, person.id, promotion_id=99999)
    assert listed(reply) == []
    assert reply.data["withholding_money"] == 1
    assert credits_left(store, asker) == 99


def test_both_spellings_and_both_ways_to_write_a_number_are_taken(
    gateway: Gateway, asker: Caller, person: Person
) -> None:
    expected = ask(gateway, asker, person.id).data
    for change in (
        {"promotion_id": None, "material_id": 37104},
        {"material_id": "37104"},
        # As the original service names it.
        {"platform_user_id": None, "taobao_user_id": person.id},
        {"platform_user_id": str(person.id), "site_id": "66", "adzone_id": "77", "page_num": "1"},
        {"page_size": 10.0, "unknown": [1]},
    ):
        assert ask(gateway, asker, person.id, **change).data == expected


def test_the_sandbox_has_a_user_of_each_kind_and_charges_nothing(
    gateway: Gateway, store: Store, person: Person
) -> None:
    asker = new_asker(store, kind="test", credits_=0)
    reply = ask(gateway, asker, int(USER.id))
    assert len(listed(reply)) == 3
    assert reply.data["withholding_money"] == 0
    assert ask(gateway, asker, int(USER_UNAUTHORIZED.id)).code == 302
    # The live users do not exist there.
    assert ask(gateway, asker, person.id).code == 103
