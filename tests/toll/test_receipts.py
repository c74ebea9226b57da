"""Receipts over HTTP: one test for each thing that can become of a call."""

from collections.abc import Iterator
from datetime import date
from itertools import count
from typing import Any

import pytest

from tests.support.books import CALLS, CREDITS, Caller, new_caller, newest_entry
from tests.support.changes import assert_seen
from tests.support.five import ask, five_caller, good_request, small_world
from tests.support.gateway import Gateway, Reply
from tests.support.receipts import ask_receipt, notes_of, receipt_of
from tests.support.stores import Store
from tollway.carriers.areas import AreaKind, ServiceArea
from tollway.carriers.carriers import add_carrier
from tollway.consent.grants import grants_of_account
from tollway.contract.operation import Operation
from tollway.demo.owners import SHOP
from tollway.ledger.permissions import set_closed
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.coupon_claims.descriptor import COUPON_CLAIMS
from tollway.operations.orders.descriptor import ORDERS
from tollway.operations.product_analysis.descriptor import PRODUCT_ANALYSIS
from tollway.operations.waybills.descriptor import WAYBILLS

each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
NO_ID = "0" * 26
_orders = count(1)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, today: date) -> Store:
    store = Store(tmp_path_factory.mktemp("receipts") / "tollway.db")
    small_world(store, today)
    return store


@pytest.fixture(scope="module")
def served(world: Store) -> Iterator[Gateway]:
    gateway = Gateway(world)
    yield gateway
    assert gateway.stop() == 0


def wanted(operation: Operation, today: date) -> dict[str, Any]:
    sent = good_request(operation, today)
    if "order_sn" in sent:
        sent["order_sn"] = f"RECEIPT{next(_orders):08d}"
    return sent


def id_of(reply: Reply) -> str:
    return str(reply.headers["x-request-id"])


@each_operation
def test_a_charged_call_tells_price_and_balances(
    served: Gateway, world: Store, today: date, operation: Operation
) -> None:
    caller = five_caller(world)
    reply = ask(served, operation, caller.token, wanted(operation, today))
    # At once: it follows from the entry that was there before the answer left.
    receipt = ask_receipt(served, caller.token, id_of(reply)).data
    entry = newest_entry(world, caller, operation.balance_unit)
    price = operation.default_price
    assert receipt["request_id"] == id_of(reply) == entry.request_id
    assert (receipt["account_id"], receipt["token_id"]) == (caller.account_id, caller.token_id)
    assert (receipt["operation"], receipt["at_ms"]) == (operation.name, entry.at_ms)
    assert (receipt["outcome"], receipt["code"], receipt["reason"]) == ("charged", 0, "SUCCESS")
    assert (receipt["amount"], receipt["unit"]) == (price, operation.balance_unit)
    assert receipt["balance_before"] - price == receipt["balance_after"] == entry.balance_after
    assert (receipt["replay_of"], receipt["hold"]) == (None, None)


@each_operation
def test_a_call_under_a_grant_names_the_consent_that_was_used(
    served: Gateway, world: Store, today: date, operation: Operation
) -> None:
    caller = five_caller(world)
    reply = ask(served, operation, caller.token, wanted(operation, today))
    used = ask_receipt(served, caller.token, id_of(reply)).data["consent"]
    if operation.consent is None:
        assert used is None
        return
    grants = world.do(lambda database: grants_of_account(database, caller.account_id))
    (expected,) = [
        {"owner_kind": each.owner_kind, "owner_id": each.owner_id, "consent_id": each.id}
        for each in (named.grant for named in grants)
        if each.scope == operation.consent.scope
    ]
    assert used == expected


@each_operation
def test_a_repetition_with_a_key_names_the_call_that_paid(
    served: Gateway, world: Store, today: date, operation: Operation
) -> None:
    caller, sent = five_caller(world), wanted(operation, today)
    key = {"Idempotency-Key": "once"}
    first, again = (ask(served, operation, caller.token, sent, key) for _ in range(2))
    receipt = receipt_of(served, caller.token, again)
    assert (receipt["outcome"], receipt["reason"]) == ("not_charged", "REPLAYED")
    assert receipt["replay_of"] == id_of(first)
    assert (receipt["amount"], receipt["balance_after"]) == (0, None)
    assert receipt_of(served, caller.token, first)["outcome"] == "charged"


def test_an_issued_waybill_and_one_asked_for_again_name_it(
    served: Gateway, world: Store, today: date
) -> None:
    caller, sent = five_caller(world), wanted(WAYBILLS, today)
    first, again = (ask(served, WAYBILLS, caller.token, sent) for _ in range(2))
    paid, free = (receipt_of(served, caller.token, reply) for reply in (first, again))
    assert (paid["outcome"], paid["amount"]) == ("charged", WAYBILLS.default_price)
    assert (free["outcome"], free["reason"], free["amount"]) == ("not_charged", "REPLAYED", 0)
    assert free["replay_of"] == id_of(first)
    assert (
        paid["waybill"]
        == free["waybill"]
        == {
            "object_id": first.data["objectId"],
            "wp_code": sent["wp_code"],
            "number": first.data["waybillCode"],
            "state": "issued",
        }
    )


def test_what_a_carrier_refuses_is_not_charged(served: Gateway, world: Store, today: date) -> None:
    area = ServiceArea(AreaKind.ONLY, ("西藏",))
    world.do(lambda database: add_carrier(database, "FAR", "远方快递", r"F\d{8}", area))
    caller = five_caller(world)
    reply = ask(served, WAYBILLS, caller.token, {**wanted(WAYBILLS, today), "wp_code": "FAR"})
    assert (reply.code, reply.data["code"]) == (0, 0)
    receipt = receipt_of(served, caller.token, reply)
    assert (receipt["outcome"], receipt["code"]) == ("not_charged", 0)
    assert (receipt["reason"], receipt["amount"]) == ("NOT_DONE", 0)
    assert receipt["waybill"] is None


def test_a_free_call_says_that_it_was_free(served: Gateway, world: Store, today: date) -> None:
    caller = five_caller(world, price=0)
    for operation in (COUPON_CLAIMS, ORDERS):
        reply = ask(served, operation, caller.token, wanted(operation, today))
        receipt = receipt_of(served, caller.token, reply)
        assert (receipt["outcome"], receipt["code"]) == ("not_charged", 0)
        assert (receipt["reason"], receipt["amount"]) == ("FREE", 0)
        assert (receipt["consent"] is None) == (operation.consent is None)


REFUSALS: dict[str, tuple[Operation, dict[str, Any], dict[str, Any]]] = {
    "PARAMETER_INVALID": (COUPON_CLAIMS, {}, {"limit": "x"}),
    "PRODUCT_UNKNOWN": (PRODUCT_ANALYSIS, {}, {"product_id": "nobody's"}),
    "OWNER_UNKNOWN": (ORDERS, {}, {"owner_id": "nobody"}),
    "CREDITS_USED_UP": (COUPON_CLAIMS, {"credits_": 0}, {}),
    "CALLS_USED_UP": (PRODUCT_ANALYSIS, {"calls": 0}, {}),
    "PERMISSION_MISSING": (COUPON_CLAIMS, {"granted": False}, {}),
    "CARRIER_UNKNOWN": (WAYBILLS, {}, {"wp_code": "NOBODY"}),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refused_call_says_why_and_that_nothing_was_charged(
    served: Gateway, world: Store, today: date, reason: str
) -> None:
    operation, of_account, change = REFUSALS[reason]
    caller = five_caller(world, **of_account)
    reply = ask(served, operation, caller.token, {**wanted(operation, today), **change})
    assert reply.code != 0
    receipt = receipt_of(served, caller.token, reply)
    assert (receipt["outcome"], receipt["amount"]) == ("not_charged", 0)
    assert (receipt["code"], receipt["reason"]) == (reply.code, reason)
    assert receipt["operation"] == operation.name
    assert f"code {reply.code} ({reason})" in receipt["why"]


def test_a_closed_operation_and_a_missing_consent_have_receipts(
    served: Gateway, world: Store, today: date
) -> None:
    caller = new_caller(world, operations=OPERATIONS, credits_=100)
    not_allowed = ask(served, ORDERS, caller.token, {"owner_id": SHOP.id})
    world.do(lambda database: set_closed(database, COUPON_CLAIMS.name, is_closed=True))

    def call() -> Reply:
        return ask(served, COUPON_CLAIMS, caller.token, wanted(COUPON_CLAIMS, today))

    try:
        assert_seen(world, lambda: call().code, 203)
        closed = call()
    finally:
        world.do(lambda database: set_closed(database, COUPON_CLAIMS.name, is_closed=False))
    told = [receipt_of(served, caller.token, reply) for reply in (not_allowed, closed)]
    assert [(each["code"], each["reason"]) for each in told] == [
        (302, "NOT_AUTHORIZED"),
        (203, "OPERATION_CLOSED"),
    ]


def test_the_reason_is_told_in_chinese_too(served: Gateway, world: Store, today: date) -> None:
    caller = five_caller(world)
    reply = ask(served, COUPON_CLAIMS, caller.token, wanted(COUPON_CLAIMS, today))
    told = receipt_of(served, caller.token, reply, **{"Accept-Language": "zh-CN"})
    assert told["why"] == "调用成功，已扣费。"


def test_another_accounts_id_is_answered_like_one_that_nobody_has(
    served: Gateway, world: Store, today: date
) -> None:
    owner, stranger = five_caller(world), five_caller(world)
    charged = ask(served, COUPON_CLAIMS, owner.token, wanted(COUPON_CLAIMS, today))
    refused = ask(served, COUPON_CLAIMS, owner.token, {})
    # The owner can see both, so it is not for their absence that the stranger cannot.
    for reply in (charged, refused):
        assert receipt_of(served, owner.token, reply)["account_id"] == owner.account_id
    ids = [id_of(charged), id_of(refused), NO_ID, "", "a/b", "%00", "é" * 40, "x" * 4000]
    answers = [ask_receipt(served, stranger.token, each) for each in ids]
    assert {(each.code, each.msg, str(each.data)) for each in answers} == {
        (404, answers[0].msg, "{}")
    }
    names = {tuple(name for name in each.headers if name != "date") for each in answers}
    assert len(names) == 1


@pytest.mark.parametrize("token", [None, "nonsense", "tw_live_" + "a" * 38])
def test_without_a_valid_token_it_is_401(served: Gateway, token: str | None) -> None:
    reply = ask_receipt(served, token, NO_ID)
    operation = served.get(PRODUCT_ANALYSIS.path, token=token)
    assert (reply.code, reply.msg, reply.data) == (401, operation.msg, {})


def test_it_is_asked_with_get(served: Gateway, world: Store) -> None:
    caller = five_caller(world)
    reply = served.get(f"/receipts/{NO_ID}", token=caller.token, method="POST")
    assert reply.code == 404
    assert "takes the method GET" in reply.msg


def test_test_calls_have_no_receipt_and_a_test_token_sees_none(
    served: Gateway, world: Store, today: date
) -> None:
    tester = five_caller(world, kind="test")
    failed = ask(served, COUPON_CLAIMS, tester.token, {})
    fine = ask(served, COUPON_CLAIMS, tester.token, wanted(COUPON_CLAIMS, today))
    assert (failed.code, fine.code) == (100, 0)
    # What another account did afterwards is there, so theirs would be as well.
    later = five_caller(world)
    receipt_of(served, later.token, ask(served, COUPON_CLAIMS, later.token, {}))
    for reply in (failed, fine):
        assert ask_receipt(served, tester.token, id_of(reply)).code == 404
    assert notes_of(world, tester) == 0


def test_asking_is_limited_and_free_and_leaves_nothing_behind(
    served: Gateway, world: Store, today: date
) -> None:
    caller = five_caller(world)
    paid = ask(served, COUPON_CLAIMS, caller.token, wanted(COUPON_CLAIMS, today))
    entry = newest_entry(world, caller, CREDITS)
    replies = [ask_receipt(served, caller.token, id_of(paid)) for _ in range(30)]
    assert {reply.code for reply in replies} == {0, 202}
    assert replies[0].headers["ratelimit-policy"] == '"receipts";q=10;w=1'
    refused = next(reply for reply in replies if reply.code == 202)
    assert refused.headers["retry-after"] == "1"
    # It is a limit of its own: the operation can be called meanwhile.
    again = ask(served, COUPON_CLAIMS, caller.token, {})
    receipt_of(served, caller.token, again)
    assert newest_entry(world, caller, CREDITS) == entry
    assert notes_of(world, caller) == 1


def test_charged_calls_are_not_written_a_second_time(
    served: Gateway, world: Store, today: date
) -> None:
    caller = five_caller(world)
    for operation in OPERATIONS:
        assert ask(served, operation, caller.token, wanted(operation, today)).code == 0
    # Notes are written in their order: when this one is there, those before it would be too.
    receipt_of(served, caller.token, ask(served, COUPON_CLAIMS, caller.token, {}))
    assert notes_of(world, caller) == 1


def test_receipts_are_there_after_a_restart(own_store: Store, question: dict[str, str]) -> None:
    caller = new_caller(own_store)
    gateway = Gateway(own_store)
    replies = [gateway.get(token=caller.token, query=query) for query in (question, {})]
    # Told to stop at once: what was answered is written down first.
    assert gateway.stop() == 0
    gateway = Gateway(own_store)
    told = [ask_receipt(gateway, caller.token, id_of(reply)).data for reply in replies]
    assert [each["outcome"] for each in told] == ["charged", "not_charged"]
    assert (told[0]["balance_after"], told[0]["unit"]) == (99, CALLS)
    assert gateway.stop() == 0


@pytest.mark.parametrize("status", ["always_200", "mapped"])
def test_an_unknown_receipt_has_the_status_of_the_setting(own_store: Store, status: str) -> None:
    caller = new_caller(own_store)
    gateway = Gateway(own_store, http_status=status)
    reply = ask_receipt(gateway, caller.token, NO_ID)
    assert (reply.code, reply.status) == (404, 404 if status == "mapped" else 200)
    assert gateway.stop() == 0


def flood(gateway: Gateway, caller: Caller, question: dict[str, str]) -> list[Reply]:
    replies = [gateway.get(token=caller.token, query=question) for _ in range(100)]
    return [reply for reply in replies if reply.code == 202]


def dropped(gateway: Gateway) -> int:
    told = gateway.client.get("/metrics").text.splitlines()
    name = 'tollway_receipts_dropped_total{cause="too_fast"} '
    return sum(int(float(line.removeprefix(name))) for line in told if line.startswith(name))


@pytest.mark.parametrize("common_rate", [5, 1000])
def test_of_a_flood_of_refusals_only_the_first_of_each_second_are_kept(
    own_store: Store, question: dict[str, str], common_rate: int
) -> None:
    """With a common rate above the flood all are kept: so it is the rule that keeps others out."""
    caller = new_caller(own_store, rate_limit=1)
    gateway = Gateway(own_store, rate_limit=common_rate)
    throttled = flood(gateway, caller, question)
    first = receipt_of(gateway, caller.token, throttled[0])
    assert (first["code"], first["reason"]) == (202, "THROTTLED")
    left_out = dropped(gateway)
    assert gateway.stop() == 0
    assert notes_of(own_store, caller) + left_out == len(throttled)
    if common_rate == 5:
        assert left_out > 0
    else:
        assert left_out == 0
