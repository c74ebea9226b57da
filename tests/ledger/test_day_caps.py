"""What a capped token spends in a day: counted exactly, given back, and not twice by rotating."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from sqlalchemy import bindparam, select

from tests.support.in_loop import InLoop
from tests.support.postgresql import run_on
from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import AMOUNT_MAX
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_limits import (
    DayCap,
    DayCapError,
    TokenLimits,
    check_cap,
    counter_of,
    give_back,
    lock_days,
    spend,
)
from tollway.ledger.tokens import Token, issue_token, replace_token
from tollway.store.database import Database, Row, Transaction
from tollway.store.query import Query
from tollway.store.schema.ledger import token_day

RUNTIME = Runtime()
HOUR_MS = 3_600_000
TODAY_MS = 20_000 * 24 * HOUR_MS
# The caps that count are those of a call: this only makes a token with a count.
LIMITS = TokenLimits(calls_per_day=1)
COUNT = Query(select(token_day).where(token_day.c.token_id == bindparam("wanted")))
DELETE = Query(token_day.delete().where(token_day.c.token_id == bindparam("wanted")))


def cap(credits_max: int | None, calls_max: int | None, day_at_ms: int = TODAY_MS) -> DayCap:
    return DayCap(credits_max, calls_max, day_at_ms)


class Capped:
    """A token with a cap, and what it has spent."""

    def __init__(self, database: Database, token: Token) -> None:
        self.database, self.token, self.id = database, token, token.id

    async def refusal(self, of: DayCap, amount: int, unit: str = "credits") -> DayCapError | None:
        """Makes a call, or returns why it may not, as is also said before its work is done."""
        try:
            await check_cap(self.database, self.id, of, unit, amount)
        except DayCapError as early:
            with pytest.raises(DayCapError) as late:
                await self.spend(of, amount, unit)
            assert vars(late.value) == vars(early)
            return late.value
        await self.spend(of, amount, unit)
        return None

    async def spend(self, of: DayCap, amount: int, unit: str = "credits") -> None:
        await self.database.write(lambda tx: spend(tx, self.id, of, unit, amount))

    async def give_back(self, amount: int, at_ms: int, unit: str = "credits") -> None:
        await self.database.write(lambda tx: give_back(tx, self.id, unit, amount, at_ms))

    async def count(self) -> Row | None:
        """The day, and its credits and calls."""
        row = await self.database.fetch_one(COUNT, wanted=self.id)
        return row and tuple(row[1:])


Tokens = tuple[Capped, Capped]


@pytest.fixture
def tokens(store: Store, new_name: Callable[[], str]) -> InLoop[Tokens]:
    """Two new tokens of an account, of which the other has spent 5 credits."""

    async def work(test: Callable[[Tokens], Awaitable[None]], database: Database) -> None:
        account = await open_account(database, RUNTIME, new_name())
        one, other = [
            Capped(
                database, (await issue_token(database, RUNTIME, account.id, limits=LIMITS)).token
            )
            for _ in range(2)
        ]
        await other.spend(cap(5, 1), 5)
        await test((one, other))
        assert await other.count() == (TODAY_MS, 5, 1)

    return InLoop(lambda test: store.do(partial(work, test)))


def facts(error: DayCapError | None) -> tuple[str, int, int] | None:
    return error and (error.unit, error.left, error.most)


async def test_credits_are_counted_until_a_call_would_take_more_than_the_cap(
    tokens: Tokens,
) -> None:
    token, _ = tokens
    assert await token.count() == (0, 0, 0)
    of = cap(10, None)
    assert await token.refusal(of, 7) is None
    assert facts(await token.refusal(of, 4)) == ("credits", 3, 10)
    assert await token.count() == (TODAY_MS, 7, 1)
    assert await token.refusal(of, 3) is None
    assert facts(await token.refusal(of, 1)) == ("credits", 0, 10)
    # What costs nothing is within every cap of credits.
    assert await token.refusal(of, 0) is None
    assert await token.count() == (TODAY_MS, 10, 3)


async def test_calls_are_counted_until_there_are_as_many_as_the_cap(tokens: Tokens) -> None:
    token, _ = tokens
    of = cap(None, 2)
    for _nth in range(2):
        assert await token.refusal(of, 5) is None
    assert facts(await token.refusal(of, 0)) == ("calls", 0, 2)
    # One that is over its cap since the cap was lowered has less than nothing left.
    assert facts(await token.refusal(cap(None, 1), 0)) == ("calls", -1, 1)
    assert await token.count() == (TODAY_MS, 10, 2)


async def test_with_both_caps_a_call_must_be_within_each(tokens: Tokens) -> None:
    token, _ = tokens
    of = cap(10, 2)
    assert await token.refusal(of, 6) is None
    assert facts(await token.refusal(of, 6)) == ("credits", 4, 10)
    assert await token.refusal(of, 4) is None
    assert facts(await token.refusal(of, 1)) == ("calls", 0, 2)


@pytest.mark.parametrize("unit", ["credits", "calls"])
async def test_a_token_whose_cap_is_nothing_makes_no_such_call(tokens: Tokens, unit: str) -> None:
    token, _ = tokens
    of = cap(0, None) if unit == "credits" else cap(None, 0)
    assert facts(await token.refusal(of, 1)) == (unit, 0, 0)
    assert await token.count() == (0, 0, 0)


async def test_a_call_of_an_allowance_takes_no_credits_from_the_cap(tokens: Tokens) -> None:
    token, _ = tokens
    assert await token.refusal(cap(0, 1), 1, "calls:orders") is None
    assert await token.count() == (TODAY_MS, 0, 1)
    assert facts(await token.refusal(cap(0, 1), 1, "calls:orders")) == ("calls", 0, 1)
    await token.give_back(1, TODAY_MS, "calls:orders")
    assert await token.count() == (TODAY_MS, 0, 0)


async def test_without_a_cap_of_credits_a_call_may_cost_as_much_as_an_account_can_have(
    tokens: Tokens,
) -> None:
    token, _ = tokens
    for _nth in range(2):
        assert await token.refusal(cap(None, 2), AMOUNT_MAX) is None
    assert await token.count() == (TODAY_MS, 2 * AMOUNT_MAX, 2)


async def test_the_next_day_begins_with_the_whole_cap(tokens: Tokens) -> None:
    token, _ = tokens
    tomorrow_ms = TODAY_MS + 23 * HOUR_MS
    assert await token.refusal(cap(5, 1), 5) is None
    assert await token.refusal(cap(5, 1, tomorrow_ms), 5) is None
    assert await token.count() == (tomorrow_ms, 5, 1)
    assert facts(await token.refusal(cap(5, 2, tomorrow_ms), 1)) == ("credits", 0, 5)


@pytest.mark.parametrize("unit", ["credits", "calls"])
async def test_a_day_that_a_clock_ahead_began_is_the_day_of_all_nodes(
    tokens: Tokens, unit: str
) -> None:
    token, _ = tokens
    most = (5, None) if unit == "credits" else (None, 1)
    # The longest day has 25 hours.
    tomorrow_ms = TODAY_MS + 25 * HOUR_MS
    assert await token.refusal(cap(*most, tomorrow_ms), 5) is None
    refused = await token.refusal(cap(*most), 1)
    assert refused is not None and refused.unit == unit
    assert await token.refusal(cap(6, 2), 1) is None
    assert await token.count() == (tomorrow_ms, 6, 2)


async def test_a_day_that_a_wrong_clock_began_far_ahead_does_not_count(tokens: Tokens) -> None:
    token, _ = tokens
    assert await token.refusal(cap(5, 1, TODAY_MS + 25 * HOUR_MS + 1), 5) is None
    assert await token.refusal(cap(5, 1), 4) is None
    assert await token.count() == (TODAY_MS, 4, 1)


async def test_what_is_given_back_can_be_spent_once_more(tokens: Tokens) -> None:
    token, _ = tokens
    for amount in (5, 3):
        await token.spend(cap(8, 2), amount)
    await token.give_back(5, TODAY_MS)
    assert await token.count() == (TODAY_MS, 3, 1)
    await token.give_back(3, TODAY_MS + HOUR_MS)
    assert await token.count() == (TODAY_MS, 0, 0)
    assert await token.refusal(cap(8, 1), 8) is None


async def test_a_call_of_a_day_that_is_over_gives_nothing_back_to_the_next(tokens: Tokens) -> None:
    token, _ = tokens
    await token.spend(cap(5, 1), 5)
    await token.give_back(5, TODAY_MS - 1)
    assert await token.count() == (TODAY_MS, 5, 1)


async def test_no_more_is_given_back_than_was_counted(tokens: Tokens) -> None:
    token, _ = tokens
    await token.give_back(0, TODAY_MS)
    assert await token.count() == (0, 0, 0)
    await token.spend(cap(5, 1), 4)
    await token.give_back(5, TODAY_MS)
    assert await token.count() == (TODAY_MS, 4, 1)


async def test_a_token_and_those_that_replace_it_have_one_count(tokens: Tokens) -> None:
    token, _ = tokens
    database, newest = token.database, token
    for _nth in range(2):
        issued = await replace_token(database, RUNTIME, newest.token, 60, day_start_s=0)
        newest = Capped(database, issued.token)
        assert await counter_of(database, newest.id) == token.id
        assert await newest.count() is None
    of = cap(10, None)
    for each in (token, newest):
        assert await each.refusal(of, 4) is None
    assert facts(await token.refusal(of, 3)) == ("credits", 2, 10)
    assert facts(await newest.refusal(of, 3)) == ("credits", 2, 10)
    await newest.give_back(4, TODAY_MS)
    assert await token.count() == (TODAY_MS, 4, 1)


def test_a_token_that_is_not_known_is_counted_by_itself(store: Store) -> None:
    assert store.do(lambda database: counter_of(database, "tok_none")) == "tok_none"


async def test_a_call_of_a_capped_token_without_a_count_fails(tokens: Tokens) -> None:
    token, _ = tokens
    await token.database.write(lambda tx: tx.execute(DELETE, wanted=token.id))
    # It has spent nothing.
    await check_cap(token.database, token.id, cap(1, 1), "credits", 1)
    with pytest.raises(AssertionError, match=f"token {token.id} has a cap and no count"):
        await token.spend(cap(1, 1), 1)


@pytest.mark.postgresql
async def test_the_counts_of_tokens_are_locked_and_no_others(store: Store, tokens: Tokens) -> None:
    token, other = tokens
    replaced = await replace_token(token.database, RUNTIME, token.token, 60, day_start_s=0)
    free = (
        f"SELECT token_id FROM token_day WHERE token_id IN ('{token.id}', '{other.id}') "
        "FOR UPDATE SKIP LOCKED"
    )

    async def lock(transaction: Transaction) -> list[tuple[object, ...]]:
        await lock_days(transaction, [replaced.token.id, token.id])
        return await asyncio.to_thread(run_on, store.url, free)

    assert await token.database.write(lock) == [(other.id,)]
