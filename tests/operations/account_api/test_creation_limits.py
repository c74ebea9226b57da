"""How much a caller may make in a day free of charge, exact also when several do so at once."""

import asyncio
import re
from collections.abc import Awaitable, Callable

import pytest

from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.members import new_member
from tests.support.stores import Store
from tollway.contract.reasons import Reason, Refusal
from tollway.identity.people import Role
from tollway.identity.sign_in_links import invite
from tollway.ledger import LedgerError
from tollway.ledger.agent_sessions import Reservation, reserve
from tollway.ledger.creation_limits import Counted
from tollway.ledger.tokens import issue_token, replace_token, revoke_token
from tollway.store.database import Database
from tollway.store.open import open_sealer
from tollway.webhooks.endpoints import add_endpoint, end_endpoint, list_endpoints, rotate_secret
from tollway.webhooks.polled_events import set_alert

DAY_S = 86_400
TODAY_S = 20_000 * DAY_S
_DAILY_EN = r"This account has reached its daily limit of \d+ [a-z ]+: try again tomorrow\."
_DAILY_ZH = r"该账户\w+已达每日上限（\d+）：请明天再试。"
Make = Callable[[int], Awaitable[object]]


@pytest.fixture
def account(store: Store) -> str:
    return new_caller(store).account_id


def _fill(store: Store, account_id: str, counted: Counted, left: int) -> None:
    """As if all but so many had been made today."""
    number = counted.value.most - left
    store.run(
        "INSERT INTO account_day (account_id, counted, day_start_s, number) "
        f"VALUES ('{account_id}', '{counted.name.lower()}', {TODAY_S}, {number})"
    )


async def _at_once(make: Make, times: int) -> int:
    """How many were made; the others were refused, and said what to do."""
    results = await asyncio.gather(*(make(TODAY_S) for _ in range(times)), return_exceptions=True)
    for each in results:
        if isinstance(each, BaseException):
            assert isinstance(each, Refusal) and each.reason is Reason.ACCOUNT_LIMIT_REACHED, each
            assert re.fullmatch(_DAILY_EN, each.message("en")), each.message("en")
            assert re.fullmatch(_DAILY_ZH, each.message("zh")), each.message("zh")
    return sum(not isinstance(each, BaseException) for each in results)


def _tokens(database: Database, account: str) -> Make:
    async def make(day_start_s: int) -> None:
        made = await issue_token(database, RUNTIME, account, day_start_s=day_start_s)
        await revoke_token(database, RUNTIME, made.token.id)

    return make


def _rotations(database: Database, account: str) -> Make:
    async def make(day_start_s: int) -> None:
        # Each has a token of its own: one token is replaced once at a time.
        old = (await issue_token(database, RUNTIME, account)).token
        await replace_token(database, RUNTIME, old, 60, day_start_s=day_start_s)

    return make


def _alerts(database: Database, account: str) -> Make:
    return lambda day_start_s: set_alert(database, account, "credits", 5, day_start_s, RUNTIME)


def _invitations(database: Database, account: str) -> Make:
    return lambda day_start_s: invite(
        database,
        RUNTIME,
        role=Role.READER,
        name="Mei",
        login=RUNTIME.new_id("mei"),
        account_wanted=account,
        day_start_s=day_start_s,
    )


def _agent_sessions(database: Database, account: str) -> Make:
    """Sessions whose budget is too small for any call: they cost nothing, and are begun."""

    async def make(day_start_s: int) -> None:
        wanted = Reservation(account, RUNTIME.new_id("session"), price=1, budget=0)
        assert not await reserve(database, wanted, RUNTIME.at_s(), day_start_s)

    return make


@pytest.mark.parametrize(
    ("counted", "maker"),
    [
        (Counted.TOKENS, _tokens),
        (Counted.ROTATIONS, _rotations),
        (Counted.ALERTS, _alerts),
        (Counted.INVITATIONS, _invitations),
        (Counted.AGENT_SESSIONS, _agent_sessions),
    ],
)
def test_of_those_that_are_made_at_once_no_more_pass_than_a_day_may_have(
    store: Store, account: str, counted: Counted, maker: Callable[[Database, str], Make]
) -> None:
    _fill(store, account, counted, left=2)

    async def work(database: Database) -> None:
        assert await _at_once(maker(database, account), 6) == 2
        # The next day, and a node whose clock begins it sooner: still one day for all.
        await maker(database, account)(TODAY_S + DAY_S)
        await maker(database, account)(TODAY_S)

    store.do(work)
    ((day_start_s, number),) = store.run(
        f"SELECT day_start_s, number FROM account_day WHERE account_id = '{account}'"
    )
    assert (int(day_start_s), int(number)) == (TODAY_S + DAY_S, 2)


def test_who_asks_for_logins_of_other_accounts_is_refused_before_long(
    store: Store, account: str
) -> None:
    """A login that is taken tells that another account has such a member: it counts as one that was
    invited."""
    taken = new_member(store, new_caller(store).account_id).person.login
    _fill(store, account, Counted.INVITATIONS, left=2)

    async def work(database: Database) -> None:
        async def ask() -> None:
            await invite(
                database,
                RUNTIME,
                role=Role.READER,
                name="Mei",
                login=taken,
                account_wanted=account,
                day_start_s=TODAY_S,
            )

        for _ in range(2):
            with pytest.raises(LedgerError, match="is taken"):
                await ask()
        with pytest.raises(Refusal) as refused:
            await ask()
        assert refused.value.reason is Reason.ACCOUNT_LIMIT_REACHED

    store.do(work)


def test_a_session_of_an_agent_that_was_not_used_for_a_week_is_forgotten(
    store: Store, account: str
) -> None:
    wanted = Reservation(account, "nightly", price=2, budget=3)

    async def work(database: Database) -> list[bool]:
        days = (0, 6, 14)
        return [
            await reserve(database, wanted, TODAY_S + day * DAY_S, TODAY_S + day * DAY_S)
            for day in days
        ]

    assert store.do(work) == [True, False, True]


def test_webhooks_and_their_secrets_are_bounded_for_a_day_and_at_a_time(
    store: Store, account: str
) -> None:
    sealer = open_sealer(store.url, store.key_file)
    _fill(store, account, Counted.WEBHOOKS, left=12)
    _fill(store, account, Counted.SECRETS, left=1)

    async def work(database: Database) -> None:
        async def make(day_start_s: int) -> None:
            await add_endpoint(database, sealer, RUNTIME, account, "https://a.example", day_start_s)

        made = await asyncio.gather(*(make(TODAY_S) for _ in range(12)), return_exceptions=True)
        full = [each for each in made if isinstance(each, Refusal)]
        assert {each.message("en") for each in full} == {
            "This account has reached its limit of 10 webhooks: end one first."
        }
        assert {each.message("zh") for each in full} == {
            "该账户的回调已达上限（10）：请先停用一个。"
        }
        assert len(full) == 2
        ends = [each.id for each in await list_endpoints(database, account)]
        assert await rotate_secret(database, sealer, RUNTIME, account, ends[0], TODAY_S)
        with pytest.raises(Refusal, match="ACCOUNT_LIMIT_REACHED"):
            await rotate_secret(database, sealer, RUNTIME, account, ends[0], TODAY_S)
        for each in ends:
            await end_endpoint(database, RUNTIME, account, each)
        # Those that were refused do not count.
        assert await _at_once(make, 4) == 2

    store.do(work)


def test_operators_and_other_accounts_are_not_counted(store: Store, account: str) -> None:
    _fill(store, account, Counted.TOKENS, left=0)
    other: Caller = new_caller(store)

    async def work(database: Database) -> None:
        assert await _at_once(_tokens(database, account), 1) == 0
        assert (await issue_token(database, RUNTIME, account)).text
        assert (await issue_token(database, RUNTIME, account, client_id="pages")).text
        assert await _at_once(_tokens(database, other.account_id), 1) == 1
        # A token that leaked can be replaced all the same.
        assert await _at_once(_rotations(database, account), 1) == 1

    store.do(work)
