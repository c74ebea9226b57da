"""Many waybills in one call: each with its own result, charge, receipt and key."""

import asyncio
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from tests.support.gateway import Gateway, Reply
from tests.support.ledger import RUNTIME, Caller, credits_left
from tests.support.orders import sealer_of
from tests.support.remote import eventually
from tests.support.stores import Store
from tests.support.waybills import PRICE, authorize_shops, new_carrier, new_customer
from tests.support.waybills import request as waybill_request
from tollway.carriers.carrier_links import CarrierLink, connect
from tollway.contract.receipt import RECEIPTS_PATH
from tollway.ledger.token_limits import TokenLimits
from tollway.ledger.tokens import issue_token
from tollway.operations.waybills.more_calls import WAYBILL_BATCH
from tollway.operations.waybills.operation import WAYBILLS
from tollway.pipeline.batch import Batch
from tollway.store.database import Database


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[Gateway]:
    with Gateway(Store(tmp_path_factory.mktemp("batches") / "tollway.db")) as gateway:
        yield gateway


def issue(served: Gateway, customer: Caller, waybills: Any, **headers: str) -> Reply:
    return served.post_json(
        WAYBILL_BATCH.path, {"waybills": waybills}, token=customer.token, headers=headers
    )


def codes_of(reply: Reply) -> list[int]:
    return [each["code"] for each in reply.data["results"]]


def numbers_of(reply: Reply) -> list[str]:
    return [each["waybill"]["waybillCode"] for each in reply.data["results"]]


def test_0_a_hundred_waybills_are_issued_each_with_its_charge_and_receipt(served: Gateway) -> None:
    customer = new_customer(served.store, credits_=2000)
    good = waybill_request(new_carrier(served.store, 100))
    wanted = [{**good, "order_sn": f"batch-{n:04}"} for n in range(100)]
    reply = issue(served, customer, wanted)
    assert (reply.code, reply.data["withholding_money"]) == (0, 100 * PRICE)
    assert [each["order_sn"] for each in reply.data["results"]] == [o["order_sn"] for o in wanted]
    assert len(set(numbers_of(reply))) == 100
    assert credits_left(served.store, customer) == 2000 - 100 * PRICE
    one = reply.data["results"][41]
    receipt = served.get(RECEIPTS_PATH + one["request_id"], token=customer.token)
    assert (receipt.data["outcome"], receipt.data["amount"]) == ("charged", PRICE)
    assert receipt.data["waybill"]["number"] == one["waybill"]["waybillCode"]
    path = RECEIPTS_PATH + reply.headers["x-request-id"]
    # What was not charged is recorded a moment later.
    whole = eventually(lambda: served.get(path, token=customer.token), lambda it: it.code == 0)
    assert (whole.data["outcome"], whole.data["amount"]) == ("not_charged", 0)
    assert whole.data["reason"] == "BATCH" and "receipt of its own" in whole.data["why"]


@pytest.mark.sqlite
def test_calls_of_others_run_between_the_requests_of_a_batch() -> None:
    begun: list[int] = []

    async def run_item(_: object, number: object) -> Any:
        begun.append(cast(int, number))

    async def work() -> int:
        batch, item = Batch(cast(Any, run_item), lambda _: None), cast(Any, None)
        asked = asyncio.gather(*(batch._run_in_turn(n, item, cast(Any, n)) for n in range(100)))
        most = 0
        while not asked.done():
            before = len(begun)
            await asyncio.sleep(0)
            most = max(most, len(begun) - before)
        return most

    assert asyncio.run(work()) <= 8, "in one turn of the event loop"
    assert begun == list(range(100))


def test_0_one_that_fails_costs_nothing_and_spoils_no_other(served: Gateway) -> None:
    customer, wp_code = new_customer(served.store), new_carrier(served.store, 2)
    good = waybill_request(wp_code)
    reply = issue(
        served,
        customer,
        [
            {**good, "order_sn": "batch-good-1"},
            {**good, "order_sn": "short"},
            {**good, "order_sn": "batch-shop-1", "owner_id": "1"},
            {**good, "order_sn": "batch-none-1", "wp_code": "NOSUCH"},
            {**good, "order_sn": "batch-good-2"},
            {**good, "order_sn": "batch-out-of-numbers"},
            {},
        ],
    )
    # Which of three get the two numbers is not said.
    assert codes_of(reply) == [0, 100, 103, 100, 0, 0, 100]
    results = reply.data["results"]
    assert [each["reason"] for each in results][1:4] == [
        *("PARAMETER_INVALID", "OWNER_UNKNOWN", "CARRIER_UNKNOWN")
    ]
    assert sorted(results[n]["waybill"]["code"] for n in (0, 4, 5)) == [0, 1, 1]
    assert reply.data["withholding_money"] == 2 * PRICE
    assert credits_left(served.store, customer) == 10_000 - 2 * PRICE


def test_302_one_for_a_shop_that_has_not_authorized_has_a_link_and_its_end(served: Gateway) -> None:
    customer, other = new_customer(served.store), new_customer(served.store)
    authorize_shops(served.store, other, "9302")
    good = waybill_request(new_carrier(served.store, 2))
    strange = {**good, "order_sn": "batch-302", "owner_id": "9302"}
    reply = issue(served, customer, [strange, good])
    assert codes_of(reply) == [302, 0]
    refused, issued = reply.data["results"]
    alone = served.post_json(WAYBILLS.path, strange, token=customer.token)
    assert "/authorize?link=" in refused["authorize_url"]
    assert 0 <= alone.data["expires_at"] - refused["expires_at"] < 60
    assert (issued["authorize_url"], issued["expires_at"]) == (None, None)


def test_202_one_whose_record_cannot_be_opened_spoils_no_other(served: Gateway) -> None:
    customer = new_customer(served.store)
    good, altered = (waybill_request(new_carrier(served.store, 10)) for _ in range(2))
    known = {**good, "order_sn": "seal-known"}
    first = issue(served, customer, [altered, known])
    assert codes_of(first) == [0, 0]
    of_carrier = f"WHERE wp_code = '{altered['wp_code']}'"
    served.store.run(f"UPDATE waybill SET sealed = substr(sealed, 1, 20) {of_carrier}")
    wanted = [{**good, "order_sn": f"seal-{n:05}"} for n in range(6)]
    reply = issue(served, customer, [*wanted[:3], altered, known, *wanted[3:]])
    assert codes_of(reply) == [0, 0, 0, 202, 0, 0, 0, 0]
    assert reply.data["results"][3]["reason"] == "STORE_UNAVAILABLE"
    assert reply.data["results"][4]["waybill"]["waybillCode"] == numbers_of(first)[1]
    assert reply.data["withholding_money"] == 6 * PRICE
    assert credits_left(served.store, customer) == 10_000 - 8 * PRICE
    assert _taken(served.store, altered) == 1 and _taken(served.store, good) == 7


def test_0_what_was_issued_is_answered_though_the_link_of_its_carrier_cannot_be_opened(
    served: Gateway,
) -> None:
    customer = new_customer(served.store)
    good, linked = (waybill_request(new_carrier(served.store, 10)) for _ in range(2))
    first = issue(served, customer, [linked])
    link = CarrierLink(linked["wp_code"], "http://127.0.0.1:9", "TOLLWAY", "CODE", 5000, 60, 0)
    sealer = sealer_of(served.store)
    served.store.do(lambda database: connect(database, sealer, link, "secret"))
    served.store.run("UPDATE carrier_link SET sealed_secret = substr(sealed_secret, 1, 20)")
    wanted = [{**good, "order_sn": f"link-{n:05}"} for n in range(3)]
    reply = issue(served, customer, [linked, *wanted])
    assert codes_of(reply) == [0, 0, 0, 0]
    assert numbers_of(reply)[0] == numbers_of(first)[0]
    # A new one of that carrier fails alone, and leaves nothing.
    wanted = [{**good, "order_sn": f"link-more-{n:05}"} for n in range(3)]
    reply = issue(served, customer, [*wanted, {**linked, "order_sn": "link-new"}])
    assert codes_of(reply) == [0, 0, 0, 202]
    assert credits_left(served.store, customer) == 10_000 - 7 * PRICE
    assert _taken(served.store, linked) == 1 and _taken(served.store, good) == 6
    assert served.store.run("SELECT 1 FROM waybill WHERE order_sn = 'link-new'") == []


def _taken(store: Store, waybill: dict[str, Any]) -> int:
    """How many numbers of a waybill's carrier are taken."""
    rows = store.run(f"SELECT is_taken FROM waybill_number WHERE wp_code = '{waybill['wp_code']}'")
    return sum(is_taken for (is_taken,) in rows)


def test_names_that_are_not_known_are_listed_also_if_one_of_the_waybills_has_them(
    served: Gateway,
) -> None:
    customer, wp_code = new_customer(served.store), new_carrier(served.store, 3)
    good = waybill_request(wp_code)
    wanted = [{**good, "order_sn": f"names-{n:04}", "tip": "1"} for n in range(2)]
    reply = issue(served, customer, [*wanted, {**good, "order_sn": "names-last", "名": "1"}])
    assert codes_of(reply) == [0, 0, 0]
    assert reply.headers["x-ignored-parameters"] == "tip, %E5%90%8D"


def test_0_the_same_again_gives_the_same_waybills_for_nothing(served: Gateway) -> None:
    customer, wp_code = new_customer(served.store), new_carrier(served.store, 3)
    wanted = [{**waybill_request(wp_code), "order_sn": f"again-{n:04}"} for n in range(2)]
    first = issue(served, customer, wanted, **{"Idempotency-Key": "k"})
    for key in ({"Idempotency-Key": "k"}, {}):
        again = issue(served, customer, wanted, **key)
        assert numbers_of(again) == numbers_of(first)
        assert again.data["withholding_money"] == 0
        assert [e["waybill"]["withholding_money"] for e in again.data["results"]] == [0, 0]
    # Twice the same order in one call is one waybill, and one charge.
    twice = {**wanted[0], "order_sn": "again-twice"}
    reply = issue(served, customer, [twice, twice])
    assert len(set(numbers_of(reply))) == 1
    assert reply.data["withholding_money"] == PRICE
    other = [{**wanted[0], "order_sn": "again-other"}, wanted[1]]
    assert codes_of(issue(served, customer, other, **{"Idempotency-Key": "k"})) == [100, 0]
    assert credits_left(served.store, customer) == 10_000 - 3 * PRICE


def test_204_credits_pay_for_as_many_as_they_cover(served: Gateway) -> None:
    customer = new_customer(served.store, credits_=3 * PRICE + 1)
    good = waybill_request(new_carrier(served.store, 10))
    wanted = [{**good, "order_sn": f"poor-{n:05}"} for n in range(5)]
    reply = issue(served, customer, wanted)
    assert sorted(codes_of(reply)) == [0, 0, 0, 204, 204]
    assert reply.data["withholding_money"] == 3 * PRICE
    assert credits_left(served.store, customer) == 1


def test_0_equal_batches_at_once_issue_each_waybill_once(served: Gateway) -> None:
    customer = new_customer(served.store)
    good = waybill_request(new_carrier(served.store, 30))
    wanted = [{**good, "order_sn": f"race-{n:05}"} for n in range(20)]
    with ThreadPoolExecutor(4) as callers:
        replies = list(callers.map(lambda _: issue(served, customer, wanted), range(4)))
    refused = [one for each in replies for one in each.data["results"] if one["code"]]
    assert refused == []
    assert len({tuple(numbers_of(each)) for each in replies}) == 1
    assert sum(each.data["withholding_money"] for each in replies) == 20 * PRICE
    assert credits_left(served.store, customer) == 10_000 - 20 * PRICE


@pytest.mark.parametrize("waybills", [[], [{}] * 101, {}, ["x"], None])
def test_100_what_is_no_list_of_waybills_is_named(served: Gateway, waybills: object) -> None:
    reply = issue(served, new_customer(served.store), waybills)
    assert (reply.code, "waybills" in reply.msg) == (100, True)


def test_0_a_dry_run_says_what_all_of_them_cost(served: Gateway) -> None:
    customer = new_customer(served.store)
    wanted = [waybill_request("ANY")] * 7
    reply = issue(served, customer, wanted, **{"X-Tollway-Dry-Run": "1"})
    assert (reply.code, reply.data["cost"]) == (0, 7 * PRICE)
    assert credits_left(served.store, customer) == 10_000


def test_204_a_dry_run_of_more_than_can_be_paid_says_so(served: Gateway) -> None:
    customer = new_customer(served.store, credits_=7 * PRICE - 1)
    wanted = [waybill_request("ANY")] * 7
    reply = issue(served, customer, wanted, **{"X-Tollway-Dry-Run": "1"})
    assert reply.code == 204 and f"{7 * PRICE - 1} left, this call costs {7 * PRICE}" in reply.msg


def test_204_a_dry_run_of_more_than_its_token_may_call_in_a_day_says_so(served: Gateway) -> None:
    customer = new_customer(served.store)
    limits = TokenLimits(calls_per_day=6)

    async def limited(database: Database) -> str:
        made = await issue_token(database, RUNTIME, customer.account_id, limits=limits)
        return made.text

    capped = customer._replace(token=served.store.do(limited))
    wanted = [waybill_request("ANY")] * 7
    dry = {"X-Tollway-Dry-Run": "1"}
    reply = issue(served, capped, wanted, **dry)
    assert reply.code == 204 and "6 calls a day: 6 left, this call takes 7" in reply.msg
    assert issue(served, capped, wanted[:6], **dry).code == 0


def test_the_labels_of_a_batch_are_one_pdf(served: Gateway) -> None:
    customer, wp_code = new_customer(served.store), new_carrier(served.store, 3)
    wanted = [{**waybill_request(wp_code), "order_sn": f"label-{n:04}"} for n in range(3)]
    issued = issue(served, customer, wanted)
    ids = [each["waybill"]["objectId"] for each in issued.data["results"]]
    path = "/account/v1/waybills/labels"
    reply = served.post_json(path, {"object_ids": ids}, token=customer.token)
    assert reply.data["waybill_codes"] == numbers_of(issued)
    document = b64decode(reply.data["content"])
    assert document.startswith(b"%PDF") and b"/Count 3\n" in document
    outsider = new_customer(served.store)
    assert served.post_json(path, {"object_ids": ids}, token=outsider.token).code == 404


def test_0_an_order_number_that_is_sent_as_a_number_is_in_the_result(served: Gateway) -> None:
    customer, good = new_customer(served.store), waybill_request(new_carrier(served.store, 1))
    reply = issue(served, customer, [{**good, "order_sn": 2026011500}])
    (result,) = reply.data["results"]
    assert (result["order_sn"], result["waybill"]["orderSn"]) == ("2026011500", "2026011500")


def test_100_an_order_number_that_is_no_text_spoils_no_other(served: Gateway) -> None:
    customer = new_customer(served.store)
    good = waybill_request(new_carrier(served.store, 2))
    half_a_pair = "\ud83dbatch-half"
    reply = issue(
        served,
        customer,
        [{**good, "order_sn": "batch-whole"}, {**good, "order_sn": half_a_pair}],
    )
    assert (reply.code, codes_of(reply)) == (0, [0, 100])
    assert [each["order_sn"] for each in reply.data["results"]] == ["batch-whole", None]
    assert reply.data["withholding_money"] == PRICE
