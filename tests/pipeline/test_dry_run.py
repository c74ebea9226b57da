"""Outcomes that a test call asks for, and dry runs."""

import asyncio
from collections.abc import Awaitable
from datetime import date
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from jsonschema_rs import Draft202012Validator

from tests.support.all_operations import SHANGHAI, all_operations_caller, ask, good_request
from tests.support.gateway import Gateway
from tests.support.handlers import may_go_on
from tests.support.ledger import CREDITS, Caller, amount_left, credits_left, new_caller
from tests.support.receipts import notes_of, receipt_of
from tests.support.stores import Store
from tollway.contract.operation import CallInfo, Operation
from tollway.contract.reasons import Reason
from tollway.ledger.caller_cache import Caller as KnownCaller
from tollway.ledger.token_limits import TokenLimits
from tollway.operations.catalogue import ALL_OPERATIONS, BY_NAME, OPERATIONS
from tollway.operations.orders.export import ORDERS_EXPORT
from tollway.operations.subject import Priced
from tollway.pipeline.bodies import NO_BODY
from tollway.pipeline.call import Call
from tollway.pipeline.dry_run import DRY_RUN_HEADER, DryRun, DryRunDone
from tollway.pipeline.perform import Perform

ORDERS, WAYBILLS = BY_NAME["orders"], BY_NAME["waybills"]
every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)


@pytest.fixture(scope="module")
def tester(world: Store) -> Caller:
    """A test token of an account that was never charged."""
    return new_caller(world, operations=OPERATIONS, kind="test", rate_limit=100_000)


def _outcome(value: str) -> dict[str, str]:
    return {"X-Tollway-Outcome": value}


@every_operation
def test_every_reason_of_an_operation_can_be_had(
    served: Gateway, tester: Caller, operation: Operation
) -> None:
    for reason in operation.reasons:
        reply = ask(served, operation, tester.token, {}, _outcome(reason.name))
        assert (reply.code, reply.headers["x-tollway-reason"]) == (reason.value.code, reason.name)
        assert "{" not in reply.msg
        if reason is Reason.THROTTLED:
            assert reply.headers["retry-after"] == "1"
        if reason is Reason.NOT_AUTHORIZED:
            page = served.client.get(reply.data["authorize_url"])
            assert "sandbox" in page.text and reply.data["expires_at"] > reply.envelope["time"]
        else:
            assert reply.data == {}


@pytest.mark.parametrize(
    ("name", "field", "owner"),
    [
        ("promotion_material", "platform_user_id", "116385042"),
        ("orders", "owner_id", "880012002"),
        ("waybills", "owner_id", "880012002"),
    ],
)
def test_a_simulated_refusal_says_what_the_real_one_says(
    served: Gateway, tester: Caller, today: date, name: str, field: str, owner: str
) -> None:
    operation = BY_NAME[name]
    for reason, owner_id in ((Reason.NOT_AUTHORIZED, owner), (Reason.OWNER_UNKNOWN, "5")):
        request = {**good_request(operation, today), field: owner_id}
        real = ask(served, operation, tester.token, request)
        simulated = ask(served, operation, tester.token, {}, _outcome(reason.name))
        assert (simulated.code, simulated.msg) == (real.code, real.msg)
        assert real.headers["x-tollway-reason"] == reason.name


def test_a_simulated_fault_raises_no_alert_and_has_a_receipt(
    served: Gateway, tester: Caller
) -> None:
    reply = ask(served, WAYBILLS, tester.token, {}, _outcome("INTERNAL"))
    found = receipt_of(served, tester.token, reply)
    assert (found["code"], found["reason"], found["is_test"]) == (200, "INTERNAL", True)
    metrics = served.client.get("/metrics").text
    assert 'reason="SIMULATED"' in metrics and 'reason="INTERNAL"' not in metrics


def test_an_answer_can_be_slow(served: Gateway, tester: Caller, today: date) -> None:
    began_s = monotonic()
    reply = ask(served, ORDERS, tester.token, good_request(ORDERS, today), _outcome("slow:300"))
    assert reply.code == 0 and reply.data["content"]
    assert monotonic() - began_s >= 0.3


def test_a_carrier_can_refuse(served: Gateway, tester: Caller, today: date) -> None:
    request = good_request(WAYBILLS, today)
    reply = ask(served, WAYBILLS, tester.token, request, _outcome("carrier:refused"))
    assert (reply.code, reply.data["code"], reply.data["waybillCode"]) == (0, 0, "")
    assert reply.data["orderSn"] == request["order_sn"] and reply.data["errorMsg"]
    chinese = {**_outcome("carrier:refused"), "Accept-Language": "zh"}
    refused = ask(served, WAYBILLS, tester.token, request, chinese)
    assert refused.data["errorMsg"] == "应测试调用的要求，快递公司拒绝取号。"


@pytest.mark.parametrize(
    "value", ["", "NO_SUCH_REASON", "calls_used_up", "slow:", "slow:-1", "slow:1e3", "__class__"]
)
def test_an_outcome_that_does_not_exist_is_refused(
    served: Gateway, tester: Caller, today: date, value: str
) -> None:
    reply = ask(served, ORDERS, tester.token, good_request(ORDERS, today), _outcome(value))
    assert reply.code == 100 and "X-Tollway-Outcome" in reply.msg


@pytest.mark.parametrize("operation", ALL_OPERATIONS, ids=lambda each: each.name)
def test_the_description_has_what_an_operation_takes_and_nothing_else(
    served: Gateway, tester: Caller, operation: Operation
) -> None:
    """Of those, an answer fits the description too: only where consent is needed has it a link."""
    document = served.client.get("/openapi.json").json()
    described = document["paths"][operation.path][operation.method.lower()]
    schema = next(
        each["schema"] for each in described["parameters"] if each["name"] == "X-Tollway-Outcome"
    )
    is_described = Draft202012Validator(schema).is_valid
    consent = {"NOT_AUTHORIZED", "OWNER_UNKNOWN"}
    taken = set()
    for name in (*Reason.__members__, "carrier:refused", "slow:1", "slow:123456", "slow:-1"):
        refused = ask(served, operation, tester.token, {}, _outcome(name))
        is_taken = "X-Tollway-Outcome" not in refused.msg
        assert is_taken == is_described(name), f"{name}: {refused.msg}"
        taken |= {name} if is_taken else set()
    assert taken & consent == (consent if operation.consent is not None else set())
    assert ("carrier:refused" in taken) == (operation is WAYBILLS)


def test_a_live_call_that_asks_for_an_outcome_is_refused_and_not_charged(
    served: Gateway, world: Store, today: date
) -> None:
    caller = all_operations_caller(world)
    for value in ("INTERNAL", "slow:1", "carrier:refused"):
        reply = ask(served, WAYBILLS, caller.token, good_request(WAYBILLS, today), _outcome(value))
        assert reply.code == 100 and "test token" in reply.msg
    assert credits_left(world, caller) == 1000


DRY_RUN = {"X-Tollway-Dry-Run": "1"}


@every_operation
def test_a_dry_run_says_what_a_call_costs_and_does_nothing(
    served: Gateway, world: Store, today: date, operation: Operation
) -> None:
    caller = all_operations_caller(world)
    before = amount_left(world, caller, operation.balance_unit)
    # Also with a key, which must not be used up.
    headers = {**DRY_RUN, "Idempotency-Key": "dry"}
    reply = ask(served, operation, caller.token, good_request(operation, today), headers)
    assert reply.code == 0
    assert reply.data == {
        "dry_run": True,
        "cost": operation.default_price,
        "unit": operation.balance_unit,
        "left": before,
    }
    assert amount_left(world, caller, operation.balance_unit) == before
    assert receipt_of(served, caller.token, reply)["reason"] == "DRY_RUN"
    real = ask(
        served, operation, caller.token, good_request(operation, today), {"Idempotency-Key": "dry"}
    )
    assert real.code == 0 and "x-replay-of" not in real.headers
    left = amount_left(world, caller, operation.balance_unit)
    assert left == before - operation.default_price


@every_operation
def test_a_dry_run_is_refused_as_the_call_would_be(
    served: Gateway, world: Store, today: date, operation: Operation
) -> None:
    request = good_request(operation, today)
    spent = all_operations_caller(world, credits_=0, calls=0)
    assert ask(served, operation, spent.token, request, DRY_RUN).code == 204
    paying = all_operations_caller(world)
    assert ask(served, operation, paying.token, {}, DRY_RUN).code == 100
    if operation.consent is not None:
        outsider = new_caller(world, operations=(operation,), credits_=100)
        reply = ask(served, operation, outsider.token, request, DRY_RUN)
        assert reply.code == 302 and reply.data["authorize_url"]


@every_operation
@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "dry"}], ids=["plain", "with a key"])
def test_a_dry_run_is_refused_if_the_token_has_spent_its_day(
    served: Gateway, world: Store, today: date, operation: Operation, key: dict[str, str]
) -> None:
    capped = all_operations_caller(world, limits=TokenLimits(calls_per_day=1))
    request = good_request(operation, today)
    assert ask(served, operation, capped.token, request, {**DRY_RUN, **key}).code == 0
    assert ask(served, operation, capped.token, request).code == 0
    reply = ask(served, operation, capped.token, request, {**DRY_RUN, **key})
    assert reply.code == 204 and "a day" in reply.msg


def test_a_dry_run_with_a_test_token_says_nothing_of_the_live_balance(
    served: Gateway, world: Store, today: date
) -> None:
    test = all_operations_caller(world, kind="test")
    reply = ask(served, ORDERS, test.token, good_request(ORDERS, today), DRY_RUN)
    assert (reply.code, reply.data["cost"], reply.data["left"]) == (0, 0, 0)


@pytest.mark.parametrize("value", ["", "0", "true", "yes"])
def test_a_dry_run_that_is_not_understood_is_not_charged(
    served: Gateway, world: Store, today: date, value: str
) -> None:
    caller = all_operations_caller(world)
    headers = {"X-Tollway-Dry-Run": value}
    reply = ask(served, ORDERS, caller.token, good_request(ORDERS, today), headers)
    assert reply.code == 100 and "X-Tollway-Dry-Run" in reply.msg
    assert amount_left(world, caller, CREDITS) == 1000
    assert notes_of(world, caller) <= 1


def test_100_the_account_api_has_no_dry_run_of_a_change(served: Gateway, world: Store) -> None:
    token = all_operations_caller(world).token
    reply = served.post_json(
        "/account/v1/tokens/make", {"label": "x"}, token=token, headers=DRY_RUN
    )
    assert reply.code == 100 and "X-Tollway-Dry-Run" in reply.msg
    assert served.get("/account/v1/balance", token=token, headers=DRY_RUN).code == 0


@pytest.mark.sqlite
@pytest.mark.parametrize("is_async", [False, True], ids=["at once", "later"])
def test_a_dry_run_asks_the_handler_what_a_measured_call_costs(is_async: bool) -> None:
    def measure(_request: object, info: CallInfo) -> Priced | Awaitable[Priced]:
        async def later() -> Priced:
            return measured

        assert info.price == 4
        measured = Priced(3, b"{}")
        return later() if is_async else measured

    async def amount_left(_account_id: str, _unit: str) -> int:
        return 12

    operation = ORDERS_EXPORT
    assert operation.is_measured
    call = Call("", "POST", operation.path, b"", {DRY_RUN_HEADER: b"1"}, NO_BODY, 0.0)
    call.operation, call.price, call.request = operation, 4, None
    call.caller = KnownCaller("tok_x", "acc_x", False, None, {})
    call.environment = cast(Any, SimpleNamespace(handlers={operation.name: measure}))
    callers = cast(Any, SimpleNamespace(amount_left=amount_left))

    async def run() -> None:
        waiting = DryRun(callers, Perform(may_go_on), SHANGHAI)(call)
        assert waiting is not None
        await waiting

    with pytest.raises(DryRunDone):
        asyncio.run(run())
    assert msgspec.json.decode(call.data) == {
        "dry_run": True,
        "cost": 12,
        "unit": operation.balance_unit,
        "left": 12,
    }
