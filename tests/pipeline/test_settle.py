"""The stage that charges, by itself: what is taken, recorded, counted and stored for each call."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from tests.support.till import CREDITS, PRICE, OnTill, Till
from tollway.contract.operation import Operation
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charge_transaction import AlreadyAnswered
from tollway.ledger.charges import Act, ActResult, Charge, IdempotencyKey
from tollway.ledger.entries import newest_entries
from tollway.ledger.holds import capture, reserve
from tollway.ledger.idempotency import KeptAnswer, find_kept, free_key, keep
from tollway.operations.orders.export import ORDERS_FILE
from tollway.operations.orders.operation import ORDERS
from tollway.pipeline.call import Call
from tollway.store.database import StoreUnavailableError, Transaction

TWO_ORDERS = b'[{"order_sn":1},{"order_sn":2}]'
KEY = IdempotencyKey("k", b"\1same", b"\1same".__eq__, lambda data: b"sealed " + data, None)
Meanwhile = Callable[[], Awaitable[None]]


def act_with(result: ActResult) -> Act:
    async def act(_transaction: Transaction, _charge: Charge) -> ActResult:
        return result

    return act


async def nothing() -> None:
    """Nothing happens meanwhile."""


def errand(call: Call, meanwhile: Meanwhile = nothing) -> Act:
    """Holds the price, asks outside, and captures it."""

    async def set_out(transaction: Transaction, charge: Charge) -> ActResult:
        await reserve(transaction, charge, call.request_id, charge.at_ms + 60_000)
        return ActResult(b"", is_paid=False, then=ask, is_held=True)

    async def ask() -> Act:
        await meanwhile()
        return come_back

    async def come_back(transaction: Transaction, charge: Charge) -> ActResult:
        held = await capture(transaction, charge.account_id, call.request_id, charge.at_ms)
        return ActResult(TWO_ORDERS, is_paid=False, captured=held.amount)

    return set_out


def wait_for_another(meanwhile: Meanwhile = nothing) -> Act:
    """Finds that another call does the same, and pays for what it finds afterwards."""

    async def ask() -> Act:
        await meanwhile()
        return act_with(ActResult(TWO_ORDERS, is_paid=True))

    return act_with(ActResult(b"", is_paid=False, then=ask))


async def kept_by(till: Till) -> KeptAnswer | None:
    now_ms = int(till.call().at_s * 1000)
    return await find_kept(till.database, till.caller.account_id, KEY.key, now_ms)


async def outcomes(*charges: Awaitable[object] | None) -> list[object]:
    """What becomes of charges that come at the same moment, and so are in one second."""
    waiting = [charge for charge in charges if charge is not None]
    assert len(waiting) == len(charges)
    return list(await asyncio.gather(*waiting, return_exceptions=True))


async def test_a_paid_call_is_charged(till: Till) -> None:
    call = till.call(price=1, data=b"{}")
    await till.pay(call)
    assert call.charged == 1
    assert await till.charged() == [(call.request_id, 1)]
    (entry, _) = await newest_entries(till.database, till.caller.account_id, "credits", 100)
    assert (entry.operation, entry.token_id) == ("orders", till.caller.token_id)
    assert await till.uses() == []
    assert await kept_by(till) is None


@pytest.mark.sqlite
async def test_an_entry_has_the_moment_of_its_call(till: Till) -> None:
    await till.pay(till.call(data=b"{}", at_s=1_700_000_000.125))
    (entry, _) = await newest_entries(till.database, till.caller.account_id, "credits", 100)
    assert entry.at_ms == 1_700_000_000_125


@pytest.mark.sqlite
async def test_a_free_call_waits_for_no_commit(till: Till) -> None:
    assert till.settle(till.call(price=0, data=b"{}", limit=1)) is None


@pytest.mark.sqlite
def test_what_is_done_in_the_sandbox_is_not_recorded_for_an_owner(on_till: OnTill) -> None:
    async def test(till: Till) -> None:
        call = till.call(price=0, data=TWO_ORDERS, is_granted=True)
        assert till.settle(call) is None
        assert till.settle.replay(call, "earlier", TWO_ORDERS) is None
        keyed = till.call(price=0, data=TWO_ORDERS, is_granted=True)
        keyed.idempotency_key = KEY
        await till.pay(keyed)
        assert await kept_by(till) is not None
        assert await till.uses() == []

    on_till(test, is_test=True)


@pytest.mark.parametrize("price", [0, PRICE])
async def test_what_is_done_under_a_grant_is_recorded_also_if_it_is_free(
    till: Till, price: int
) -> None:
    call = till.call(price=price, data=TWO_ORDERS, is_granted=True)
    await till.pay(call)
    assert await till.uses() == [(call.request_id, "orders", None, 2)]
    assert await till.left() == CREDITS - price


@pytest.mark.parametrize(("operation", "records"), [(ORDERS, 5), (ORDERS_FILE, None)])
async def test_an_owner_sees_as_many_records_as_the_handler_says_or_none_if_that_is_not_known(
    till: Till, operation: Operation, records: int | None
) -> None:
    call = till.call(operation, data=TWO_ORDERS, is_granted=True)
    call.records = records
    await till.pay(call)
    assert await till.uses() == [(call.request_id, "orders", None, records)]


@pytest.mark.parametrize("price", [0, PRICE])
async def test_the_answer_to_a_call_with_a_key_is_kept_also_if_it_is_free(
    till: Till, price: int
) -> None:
    call = till.call(price=price, data=b"{}")
    call.idempotency_key = KEY
    await till.pay(call)
    assert await kept_by(till) == KeptAnswer(call.request_id, KEY.fingerprint, b"sealed {}")


@pytest.mark.parametrize("counts_calls", [False, True])
def test_the_owner_sees_a_repetition_which_costs_nothing(
    on_till: OnTill, counts_calls: bool
) -> None:
    async def test(till: Till) -> None:
        call = till.call(is_granted=True, limit=1)
        assert await outcomes(till.settle.replay(call, "earlier", TWO_ORDERS)) == [None]
        assert await till.uses() == [(call.request_id, "orders", "earlier", 2)]
        assert await till.left() == CREDITS

    on_till(test, counts_calls=counts_calls)


@pytest.mark.parametrize(
    ("result", "charged"),
    [
        (ActResult(b"new", is_paid=True), PRICE),
        (ActResult(b"known", is_paid=False, replay_of="earlier"), 0),
        (ActResult(b"refused", is_paid=False), 0),
    ],
    ids=["paid", "repeated", "refused"],
)
async def test_an_act_that_ends_at_once_gives_the_answer(
    till: Till, result: ActResult, charged: int
) -> None:
    call = till.call(act=act_with(result))
    charge = till.settle(call)
    assert charge is not None
    assert not call.is_settled
    await charge
    assert charge.resume() is None
    assert call.is_settled
    assert (call.data, call.replay_of) == (result.data, result.replay_of)
    assert call.charged == charged == CREDITS - await till.left()


@pytest.mark.parametrize("has_key", [False, True])
async def test_a_call_that_waits_for_a_carrier_is_paid_and_recorded_once(
    till: Till, has_key: bool
) -> None:
    call = till.call(is_granted=True)
    call.idempotency_key = KEY if has_key else None
    call.act = errand(call)
    await till.pay(call)
    assert (call.data, call.charged, call.is_settled) == (TWO_ORDERS, PRICE, True)
    assert await till.charged() == [(call.request_id, PRICE)]
    # What is held is for one waybill.
    assert await till.uses() == [(call.request_id, "orders", None, 1)]
    assert (await kept_by(till) is not None) == has_key


async def test_a_call_that_waits_for_another_is_recorded_in_the_end(till: Till) -> None:
    call = till.call(is_granted=True, act=wait_for_another())
    await till.pay(call)
    assert (call.data, call.charged) == (TWO_ORDERS, PRICE)
    assert await till.uses() == [(call.request_id, "orders", None, 2)]


async def take_key(till: Till) -> None:
    """Another request gets the key, as it can after a day."""

    async def work(transaction: Transaction) -> None:
        account_id, at_ms = till.caller.account_id, int(till.call().at_s * 1000)
        await free_key(transaction, account_id, KEY.key, f"{account_id}.1")
        other = Charge(account_id, "credits", 0, "orders", "other", "tok_x", at_ms)
        key = replace(KEY, fingerprint=b"\1other")
        assert await keep(transaction, other, key, ActResult(b"{}", is_paid=True))

    await till.database.write(work)


@pytest.mark.parametrize("is_held", [True, False])
async def test_what_was_held_is_paid_whatever_happened_to_the_key_and_a_call_that_waited_is_not(
    till: Till, is_held: bool
) -> None:
    async def meanwhile() -> None:
        await take_key(till)

    call = till.call()
    call.idempotency_key = KEY
    call.act = errand(call, meanwhile) if is_held else wait_for_another(meanwhile)
    if is_held:
        await till.pay(call)
    else:
        with pytest.raises(AlreadyAnswered):
            await till.pay(call)
    assert await till.charged() == ([(call.request_id, PRICE)] if is_held else [])
    kept = await kept_by(till)
    assert kept is not None
    assert kept.request_id == "other"


@pytest.mark.parametrize("is_held", [True, False])
def test_a_store_that_fails_afterwards_leaves_a_call_in_doubt_only_if_its_price_is_held(
    on_till: OnTill, is_held: bool
) -> None:
    async def fail(_transaction: Transaction, _charge: Charge) -> ActResult:
        raise StoreUnavailableError("disk full")

    async def ask() -> Act:
        return fail

    async def test(till: Till) -> None:
        first = ActResult(b"", is_paid=False, then=ask, is_held=is_held)
        call = till.call(act=act_with(first))
        with pytest.raises(Refusal if is_held else StoreUnavailableError) as error:
            await till.pay(call)
        if isinstance(error.value, Refusal):
            assert error.value.reason is Reason.CARRIER_SILENT
            assert error.value.values == {"cost": PRICE}
        assert await till.charged() == []

    on_till(test)
