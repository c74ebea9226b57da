"""Top-ups as operators make them: bounded, in the trail, and once for a form that is sent twice."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import asyncpg
import pytest

from tests.support.in_loop import InLoop
from tests.support.stores import Store
from tollway.ledger import LedgerError
from tollway.ledger.accounts import close_account, open_account
from tollway.ledger.entries import Balance, list_balances, newest_entries, top_up
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import newest_acts, note_act
from tollway.store.cache_versions import Versions
from tollway.store.database import Database

OPERATOR = Runtime(now_s=lambda: 1_767_225_600, by="operator li")
OpenedAccount = tuple[Database, str]


@pytest.fixture
def its_account(store: Store, new_name: Callable[[], str]) -> InLoop[OpenedAccount]:
    """An account of the test's own, which has nothing."""

    async def work(test: Callable[[OpenedAccount], Awaitable[None]], database: Database) -> None:
        await test((database, (await open_account(database, OPERATOR, new_name())).id))

    return InLoop(lambda test: store.do(partial(work, test)))


async def trail(database: Database, account: str) -> Sequence[tuple[str, object, object]]:
    """The acts on an account, without the one that opened it."""
    acts = await newest_acts(database, 100, of=f"account {account}")
    return [(each.act, read(each.before), read(each.after)) for each in reversed(acts)][1:]


def read(text: str | None) -> object:
    return None if text is None else json.loads(text)


async def test_the_largest_amount_can_be_added_and_taken_back(its_account: OpenedAccount) -> None:
    (database, account), most = its_account, 1_000_000_000_000_000
    assert (await top_up(database, OPERATOR, account, "credits", most)).balance_after == most
    for amount in (most + 1, -most - 1):
        with pytest.raises(LedgerError, match="send 1,000,000,000,000,000 at most"):
            await top_up(database, OPERATOR, account, "credits", amount)
    with pytest.raises(LedgerError, match="a whole number, and not 0"):
        await top_up(database, OPERATOR, account, "credits", 0)
    assert (await top_up(database, OPERATOR, account, "credits", -most)).balance_after == 0


async def test_a_balance_stays_far_from_where_numbers_are_not_exact(
    its_account: OpenedAccount, store: Store
) -> None:
    """On SQLite it would become a number with a point, on PostgreSQL an error."""
    database, account = its_account
    await top_up(database, OPERATOR, account, "credits", 1)
    raised = f"UPDATE balance SET amount = {10**18 - 1} WHERE account_id = '{account}'"
    await asyncio.to_thread(store.run, raised)
    assert (await top_up(database, OPERATOR, account, "credits", 1)).balance_after == 10**18
    with pytest.raises(LedgerError, match="can have 1,000,000,000,000,000,000 credits at most"):
        await top_up(database, OPERATOR, account, "credits", 1)
    assert (await list_balances(database, account))[0].amount == 10**18
    # One that is above it, as after a hold was released, can be taken back.
    raised = f"UPDATE balance SET amount = {10**18 + 2} WHERE account_id = '{account}'"
    await asyncio.to_thread(store.run, raised)
    taken = await top_up(database, OPERATOR, account, "credits", -1)
    assert taken.balance_after == 10**18 + 1


async def test_a_note_has_200_characters_at_most_and_no_spaces_around_it(
    its_account: OpenedAccount,
) -> None:
    database, account = its_account
    longest = "注" * 200
    assert (await top_up(database, OPERATOR, account, "credits", 1, longest)).note == longest
    assert (await top_up(database, OPERATOR, account, "credits", 1, " a b\n")).note == "a b"
    assert (await top_up(database, OPERATOR, account, "credits", 1, " ")).note is None
    with pytest.raises(LedgerError, match="A note has 200 characters at most"):
        await top_up(database, OPERATOR, account, "credits", 1, longest + "注")
    assert [each.amount for each in await list_balances(database, account)] == [3]


@pytest.mark.postgresql
async def test_an_account_that_is_closed_while_a_top_up_waits_gets_nothing(
    its_account: OpenedAccount, store: Store
) -> None:
    """Nothing could take it back: the ledger of a closed account can only be read."""
    database, account = its_account
    await top_up(database, OPERATOR, account, "credits", 1)
    connection = await asyncpg.connect(store.url)
    held = f"BEGIN; SELECT FROM balance WHERE account_id = '{account}' FOR UPDATE"
    await connection.execute(held)
    waiting = asyncio.create_task(top_up(database, OPERATOR, account, "credits", 5))
    async with asyncio.timeout(10):
        while not await connection.fetch("SELECT FROM pg_locks WHERE NOT granted"):
            pass
    await close_account(database, OPERATOR, account)
    await connection.close()
    with pytest.raises(LedgerError, match="is closed: its ledger can only be read"):
        await waiting
    assert [each.amount for each in await list_balances(database, account)] == [1]


async def test_one_is_the_smallest_top_up_and_the_smallest_correction(
    its_account: OpenedAccount,
) -> None:
    database, account = its_account
    assert (await top_up(database, OPERATOR, account, "credits", 1)).kind == "top_up"
    assert (await top_up(database, OPERATOR, account, "credits", -1)).kind == "correction"
    # A correction is no charge.
    balance = Balance("credits", amount=0, held=0, posted=0, entries=2)
    assert await list_balances(database, account) == [balance]
    with pytest.raises(LedgerError, match="has fewer credits than 1"):
        await top_up(database, OPERATOR, account, "credits", -1)


async def test_the_trail_has_the_balance_before_and_after(its_account: OpenedAccount) -> None:
    database, account = its_account
    await top_up(database, OPERATOR, account, "credits", 5, "invoice 7")
    await top_up(database, OPERATOR, account, "calls:orders", 8)
    await top_up(database, OPERATOR, account, "credits", -2, once="a1")
    with pytest.raises(LedgerError):
        await top_up(database, OPERATOR, account, "credits", -4)
    assert await trail(database, account) == [
        (
            "credit add",
            {"unit": "credits", "amount": 0},
            {"unit": "credits", "amount": 5, "note": "invoice 7"},
        ),
        (
            "credit add",
            {"unit": "calls:orders", "amount": 0},
            {"unit": "calls:orders", "amount": 8, "note": None},
        ),
        (
            "credit add",
            {"unit": "credits", "amount": 5},
            {"unit": "credits", "amount": 3, "note": None, "once": "a1"},
        ),
    ]


async def test_a_form_that_is_sent_twice_is_entered_once_whatever_was_done_between(
    its_account: OpenedAccount,
) -> None:
    database, account = its_account
    await top_up(database, OPERATOR, account, "credits", 5, once="a1")
    await top_up(database, OPERATOR, account, "credits", 7, once="b2")
    await top_up(database, OPERATOR, account, "credits", 9)
    # Members can do as much within minutes.
    for _ in range(25):
        await note_act(database, OPERATOR, "webhook rotate", f"account {account}")
    before = await list_balances(database, account), await trail(database, account)
    for once in ("a1", "b2"):
        with pytest.raises(LedgerError, match="entered already"):
            await top_up(database, OPERATOR, account, "credits", 5, once=once)
    assert (await list_balances(database, account), await trail(database, account)) == before
    entries = await newest_entries(database, account, "credits", 100)
    assert [(each.number, each.amount) for each in entries] == [(3, 9), (2, 7), (1, 5)]


async def test_forms_of_two_accounts_may_have_the_same_name(
    database: Database, new_name: Callable[[], str]
) -> None:
    for _ in range(2):
        account = (await open_account(database, OPERATOR, new_name())).id
        added = await top_up(database, OPERATOR, account, "credits", 5, once="c3")
        assert added.balance_after == 5


async def test_a_running_gateway_notices_a_top_up(its_account: OpenedAccount) -> None:
    database, account = its_account
    versions = Versions(database)
    await versions.refresh()
    before = versions.directory
    await top_up(database, OPERATOR, account, "credits", 5)
    # A server tells of a commit a moment later.
    async with asyncio.timeout(30):
        while versions.is_fresh():  # noqa: ASYNC110 - it can only be polled
            await asyncio.sleep(0.01)
    await versions.refresh()
    assert versions.directory != before
