"""Another receiver for an issued waybill: until it is printed, from a pool or at its carrier."""

import json
import re
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_carrier import CANCEL, FakeCarrier
from tests.support.gateway import Gateway, Reply, reply_of
from tests.support.ledger import RUNTIME, Caller
from tests.support.remote import PATIENT, connected_carrier, ledger_of
from tests.support.stores import Store
from tests.support.waybills import PRICE, issue, new_carrier, new_customer, request
from tollway.carriers.carriers import AreaKind, ServiceArea
from tollway.carriers.sorting_codes import put_routes, read_route
from tollway.consent.grants import grants_of_account, revoke_grant
from tollway.store.database import Database

UPDATE = "TMS_WAYBILL_UPDATE"
OTHER = {
    "receiver_province": "四川省",
    "receiver_city": "成都市",
    "receiver_town": "武侯区",
    "receiver_address": "天府大道 1 号",
    "receiver_phone": "13900001111",
    "receiver_name": "李四光",
}


@pytest.fixture
def customer(remote_store: Store) -> Caller:
    return new_customer(remote_store)


def change(gateway: Gateway, caller: Caller, object_id: str, **fields: str) -> Reply:
    sent = {"Authorization": f"Bearer {caller.token}"}
    body = {"object_id": object_id, **OTHER, **fields}
    path = "/account/v1/waybills/receiver"
    return reply_of(gateway.client.post(path, json=body, headers=sent))


def label(gateway: Gateway, caller: Caller, object_id: str, kind: str = "zpl") -> Reply:
    wanted = {"object_id": object_id, "format": kind}
    return gateway.get("/account/v1/waybills/label", query=wanted, token=caller.token)


def reason(reply: Reply) -> str:
    return str(reply.headers["x-tollway-reason"])


def set_until(store: Store, object_id: str, until_s: int) -> None:
    store.run(f"UPDATE waybill SET changing_until_s = {until_s} WHERE object_id = '{object_id}'")


def printed_data(gateway: Gateway, caller: Caller, body: dict[str, Any]) -> Any:
    """What the gateway answers to the same waybill again, which is free."""
    again = issue(gateway, caller.token, body)
    assert (again.code, again.data["withholding_money"]) == (0, 0), again.msg
    return json.loads(again.data["printData"])


def test_a_waybill_of_a_pool_has_another_receiver_and_route_until_it_is_printed(
    served: Gateway, remote_store: Store, customer: Caller
) -> None:
    wp_code = new_carrier(remote_store, 2)
    route = {"province": "四川省", "city": "成都市", "route_code": "028-A1-07"}
    remote_store.do(lambda db: put_routes(db, wp_code, [read_route(route)]))
    body = request(wp_code)
    issued = issue(served, customer.token, body).data
    object_id = issued["objectId"]
    changed = change(served, customer, object_id)
    assert (changed.code, changed.data["waybill_code"]) == (0, issued["waybillCode"]), changed.msg
    # Once more, which changes nothing; and it is free.
    assert change(served, customer, object_id).data == changed.data
    assert ledger_of(remote_store, customer).posted == PRICE
    data = printed_data(served, customer, {**body, **OTHER})["data"]
    assert data["recipient"]["name"] == "李四光"
    assert data["recipient"]["address"]["city"] == "成都市"
    assert data["routingInfo"]["routeCode"] == "028-A1-07"
    assert reason(issue(served, customer.token, body)) == "WAYBILL_DIFFERS"
    before = served.store.run(f"SELECT sealed FROM waybill WHERE object_id = '{object_id}'")
    assert "李四光".encode() not in bytes(before[0][0])
    drawn = label(served, customer, object_id)
    assert drawn.code == 0 and b64decode(drawn.data["content"]).startswith(b"^XA")
    late = change(served, customer, object_id, receiver_name="王五")
    assert (late.code, reason(late)) == (100, "WAYBILL_FINAL") and "printed" in late.msg
    # What it has already is no change.
    assert change(served, customer, object_id).data["printed_at_s"] is not None
    served.client.post(
        "/account/v1/waybills/cancel",
        json={"object_id": object_id},
        headers={"Authorization": f"Bearer {customer.token}"},
    )
    late = change(served, customer, object_id)
    assert reason(late) == "WAYBILL_FINAL" and "(it is cancelled)" in late.msg
    # To cancel it again is answered with 404.
    assert "cancel it," not in late.msg


def test_what_is_no_receiver_or_not_the_callers_is_refused(
    served: Gateway, remote_store: Store, customer: Caller
) -> None:
    area = ServiceArea(AreaKind.EXCEPT, ("西藏",))
    wp_code = new_carrier(remote_store, 1, area)
    object_id = issue(served, customer.token, request(wp_code)).data["objectId"]
    for wrong, field in (
        ({"receiver_town": "不存在区"}, "receiver_town"),
        ({"receiver_phone": "12"}, "receiver_phone"),
        ({"receiver_name": ""}, "receiver_name"),
        (
            {"receiver_province": "西藏", "receiver_city": "拉萨市", "receiver_town": "城关区"},
            "receiver_province",
        ),
    ):
        refused = change(served, customer, object_id, **wrong)
        assert refused.code == 100 and field in refused.msg, refused.msg
    outsider = new_customer(remote_store)
    assert reason(change(served, outsider, object_id)) == "WAYBILL_UNKNOWN"

    async def revoke(database: Database) -> None:
        for each in await grants_of_account(database, customer.account_id):
            await revoke_grant(database, RUNTIME, each.grant.id)

    remote_store.do(revoke)
    refused = change(served, customer, object_id)
    assert refused.code == 302 and refused.data["authorize_url"]


def test_a_remote_carrier_has_the_new_receiver_first(
    served: Gateway, carrier: FakeCarrier, customer: Caller, wp_code: str
) -> None:
    body = request(wp_code)
    object_id = issue(served, customer.token, body).data["objectId"]
    carrier.misbehave("refuse", message=UPDATE, reason="已揽收")
    refused = change(served, customer, object_id)
    assert reason(refused) == "WAYBILL_FINAL" and "已揽收" in refused.msg
    carrier.misbehave("none")
    carrier.misbehave("refuse", message=UPDATE, reason="{0} {name}")
    assert "{0} {name}" in change(served, customer, object_id).msg
    carrier.misbehave("none")
    carrier.misbehave("refuse", reason=" ")
    assert "(The carrier refused, and gave no reason)" in change(served, customer, object_id).msg
    chinese = {"Accept-Language": "zh"}
    refused = issue(served, customer.token, request(wp_code), **chinese)
    assert refused.data["errorMsg"] == "快递公司拒绝，且未说明原因。"
    carrier.misbehave("none")
    assert "深圳市" in json.dumps(printed_data(served, customer, body), ensure_ascii=False)
    assert change(served, customer, object_id).code == 0
    assert [line["event"] for line in carrier.journal(object_id)][-1] == "updated"
    data = printed_data(served, customer, {**body, **OTHER})["data"]
    assert data["recipient"]["name"] == "李四光"
    assert data["routingInfo"]["sortation"]["name"] == "四川省转运中心"
    assert label(served, customer, object_id).code == 0


# As if the message could not arrive any more, and as if it was sent while the clock was far ahead.
_TOO_OLD_S, _FAR_AHEAD_S = 1, 2**33


@pytest.mark.parametrize(
    ("fault", "until_s"),
    [
        ("cut_before_commit", _TOO_OLD_S),
        ("cut_after_commit", _TOO_OLD_S),
        ("cut_after_commit", _FAR_AHEAD_S),
    ],
)
def test_without_an_answer_there_is_no_label_until_the_change_is_sent_again(
    served: Gateway,
    remote_store: Store,
    carrier: FakeCarrier,
    customer: Caller,
    fault: str,
    until_s: int,
) -> None:
    wp_code = connected_carrier(remote_store, carrier, **PATIENT)
    body = request(wp_code)
    object_id = issue(served, customer.token, body).data["objectId"]
    carrier.misbehave(fault, message=UPDATE)
    for answer in (
        change(served, customer, object_id),
        label(served, customer, object_id),
        change(served, customer, object_id),
    ):
        assert (answer.code, reason(answer)) == (101, "WAYBILL_CHANGING"), answer.msg
        assert re.search(r"send the change again in \d+ s, or", answer.msg)
    carrier.misbehave("none")
    set_until(remote_store, object_id, until_s)
    assert "in 1 s" in label(served, customer, object_id).msg
    assert "in 1 s" in issue(served, customer.token, body).msg
    assert change(served, customer, object_id).code == 0
    assert label(served, customer, object_id).code == 0
    assert (
        printed_data(served, customer, {**body, **OTHER})["data"]["recipient"]["name"]
        == (OTHER["receiver_name"])
    )


@pytest.mark.parametrize("then", ["unreachable", "refused"])
def test_a_second_attempt_that_changes_nothing_does_not_settle_the_first(
    served: Gateway, remote_store: Store, customer: Caller, tmp_path: Path, then: str
) -> None:
    carrier = FakeCarrier(tmp_path)
    wp_code = connected_carrier(remote_store, carrier, **PATIENT)
    body = request(wp_code)
    object_id = issue(served, customer.token, body).data["objectId"]
    carrier.misbehave("cut_after_commit", message=UPDATE, times=1)
    assert reason(change(served, customer, object_id)) == "WAYBILL_CHANGING"
    set_until(remote_store, object_id, _TOO_OLD_S)
    if then == "refused":
        carrier.misbehave("refuse", message=UPDATE, reason="已揽收")
        assert reason(change(served, customer, object_id)) == "WAYBILL_FINAL"
    else:
        assert carrier.stop() == 0
        assert reason(change(served, customer, object_id)) == "CARRIER_UNREACHABLE"
        # It was not sent, so the next one need not wait.
        assert reason(change(served, customer, object_id)) == "CARRIER_UNREACHABLE"
    # The carrier has the new receiver: neither a label nor print data shows the old one.
    assert reason(label(served, customer, object_id)) == "WAYBILL_CHANGING"
    for content in (body, {**body, **OTHER}):
        assert reason(issue(served, customer.token, content)) == "WAYBILL_CHANGING"
    if then == "refused":
        carrier.misbehave("none")
        assert change(served, customer, object_id).code == 0
        assert label(served, customer, object_id).code == 0
        assert printed_data(served, customer, {**body, **OTHER})
        assert carrier.stop() == 0


def test_a_change_and_a_label_at_once_never_disagree(
    served: Gateway, remote_store: Store, customer: Caller
) -> None:
    wp_code = new_carrier(remote_store, 4)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(4):
            body = request(wp_code)
            object_id = issue(served, customer.token, body).data["objectId"]
            changing = pool.submit(change, served, customer, object_id)
            drawing = pool.submit(label, served, customer, object_id, "png")
            assert drawing.result().code == 0
            is_changed = changing.result().code == 0
            assert is_changed or reason(changing.result()) == "WAYBILL_FINAL"
            drawn = drawing.result().data["content"]
            # The label that was drawn is the one that is drawn now.
            assert label(served, customer, object_id, "png").data["content"] == drawn
            expected = {**body, **OTHER} if is_changed else body
            assert issue(served, customer.token, expected).code == 0


def test_a_carrier_that_does_not_cancel_says_why_and_the_waybill_stays(
    served: Gateway, remote_store: Store, carrier: FakeCarrier, customer: Caller
) -> None:
    body = request(connected_carrier(remote_store, carrier, **PATIENT))
    object_id = issue(served, customer.token, body).data["objectId"]
    sent = {"Authorization": f"Bearer {customer.token}"}
    path = "/account/v1/waybills/cancel"

    def cancel() -> Reply:
        return reply_of(served.client.post(path, json={"object_id": object_id}, headers=sent))

    carrier.misbehave("refuse", message=CANCEL, reason="已揽收 {1}，不能取消。", times=1)
    refused = cancel()
    assert (refused.code, reason(refused)) == (100, "PARAMETER_INVALID")
    assert "已揽收 {1}，不能取消" in refused.msg
    carrier.misbehave("garbage", message=CANCEL, times=1)
    assert reason(cancel()) == "CARRIER_UNREACHABLE"
    assert cancel().data["state"] == "cancelled"
