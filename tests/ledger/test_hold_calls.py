"""Holds and their calls: entries, grants, keys and caps, whichever of them ends first."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import bindparam, select

from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.charges import ActResult, Charge, GrantKey, IdempotencyKey, ShortageError
from tollway.ledger.entries import Balance, Entry, entries_of_request, list_balances, top_up
from tollway.ledger.holds import Hold, capture, release, reserve
from tollway.ledger.idempotency import find_kept, keep
from tollway.ledger.request_log import first_id
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_limits import DayCap, DayCapError, TokenLimits, check_cap, spend
from tollway.ledger.tokens import issue_token
from tollway.store.database import Database, Transaction
from tollway.store.query import Query
from tollway.store.schema.consent import consent_use

RUNTIME = Runtime()
GRANT = GrantKey("shop", "shop_1", "con_1")
USES = Query(select(consent_use).where(consent_use.c.request_id == bindparam("wanted")))
End = Callable[[Transaction, str, str, int], Awaitable[Hold]]
ENDS = pytest.mark.parametrize("how", [capture, release])


async def new_account(database: Database, name: str, credit: int = 10) -> str:
    account = await open_account(database, RUNTIME, name)
    await top_up(database, RUNTIME, account.id, "credits", credit)
    return account.id


async def end(database: Database, how: End, account: str, hold_id: str, at_ms: int = 9) -> Hold:
    return await database.write(lambda tx: how(tx, account, hold_id, at_ms))


async def hold(database: Database, charge: Charge, hold_id: str) -> None:
    await database.write(lambda tx: reserve(tx, charge, hold_id, 1000))


async def test_a_capture_and_a_release_say_what_they_ended_and_name_its_call(
    database: Database, new_name: Callable[[], str]
) -> None:
    name = new_name()
    account = await new_account(database, name)
    call, other = (account, "credits", 4, "waybills", name, "tok_x"), f"{name}, other"
    await hold(database, Charge(*call, 5), "1")
    await hold(database, Charge(account, "credits", 3, "orders", other, "tok_y", 6), "2")
    captured = await end(database, capture, account, "1", 8)
    released = await end(database, release, account, "2", 9)
    assert captured == Hold(account, "1", *call[1:], 5, 1000, "captured", 8)
    assert released == Hold(
        account, "2", "credits", 3, "orders", other, "tok_y", 6, 1000, "released", 9
    )
    of_call = ("waybills", name, "tok_x", "hold 1")
    of_other = ("orders", other, "tok_y", "hold 2")
    assert sorted(await entries_of_request(database, name), key=lambda e: e.number) == [
        Entry(account, "credits", 2, "hold", -4, 6, 5, *of_call),
        Entry(account, "credits", 4, "release", 4, 7, 8, *of_call),
        Entry(account, "credits", 5, "charge", -4, 3, 8, *of_call),
    ]
    assert sorted(await entries_of_request(database, other), key=lambda e: e.number) == [
        Entry(account, "credits", 3, "hold", -3, 3, 6, *of_other),
        Entry(account, "credits", 6, "release", 3, 6, 9, *of_other),
    ]


async def test_holds_of_other_accounts_and_units_stay_as_they_are(
    database: Database, new_name: Callable[[], str]
) -> None:
    one, other = [await new_account(database, new_name()) for _ in range(2)]
    await top_up(database, RUNTIME, one, "calls:waybills", 10)
    for account, unit, hold_id in (
        (one, "credits", "1"),
        (one, "calls:waybills", "2"),
        (other, "credits", "1"),
    ):
        request_id = f"{account}.{hold_id}"
        call = Charge(account, unit, 4, "waybills", request_id, "tok_x", 0)
        await hold(database, call, hold_id)
    await end(database, capture, one, "1")
    assert await list_balances(database, one) == [
        Balance("calls:waybills", amount=6, held=4, posted=0, entries=2),
        Balance("credits", amount=6, held=0, posted=4, entries=4),
    ]
    await end(database, release, one, "2")
    assert await list_balances(database, one) == [
        Balance("calls:waybills", amount=10, held=0, posted=0, entries=3),
        Balance("credits", amount=6, held=0, posted=4, entries=4),
    ]
    balance = Balance("credits", amount=6, held=4, posted=0, entries=2)
    assert await list_balances(database, other) == [balance]


@pytest.mark.parametrize(("unit", "left"), [("credits", 10), ("calls:waybills", 0)])
async def test_a_hold_that_is_not_covered_says_what_is_left(
    database: Database, new_name: Callable[[], str], unit: str, left: int
) -> None:
    account = await new_account(database, new_name())
    with pytest.raises(ShortageError) as refused:
        await hold(database, Charge(account, unit, 11, "waybills", account, "tok_x", 0), "1")
    assert refused.value.left == left


@pytest.mark.parametrize("amount", [4, 0])
@pytest.mark.parametrize("grant", [GRANT, None])
@ENDS
async def test_the_owner_of_a_grant_sees_what_was_captured_and_not_what_was_released(
    database: Database, new_name: Callable[[], str], how: End, grant: GrantKey | None, amount: int
) -> None:
    account = await new_account(database, new_name())
    call = (account, "credits", amount, "waybills", account, "tok_x", 5)
    await hold(database, Charge(*call, grant=grant), "1")
    await end(database, how, account, "1", 9)
    uses = [tuple(row) for row in await database.fetch_all(USES, wanted=account)]
    # One read of one waybill, when it was captured.
    read = ("shop", "shop_1", "con_1", account, 9, "waybills", None, 1)
    assert uses == ([read] if grant is not None and how is capture else [])


@ENDS
async def test_a_release_frees_the_key_that_was_reserved_with_the_hold(
    database: Database, new_name: Callable[[], str], how: End
) -> None:
    async def begin(transaction: Transaction, account: str, key: str) -> None:
        """Holds the price and reserves the key, as a call that waits for a carrier does."""
        reserved = IdempotencyKey(key, b"f", b"f".__eq__, lambda data: data, None)
        call = Charge(
            *(account, "credits", 4, "waybills", f"{account}.{key}", "tok_x", 5),
            idempotency_key=reserved,
        )
        await reserve(transaction, call, key, 1000)
        await keep(transaction, call, reserved, ActResult(b"", is_paid=False, is_held=True))

    account = await new_account(database, new_name())
    for key in ("k1", "k2"):
        await database.write(partial(begin, account=account, key=key))
    await end(database, how, account, "k1")
    is_kept = [await find_kept(database, account, key, 9) is not None for key in ("k1", "k2")]
    assert is_kept == [how is capture, True]


@ENDS
async def test_a_release_gives_the_day_of_its_token_back_what_was_counted(
    database: Database, new_name: Callable[[], str], how: End
) -> None:
    account = await new_account(database, new_name())
    limits = TokenLimits(credits_per_day=4)
    token = (await issue_token(database, RUNTIME, account, limits=limits)).token.id
    cap = DayCap(4, None, day_at_ms=3)

    async def begin(transaction: Transaction) -> None:
        await spend(transaction, token, cap, "credits", 4)
        call = Charge(account, "credits", 4, "waybills", account, token, 5, cap=cap)
        await reserve(transaction, call, "1", 1000)

    await database.write(begin)
    with pytest.raises(DayCapError):
        await check_cap(database, token, cap, "credits", 1)
    await end(database, how, account, "1")
    if how is capture:
        with pytest.raises(DayCapError):
            await check_cap(database, token, cap, "credits", 1)
    else:
        await check_cap(database, token, cap, "credits", 4)


async def test_a_release_gives_nothing_back_to_a_day_that_began_after_its_call_came_in(
    database: Database, new_name: Callable[[], str]
) -> None:
    """A call may wait across midnight, until it is charged."""
    midnight_ms = 20_000 * 86_400_000
    account = await new_account(database, new_name())
    limits = TokenLimits(credits_per_day=4)
    token = (await issue_token(database, RUNTIME, account, limits=limits)).token.id
    yesterday, today = (DayCap(4, None, midnight_ms - ago) for ago in (86_400_000, 0))
    came_in = f"{first_id(midnight_ms - 1)}{account}"

    async def begin(transaction: Transaction) -> None:
        await spend(transaction, token, yesterday, "credits", 4)
        call = Charge(account, "credits", 4, "waybills", came_in, token, midnight_ms + 1)
        await reserve(transaction, call, "1", 1000)

    await database.write(begin)
    await database.write(lambda tx: spend(tx, token, today, "credits", 4))
    await end(database, release, account, "1", midnight_ms + 2)
    with pytest.raises(DayCapError):
        await check_cap(database, token, today, "credits", 1)


@settings(max_examples=15)
@given(order=st.permutations(range(4)), is_captured=st.tuples(*[st.booleans()] * 4))
def test_holds_that_end_in_any_order_are_each_charged_or_given_back(
    store: Store, new_name: Callable[[], str], order: list[int], is_captured: tuple[bool, ...]
) -> None:
    async def work(database: Database) -> None:
        account = await new_account(database, new_name())
        for amount in range(4):
            call = (account, "credits", amount, "waybills", f"{account}.{amount}", "tok_x", 0)
            await hold(database, Charge(*call), str(amount))
        # That of nothing has no entry.
        left, held, posted, entries = 4, 6, 0, 4
        for amount in order:
            is_charged = is_captured[amount]
            await end(database, capture if is_charged else release, account, str(amount))
            held -= amount
            left, posted = (left, posted + amount) if is_charged else (left + amount, posted)
            entries += (2 if is_charged else 1) if amount else 0
            balance = Balance("credits", left, held, posted, entries)
            assert await list_balances(database, account) == [balance]

    store.do(work)
