"""What a call counts against: the cap of its token, and the limit of all nodes."""

from functools import partial

import pytest

from tests.pipeline.test_settle import KEY, TWO_ORDERS, act_with, kept_by, outcomes
from tests.support.in_loop import InLoop
from tests.support.till import CREDITS, PRICE, OnTill, Till
from tollway.ledger.charges import ActResult, Charge, OverLimitError
from tollway.ledger.token_limits import DayCapError, TokenLimits
from tollway.store.database import Transaction


@pytest.fixture
def till(on_till: OnTill) -> InLoop[Till]:
    return InLoop(partial(on_till, counts_calls=True))


async def never(_transaction: Transaction, _charge: Charge) -> ActResult:
    raise AssertionError("done though it was only to be counted")


@pytest.mark.parametrize("has_act", [False, True])
@pytest.mark.parametrize(
    ("limits", "price"),
    [
        (TokenLimits(calls_per_day=1), 0),
        (TokenLimits(credits_per_day=2 * PRICE - 1), PRICE),
    ],
    ids=["calls", "credits"],
)
def test_a_call_beyond_the_cap_of_its_token_is_not_charged(
    on_till: OnTill, limits: TokenLimits, price: int, has_act: bool
) -> None:
    async def test(till: Till) -> None:
        act = act_with(ActResult(b"{}", is_paid=True)) if has_act else None
        first, second = (till.call(price=price, data=b"{}", act=act) for _ in range(2))
        await till.pay(first)
        with pytest.raises(DayCapError):
            await till.pay(second)
        assert await till.left() == CREDITS - price

    on_till(test, limits=limits)


@pytest.mark.parametrize("price", [0, PRICE])
async def test_of_calls_beyond_the_limit_of_all_nodes_none_is_charged(
    till: Till, price: int
) -> None:
    calls = [till.call(price=price, data=b"{}", limit=1) for _ in range(2)]
    first, second = await outcomes(*map(till.settle, calls))
    assert first is None
    assert isinstance(second, OverLimitError)
    assert await till.left() == CREDITS - price


async def test_a_call_that_was_not_admitted_by_itself_counts_against_no_limit(till: Till) -> None:
    """Such as one of a batch, which was admitted as a whole."""
    item = till.call(data=b"{}")
    assert not till.settle.counts(item)
    assert till.settle.count(item) is None
    assert await outcomes(till.settle(item)) == [None]


async def test_a_refused_call_is_counted_and_nothing_else(till: Till) -> None:
    refused = till.call(act=never, is_granted=True, limit=1)
    refused.idempotency_key = KEY
    assert till.settle.counts(refused)
    next_one = till.call(data=b"{}", limit=1)
    first, second = await outcomes(till.settle.count(refused), till.settle(next_one))
    assert first is None
    assert isinstance(second, OverLimitError)
    assert (await till.left(), await till.uses(), await kept_by(till)) == (CREDITS, [], None)


async def test_a_call_that_was_settled_is_not_counted_again(till: Till) -> None:
    call = till.call(act=act_with(ActResult(b"{}", is_paid=True)), limit=1)
    await till.pay(call)
    assert not till.settle.counts(call)
    assert till.settle.count(call) is None


@pytest.mark.sqlite
def test_where_each_process_counts_for_itself_nothing_is_counted_here(on_till: OnTill) -> None:
    async def test(till: Till) -> None:
        call = till.call(limit=1)
        assert not till.settle.counts(call)
        assert till.settle.count(call) is None
        assert till.settle.replay(call, "earlier", b"{}") is None

    on_till(test)


@pytest.mark.parametrize("is_granted", [False, True])
async def test_a_repetition_counts_against_the_limit_of_all_nodes(
    till: Till, is_granted: bool
) -> None:
    repeated = till.call(is_granted=is_granted, limit=1)
    next_one = till.call(data=b"{}", limit=1)
    repetition = till.settle.replay(repeated, "earlier", b"{}")
    first, second = await outcomes(repetition, till.settle(next_one))
    assert first is None
    assert isinstance(second, OverLimitError)
    assert await till.left() == CREDITS


async def test_a_call_that_was_counted_and_then_found_its_answer_is_not_counted_again(
    till: Till,
) -> None:
    settled = till.call(is_granted=True, limit=1)
    settled.is_settled = True
    repetition = till.settle.replay(settled, "earlier", TWO_ORDERS)
    assert await outcomes(repetition, till.settle(till.call(data=b"{}", limit=1))) == [None] * 2
    assert len(await till.uses()) == 1
    without_grant = till.call(limit=1)
    without_grant.is_settled = True
    assert till.settle.replay(without_grant, "earlier", b"{}") is None
