"""Waybill issuing through real HTTP: what is issued and paid, each inner failure, who may ask."""

import hmac
import json
import re

import pytest

from tests.support.gateway import Gateway
from tests.support.ledger import Caller, credits_left
from tests.support.owners import authorize
from tests.support.postgresql import left_open
from tests.support.stores import Store
from tests.support.waybills import (
    PRICE,
    authorize_shops,
    issue,
    load_numbers,
    new_carrier,
    new_customer,
    request,
    waybill_part,
)
from tollway.carriers.carriers import AreaKind, ServiceArea
from tollway.carriers.labels.print_data import label_of
from tollway.carriers.vault import load_vault
from tollway.demo.owners import SHOP, SHOP_CODE, SHOP_UNAUTHORIZED
from tollway.operations.waybills.demo import WP_CODE, WP_CODE_OUT_OF_NUMBERS
from tollway.operations.waybills.operation import WAYBILLS
from tollway.store.database import Database
from tollway.store.open import key_path

FAILED = {"objectId": "", "printData": "", "waybillCode": "", "parentWaybillCode": None}


@pytest.fixture(scope="module")
def wp_code(store: Store) -> str:
    return new_carrier(store, 200, ServiceArea(AreaKind.EXCEPT, ("西藏",)))


@pytest.fixture
def customer(store: Store) -> Caller:
    return new_customer(store)


def test_0_issued_and_paid_with_every_field_in_its_type(
    gateway: Gateway, store: Store, customer: Caller, wp_code: str
) -> None:
    body = request(wp_code)
    reply = issue(gateway, customer.token, body)
    assert reply.code == 0
    data = reply.data
    assert list(data) == [
        "orderSn",
        "objectId",
        "printData",
        "waybillCode",
        "parentWaybillCode",
        "code",
        "errorMsg",
        "withholding_money",
    ]
    assert (data["orderSn"], data["parentWaybillCode"], data["errorMsg"]) == (
        body["order_sn"],
        None,
        None,
    )
    assert data["code"] == 1 and isinstance(data["code"], int)
    assert data["objectId"].startswith("wb_") and data["waybillCode"].startswith("YT")
    assert data["withholding_money"] == PRICE
    assert credits_left(store, customer) == 10_000 - PRICE


def test_the_print_data_is_a_signed_json_text_with_a_template_that_is_there(
    gateway: Gateway, store: Store, customer: Caller, wp_code: str
) -> None:
    data = issue(gateway, customer.token, request(wp_code, waybill_type=3)).data
    printed = json.loads(data["printData"])
    assert set(printed) == {"data", "signature", "templateURL"}
    label = printed["data"]
    assert label["waybillCode"] == data["waybillCode"]
    assert label["recipient"] == {
        "name": "王小明",
        "mobile": "13812345678",
        "address": {
            "province": "广东省",
            "city": "深圳市",
            "district": "南山区",
            "detail": "粤海街道高新南七道 20 号",
        },
    }
    assert label["sender"]["address"]["city"] == "杭州市"
    assert label["shippingOption"]["code"] == wp_code
    assert label["routingInfo"]["origin"] == {"name": "杭州市"}
    signer = load_vault(key_path(store.url, store.key_file)).label_signer
    assert label_of(data["printData"], signer).waybill_code == data["waybillCode"]
    method, key_id, digest = printed["signature"].split(":")
    signed = data["printData"].removeprefix('{"data":').partition(',"signature":')[0].encode()
    assert (
        method == "HS256"
        and digest == hmac.new(signer.key(int(key_id)), signed, "sha256").hexdigest()
    )
    with pytest.raises(Exception, match="altered"):
        label_of(data["printData"].replace("王小明", "王大明"), signer)
    paper = gateway.client.get(printed["templateURL"]).json()
    assert (paper["width_mm"], paper["height_mm"]) == (100, 150)


def test_204_credits_used_up_takes_no_number(gateway: Gateway, store: Store) -> None:
    wp_code = new_carrier(store, 1)
    poor, rich = new_customer(store, credits_=PRICE - 1), new_customer(store)
    reply = issue(gateway, poor.token, request(wp_code))
    assert (reply.code, reply.data) == (204, {})
    assert f"{PRICE - 1} left" in reply.msg and f"costs {PRICE}" in reply.msg
    assert credits_left(store, poor) == PRICE - 1
    assert issue(gateway, rich.token, request(wp_code)).data["code"] == 1


@pytest.mark.parametrize(
    ("language", "text"),
    [("en", "does not deliver to 西藏自治区"), ("zh-CN", "不派送至西藏自治区")],
)
def test_an_address_that_is_not_served_is_an_inner_failure(
    gateway: Gateway, store: Store, customer: Caller, wp_code: str, language: str, text: str
) -> None:
    place = ("西藏自治区", "拉萨市", "城关区")
    fields = ("receiver_province", "receiver_city", "receiver_town")
    body = request(wp_code, **dict(zip(fields, place, strict=True)))
    reply = issue(gateway, customer.token, body, **{"Accept-Language": language})
    assert reply.code == 0
    assert reply.data["code"] == 0 and text in reply.data["errorMsg"]
    assert reply.data["withholding_money"] == 0 and reply.data["orderSn"] == body["order_sn"]
    assert FAILED.items() <= reply.data.items()
    assert credits_left(store, customer) == 10_000


@pytest.mark.postgresql
def test_a_pool_is_not_used_up_while_another_node_may_not_keep_its_last_number(
    gateway: Gateway, store: Store, customer: Caller
) -> None:
    wp_code = new_carrier(store, 1)
    body = request(wp_code)
    taking = f"UPDATE waybill_number SET is_taken = 1 WHERE wp_code = '{wp_code}'"
    with left_open(store.url, taking):
        assert issue(gateway, customer.token, body).code == 202
    reply = issue(gateway, customer.token, body)
    assert (reply.code, reply.data["code"]) == (0, 1)


def test_an_empty_pool_is_an_inner_failure_until_numbers_are_loaded(
    gateway: Gateway, store: Store, customer: Caller
) -> None:
    wp_code = new_carrier(store, 0)
    body = request(wp_code)
    refused = issue(gateway, customer.token, body)
    assert (refused.code, refused.data["code"]) == (0, 0)
    assert "used up" in refused.data["errorMsg"]
    chinese = issue(gateway, customer.token, body, **{"Accept-Language": "zh-CN"})
    assert "已用完" in chinese.data["errorMsg"]
    assert FAILED.items() <= refused.data.items()
    assert credits_left(store, customer) == 10_000
    load_numbers(store, wp_code, ["YT0000000000001"])
    assert issue(gateway, customer.token, body).data["waybillCode"] == "YT0000000000001"


def test_a_shop_uses_its_own_numbers_first_and_never_another_shops(
    gateway: Gateway, store: Store, customer: Caller
) -> None:
    authorize_shops(store, customer, "shop-a", "shop-b")
    wp_code = new_carrier(store, 1)
    load_numbers(store, wp_code, ["YT5000000000001"], "shop-a")
    load_numbers(store, wp_code, ["YT5000000000002"], "shop-b")

    def number(owner_id: str) -> str:
        data = issue(gateway, customer.token, request(wp_code, owner_id=owner_id)).data
        return str(data["waybillCode"])

    assert number("shop-a") == "YT5000000000001"
    assert number("shop-a") == "YT0000000000000"
    assert number("shop-a") == ""
    assert number("shop-b") == "YT5000000000002"


def test_a_test_token_gets_waybills_of_the_sandbox_only(
    gateway: Gateway, store: Store, wp_code: str
) -> None:
    tester = new_customer(store, credits_=0, kind="test")
    assert issue(gateway, tester.token, request(wp_code)).code == 100
    body = request(WP_CODE, owner_id=SHOP.id, shopCode=SHOP_CODE, vvtype=2)
    data = issue(gateway, tester.token, body).data
    assert (data["code"], data["withholding_money"]) == (1, 0)
    assert waybill_part(issue(gateway, tester.token, body).data) == waybill_part(data)
    assert issue(gateway, tester.token, request(WP_CODE_OUT_OF_NUMBERS)).data["code"] == 0
    assert issue(gateway, tester.token, {**body, "sender_name": "x"}).code == 100


def test_each_account_has_a_sandbox_of_its_own_whose_numbers_are_no_live_ones(
    gateway: Gateway, store: Store
) -> None:
    testers = [new_customer(store, credits_=0, kind="test") for _ in range(2)]
    orders = [f"SN-sandbox-{position}" for position in range(12)]

    def number(tester: Caller, order_sn: str) -> str:
        body = request(WP_CODE, owner_id=SHOP.id, order_sn=order_sn)
        return str(issue(gateway, tester.token, body).data["waybillCode"])

    found = [number(tester, order_sn) for tester in testers for order_sn in orders]
    assert len(set(found)) == len(found)
    assert all(re.fullmatch("TEST[0-9]{12}", each) for each in found)
    # They do not tell one account how many waybills the other has.
    assert len({int(each[4:]) // 1000 for each in found}) > len(found) // 2
    assert [number(testers[0], order_sn) for order_sn in orders] == found[: len(orders)]


def test_401_and_404(gateway: Gateway, customer: Caller, wp_code: str) -> None:
    assert issue(gateway, "tw_live_nonsense", request(wp_code)).code == 401
    assert gateway.get(WAYBILLS.path, token=customer.token).code == 404


def test_103_an_unknown_shop(gateway: Gateway, customer: Caller, wp_code: str) -> None:
    reply = issue(gateway, customer.token, request(wp_code, owner_id="unknown"))
    assert (reply.code, reply.data) == (103, {})
    assert "owner_id" in reply.msg


def test_302_a_shop_that_has_not_authorized_the_account(
    gateway: Gateway, store: Store, customer: Caller, wp_code: str
) -> None:
    outsider = new_customer(store)

    async def know(database: Database) -> None:
        await authorize(database, outsider.account_id, WAYBILLS, SHOP_UNAUTHORIZED)

    store.do(know)
    body = request(wp_code, owner_id=SHOP_UNAUTHORIZED.id)
    reply = issue(gateway, customer.token, body)
    assert reply.code == 302
    assert reply.data["authorize_url"].startswith(f"{gateway.base_url}/authorize")
    assert credits_left(store, customer) == 10_000
    assert issue(gateway, outsider.token, body).code == 0
