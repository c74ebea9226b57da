"""Top-ups and corrections: whole amounts, entries that explain the balance, never below zero."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.stores import Store
from tollway.ledger import LedgerError
from tollway.ledger.accounts import close_account, open_account
from tollway.ledger.charge_transaction import post_charges
from tollway.ledger.charges import Charge
from tollway.ledger.entries import (
    AMOUNT_MAX,
    Balance,
    Entry,
    amount_left,
    entries_of_request,
    list_balances,
    newest_entries,
    top_up,
)
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database

AT_S = 1_767_225_600.25
RUNTIME = Runtime(now_s=lambda: AT_S)


@settings(max_examples=40)
@given(amounts=st.lists(st.integers(-50, 50), max_size=12))
def test_every_change_is_explained_and_none_goes_below_zero(
    store: Store, new_name: Callable[[], str], amounts: list[int]
) -> None:
    async def work(database: Database) -> None:
        account = (await open_account(database, RUNTIME, new_name())).id
        left, expected = 0, []
        for amount in amounts:
            if amount == 0 or left + amount < 0:
                with pytest.raises(LedgerError):
                    await top_up(database, RUNTIME, account, "credits", amount)
                continue
            left += amount
            kind = "top_up" if amount > 0 else "correction"
            expected.append((len(expected) + 1, kind, amount, left))
            added = await top_up(database, RUNTIME, account, "credits", amount)
            assert (added.number, added.kind, added.amount, added.balance_after) == expected[-1]
        assert await amount_left(database, account, "credits") == left
        entries = await newest_entries(database, account, "credits", 100)
        found = [(e.number, e.kind, e.amount, e.balance_after) for e in entries]
        assert found == expected[::-1]
        balances = await list_balances(database, account)
        assert [(b.unit, b.amount, b.entries) for b in balances] == (
            [("credits", left, len(expected))] if expected else []
        )

    store.do(work)


@pytest.mark.parametrize("amount", [0, AMOUNT_MAX + 1, -AMOUNT_MAX - 1, 2**63])
async def test_an_amount_out_of_bounds_is_refused_in_words(
    database: Database, new_name: Callable[[], str], amount: int
) -> None:
    account = (await open_account(database, RUNTIME, new_name())).id
    with pytest.raises(LedgerError, match=r"and not 0|1,000,000,000,000,000 at most"):
        await top_up(database, RUNTIME, account, "credits", amount)
    assert await list_balances(database, account) == []


async def test_what_the_operator_noted_and_when_is_kept(
    database: Database, new_name: Callable[[], str]
) -> None:
    account = (await open_account(database, RUNTIME, new_name())).id
    await top_up(database, RUNTIME, account, "credits", 5, "发票 7")
    (entry,) = await newest_entries(database, account, "credits", 10)
    assert (entry.note, entry.at_ms) == ("发票 7", 1_767_225_600_250)
    assert (entry.operation, entry.request_id, entry.token_id) == (None, None, None)


async def test_a_closed_account_takes_no_more_entries(
    database: Database, new_name: Callable[[], str]
) -> None:
    account = (await open_account(database, RUNTIME, new_name())).id
    await top_up(database, RUNTIME, account, "credits", 5)
    await close_account(database, RUNTIME, account)
    with pytest.raises(LedgerError, match="closed"):
        await top_up(database, RUNTIME, account, "credits", 5)
    assert await amount_left(database, account, "credits") == 5


async def test_units_are_balances_of_their_own(
    database: Database, new_name: Callable[[], str]
) -> None:
    account = (await open_account(database, RUNTIME, new_name())).id
    await top_up(database, RUNTIME, account, "credits", 5)
    with pytest.raises(LedgerError, match="fewer calls:orders than 1"):
        await top_up(database, RUNTIME, account, "calls:orders", -1)
    await top_up(database, RUNTIME, account, "calls:orders", 7)
    balances = [(b.unit, b.amount) for b in await list_balances(database, account)]
    assert balances == [("calls:orders", 7), ("credits", 5)]
    assert await amount_left(database, account, "calls:orders") == 7
    assert await amount_left(database, account, "calls:waybills") == 0
    (entry,) = await newest_entries(database, account, "credits", 10)
    assert (entry.number, entry.amount) == (1, 5)


async def test_entries_are_paged_from_the_newest_back_and_found_by_request(
    database: Database, new_name: Callable[[], str]
) -> None:
    name = new_name()
    account = (await open_account(database, RUNTIME, name)).id
    await top_up(database, RUNTIME, account, "credits", 100)
    charges = [
        Charge(account, "credits", 1, "orders", f"{name}.{number}", "tok_x", number)
        for number in range(9)
    ]
    await database.write(lambda tx: post_charges(tx, charges))
    first = await newest_entries(database, account, "credits", 4)
    second = await newest_entries(database, account, "credits", 4, first[-1].number)
    assert [e.number for e in (*first, *second)] == [10, 9, 8, 7, 6, 5, 4, 3]
    (entry,) = await entries_of_request(database, f"{name}.3")
    assert entry == Entry(
        account, "credits", 5, "charge", -1, 96, 3, "orders", f"{name}.3", "tok_x"
    )
    assert await entries_of_request(database, "nothing") == []
    balance = Balance("credits", amount=91, held=0, posted=9, entries=10)
    assert await list_balances(database, account) == [balance]
