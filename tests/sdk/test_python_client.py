"""The Python SDK against a real gateway."""

import asyncio
import time
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest

from tests.support.all_operations import all_operations_caller, good_request
from tests.support.gateway import Gateway
from tests.support.ledger import credits_left, new_caller
from tollway.contract.operation import Operation
from tollway.demo.owners import SHOP
from tollway.operations.catalogue import BY_NAME, OPERATIONS
from tollway.operations.waybills.demo import WP_CODE_OUT_OF_NUMBERS
from tollway_client import AsyncClient, Client, errors
from tollway_client._pacing import Pacer

_METHODS = {each.name: each.name for each in OPERATIONS} | {"waybills": "issue_waybill"}


class _Lossy(httpx.HTTPTransport):
    """Loses the first answers, after the gateway has sent them."""

    def __init__(self, lost: int) -> None:
        super().__init__()
        self.lost = lost
        self.keys: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        self.keys.append(request.headers["idempotency-key"])
        if len(self.keys) > self.lost:
            return response
        response.read()
        raise httpx.ReadError("lost", request=request)


def test_the_more_calls_answer(world: Gateway, today: date) -> None:
    request: Any = good_request(BY_NAME["waybills"], today)
    shop = request["owner_id"]
    with Client(all_operations_caller(world.store).token, world.base_url) as client:
        changed = client.orders_changed(owner_id=shop, pageSize=2)
        numbers = [each.order_sn for each in changed.content]
        found = client.orders_by_number(owner_id=shop, order_sn=[*numbers, "none"])
        assert [each.order_sn for each in found.content] == numbers and found.missing == ["none"]
        batch = client.issue_waybills(waybills=[request, {**request, "order_sn": "x"}])
        assert [each.code for each in batch.results] == [0, 100]
        issued = batch.results[0].waybill
        assert issued is not None and issued.code == 1 and batch.results[1].waybill is None
        labels = client.account.waybills_labels(object_ids=[issued.objectId])
        assert labels.waybill_codes == [issued.waybillCode]
        window: Any = {"start_time": "2020-01-01", "end_time": today.isoformat()}
        exported = client.orders_export(owner_id=shop, **window)
        assert exported.records > 0


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_answers_sync_and_async(
    world: Gateway, today: date, operation: Operation
) -> None:
    caller = all_operations_caller(world.store)
    request: Any = good_request(operation, today)

    async def ask() -> Any:
        async with AsyncClient(caller.token, world.base_url) as client:
            return await getattr(client, _METHODS[operation.name])(**request)

    with Client(caller.token, world.base_url) as client:
        answer = getattr(client, _METHODS[operation.name])(**request)
    assert type(answer).__name__ == operation.response_type.__name__
    assert len(answer.meta.request_id) > 20
    if operation.name != "waybills":
        assert asyncio.run(ask()) == answer


def test_an_answer_that_is_lost_is_had_again_and_paid_once(world: Gateway) -> None:
    caller = all_operations_caller(world.store)
    lossy = _Lossy(2)
    with Client(caller.token, world.base_url, http=httpx.Client(transport=lossy)) as client:
        page = client.orders(owner_id=SHOP.id)
    assert len(lossy.keys) == 3 and len(set(lossy.keys)) == 1
    assert page.meta.replay_of and page.content
    assert credits_left(world.store, caller) == 999


def test_what_the_account_does_not_have_is_no_wrong_address(world: Gateway) -> None:
    caller = all_operations_caller(world.store)
    with Client(caller.token, world.base_url) as client:
        with pytest.raises(errors.NotFoundError, match="WAYBILL_UNKNOWN") as found:
            client.account.waybills(object_id="wb_none")
        assert not isinstance(found.value, errors.UnknownPathError)
    sent = {"X-Tollway-Outcome": "PATH_UNKNOWN"}
    tester = new_caller(world.store, operations=(BY_NAME["orders"],), kind="test")
    with Client(tester.token, world.base_url) as client, pytest.raises(errors.UnknownPathError):
        client.orders(owner_id=SHOP.id, headers=sent)


def test_what_no_retry_can_help_is_not_repeated(world: Gateway) -> None:
    caller = all_operations_caller(world.store, credits_=0)
    lossy = _Lossy(0)
    with Client(caller.token, world.base_url, http=httpx.Client(transport=lossy)) as client:
        with pytest.raises(errors.UsedUpError) as found:
            client.orders(owner_id=SHOP.id)
        error = found.value
        assert (error.code, error.reason) == (204, "CREDITS_USED_UP")
        assert error.request_id in str(error) and error.envelope["msg"] == error.message
    assert len(lossy.keys) == 1
    outsider = new_caller(world.store, granted=False)
    refused = pytest.raises(errors.PermissionMissingError)
    with Client(outsider.token, world.base_url) as client, refused:
        client.orders(owner_id=SHOP.id)
    # What a token may not do is no empty balance.
    tester = new_caller(world.store, kind="test")
    refused = pytest.raises(errors.PermissionMissingError, match="LIVE_TOKEN_NEEDED")
    with Client(f" {tester.token}\n", world.base_url) as client, refused:
        client.account.balance()
    with Client("tw_live_", world.base_url) as client, pytest.raises(errors.CredentialInvalidError):
        client.orders(owner_id=SHOP.id)


def test_a_shop_that_has_not_approved_gives_the_link_to_ask_it(world: Gateway) -> None:
    all_operations_caller(world.store)
    caller = new_caller(world.store, operations=(BY_NAME["orders"],), credits_=10)
    with Client(caller.token, world.base_url) as client:
        with pytest.raises(errors.NotAuthorizedError) as found:
            client.orders(owner_id=SHOP.id)
        assert found.value.authorize_url.startswith(world.base_url)
        with pytest.raises(errors.OwnerUnknownError):
            client.orders(owner_id="1")
        with pytest.raises(errors.ParameterError, match="pageSize"):
            client.orders(owner_id=SHOP.id, pageSize=101)


def test_a_carrier_that_refuses_is_an_error_with_the_answer(world: Gateway, today: date) -> None:
    caller = all_operations_caller(world.store)
    request: Any = good_request(BY_NAME["waybills"], today)
    refused = pytest.raises(errors.CarrierRefusedError)
    with Client(caller.token, world.base_url) as client, refused as found:
        client.issue_waybill(**{**request, "wp_code": WP_CODE_OUT_OF_NUMBERS})
    assert found.value.result.withholding_money == 0 and found.value.result.errorMsg


def test_it_stays_under_the_limit_by_itself(world: Gateway, today: date) -> None:
    caller = new_caller(world.store, rate_limit=3)
    request: Any = good_request(BY_NAME["product_analysis"], today)
    sent: list[float] = []

    async def note(_: httpx.Request) -> None:
        sent.append(time.monotonic())

    async def ask() -> None:
        http = httpx.AsyncClient(event_hooks={"request": [note]}, timeout=60)
        async with AsyncClient(caller.token, world.base_url, http=http) as client:
            await client.product_analysis(**request)
            await asyncio.sleep(1.1)
            sent[:] = [time.monotonic()]
            await asyncio.gather(*(client.product_analysis(**request) for _ in range(7)))

    asyncio.run(ask())
    start, *sent = sent
    # A busy machine can only make them later.
    assert sent[3] - start >= 1 and sent[6] - start >= 2


def test_calls_over_the_limit_wait_for_as_long_as_the_gateway_asks(
    world: Gateway, today: date
) -> None:
    caller = new_caller(world.store, rate_limit=1)
    request: Any = good_request(BY_NAME["product_analysis"], today)
    with Client(caller.token, world.base_url) as one, Client(caller.token, world.base_url) as two:
        for client in (one, two, one):
            assert client.product_analysis(**request).itemId == request["product_id"]


def test_moments_are_reserved_by_the_limit_that_the_gateway_sent() -> None:
    now_s = 100.0
    pacer = Pacer(lambda: now_s)
    assert [pacer.reserve("a")[0] for _ in range(10)] == [0.0] * 10
    assert pacer.reserve("a")[0] == pytest.approx(1.05)
    assert pacer.reserve("b")[0] == 0.0
    pacer.learn("b", '"b";q=2;w=1')
    assert pacer.reserve("b")[0] == 0.0
    assert pacer.reserve("b")[0] == pytest.approx(1.05)


@pytest.mark.parametrize("status", [502, 200])
def test_an_answer_without_the_envelope_says_so(status: int) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(status, text="<html>")

    http = httpx.Client(transport=httpx.MockTransport(answer))
    unexpected = pytest.raises(errors.UnexpectedAnswerError, match=str(status))
    with Client("t", "http://gateway.example", http=http, retries=0) as client, unexpected:
        client.orders(owner_id="1")


def test_a_key_among_the_headers_is_the_only_one_however_it_is_spelled(world: Gateway) -> None:
    caller = all_operations_caller(world.store)
    with Client(caller.token, world.base_url) as client:
        first, again = (
            client.orders(owner_id=SHOP.id, headers={name: "mine-1"})
            for name in ("idempotency-key", "Idempotency-Key")
        )
    assert again.meta.replay_of == first.meta.request_id
    assert credits_left(world.store, caller) == 999


def test_an_answer_that_was_damaged_on_its_way_is_asked_for_again_with_the_same_key() -> None:
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=b"no gzip")

    lost = pytest.raises(errors.TransportError, match="No answer")
    http = httpx.Client(transport=httpx.MockTransport(answer))
    with Client("t", "http://gateway.example", http=http, retries=1) as client, lost:
        client.orders(owner_id="1")
    assert len(keys) == 2 and len(set(keys)) == 1

    async def in_asyncio() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
        async with AsyncClient("t", "http://gateway.example", http=http, retries=0) as client:
            await client.orders(owner_id="1")

    with pytest.raises(errors.TransportError, match="No answer"):
        asyncio.run(in_asyncio())


def test_a_loop_over_claims_may_be_longer_than_a_request_can_ask_for(
    world: Gateway, today: date
) -> None:
    caller = all_operations_caller(world.store)
    request = good_request(BY_NAME["coupon_claims"], today)
    end = int(request["endTime"]) + 3 * 86_400
    with Client(caller.token, world.base_url) as client:
        found = list(
            client.iter_coupon_claims(
                startTime=end - 30 * 86_400, endTime=end, sid=request["sid"], type=4
            )
        )
        parts = [
            client.coupon_claims(
                startTime=end - 7 * week * 86_400,
                endTime=end - 7 * (week - 1) * 86_400,
                page=1,
                limit=1000,
                sid=request["sid"],
                type=4,
            )
            for week in (1, 2)
        ]
    assert len(found) == sum(part.total for part in parts) > 0
    assert len({claim.couponCode for claim in found}) == len(found)


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns"])
def test_a_datetime_with_a_zone_is_taken_wherever_a_time_is(
    world: Gateway, today: date, zone: str
) -> None:
    request = good_request(BY_NAME["coupon_claims"], today)
    times = {"startTime": int(request["startTime"]), "endTime": int(request["endTime"])}
    at = {name: datetime.fromtimestamp(time_s, ZoneInfo(zone)) for name, time_s in times.items()}
    of = {"sid": request["sid"], "type": 4}
    with Client(all_operations_caller(world.store).token, world.base_url) as client:
        total = client.coupon_claims(**times, **of, page=1, limit=1).total
        assert client.coupon_claims(**at, **of, page=1, limit=1).total == total > 0
        assert client.coupon_claims_export(**at, **of).records == total
        assert len(list(client.iter_coupon_claims(**at, **of))) == total
        written = {name: each.isoformat() for name, each in at.items()}
        assert len(list(client.iter_coupon_claims(**written, **of))) == total
        window = {"start_time": at["startTime"], "end_time": at["endTime"]}
        in_ms = {"start_time": times["startTime"] * 1000, "end_time": times["endTime"] * 1000}
        found = client.orders(owner_id=SHOP.id, **window).totalElements
        assert found == client.orders(owner_id=SHOP.id, **in_ms).totalElements > 0


def test_a_loop_over_material_gives_each_once(world: Gateway, today: date) -> None:
    caller = all_operations_caller(world.store)
    request = good_request(BY_NAME["promotion_material"], today)
    with Client(caller.token, world.base_url) as client:
        found = list(client.iter_promotion_material(**request))
    assert len(found) == 2
