"""What the ledger refuses, from every caller, and that it then has changed nothing."""

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.stores import Store
from tollway.consent.owners import Owner, add_owner
from tollway.identity.people import Role
from tollway.identity.sign_in_links import invite
from tollway.ledger import LedgerError
from tollway.ledger.accounts import open_account
from tollway.ledger.archiving import archive_entries
from tollway.ledger.clients import add_client, obtain_token, revoke_client
from tollway.ledger.permissions import Permission, add_permission, list_permissions
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_limits import NO_LIMITS, TokenLimits
from tollway.ledger.token_makers import hold_tokens
from tollway.ledger.tokens import (
    IssuedToken,
    issue_token,
    list_tokens,
    replace_token,
    revoke_token,
)
from tollway.ledger.trail import newest_acts, note_act
from tollway.store.database import Database, StoreError

RUNTIME = Runtime()


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\nb", "a\x00"])
def test_an_account_needs_a_name_that_can_be_shown(store: Store, name: str) -> None:
    with pytest.raises(LedgerError, match="1 to 100 printable characters"):
        store.do(lambda database: open_account(database, RUNTIME, name))


async def test_spaces_around_a_name_are_not_part_of_it(
    database: Database, new_name: Callable[[], str]
) -> None:
    name = new_name()
    assert (await open_account(database, RUNTIME, f" {name} ")).name == name
    with pytest.raises(LedgerError, match="There is already an account named"):
        await open_account(database, RUNTIME, f"{name}\u3000")
    shop = Owner("shop", f" 66{name} ", f" {name}", " C1 ", f"{name}@shop", 0)
    added = await add_owner(database, RUNTIME, shop, "a long password")
    assert (added.id, added.name, added.shop_code) == (f"66{name}", name, "C1")
    invited = await invite(
        database, RUNTIME, role=Role.OPERATOR, name=f"{name} ", login=f"{name}@us"
    )
    assert invited.person.name == name


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (Permission("orders", -1, None), "A price is a whole number, 0 or more"),
        (Permission("orders", None, 0), "A rate is a whole number of calls a second, at least 1"),
    ],
)
async def test_no_price_is_negative_and_no_rate_is_none(
    database: Database, new_name: Callable[[], str], given: Permission, why: str
) -> None:
    account = await open_account(database, RUNTIME, new_name())
    with pytest.raises(LedgerError, match=why):
        await add_permission(database, account.id, given)
    assert not await list_permissions(database, account.id)


@pytest.mark.parametrize("limits", [TokenLimits(credits_per_day=1), TokenLimits(calls_per_day=1)])
async def test_a_test_token_has_no_cap(
    database: Database, new_name: Callable[[], str], limits: TokenLimits
) -> None:
    account = await open_account(database, RUNTIME, new_name())
    with pytest.raises(LedgerError, match="A test token spends nothing"):
        await issue_token(database, RUNTIME, account.id, kind="test", limits=limits)
    assert await list_tokens(database, account.id) == []
    await issue_token(database, RUNTIME, account.id, limits=limits)


async def test_a_revoked_token_makes_and_becomes_no_other(
    database: Database, new_name: Callable[[], str]
) -> None:
    account = await open_account(database, RUNTIME, new_name())
    client = (await add_client(database, RUNTIME, account.id)).client
    issued = await obtain_token(database, RUNTIME, client, 60)
    assert issued is not None
    old = await revoke_token(database, RUNTIME, issued.token.id)
    with pytest.raises(LedgerError, match=f"Token {old.id} is revoked already"):
        check = partial(hold_tokens, [old.id])
        await issue_token(database, RUNTIME, account.id, check_maker=check)
    with pytest.raises(LedgerError, match=f"Token {old.id} is revoked already"):
        await replace_token(database, RUNTIME, old, 60, day_start_s=0)
    assert await list_tokens(database, account.id) == [old]


@pytest.mark.parametrize(
    ("lifetime_s", "overlaps_s"),
    # The last two expire within the overlap, so that it does not decide when they end.
    [(None, (0, 3600)), (3600, (86_400, 86_400)), (1, (60, 60))],
)
async def test_of_two_rotations_of_a_token_at_once_one_makes_a_new_token(
    database: Database,
    new_name: Callable[[], str],
    lifetime_s: int | None,
    overlaps_s: tuple[int, int],
) -> None:
    account = await open_account(database, RUNTIME, new_name())
    old = (await issue_token(database, RUNTIME, account.id, lifetime_s=lifetime_s)).token
    made = await asyncio.gather(
        *(replace_token(database, RUNTIME, old, each, day_start_s=0) for each in overlaps_s),
        return_exceptions=True,
    )
    ((refused,), (issued,)) = (
        [each for each in made if isinstance(each, kind)] for kind in (LedgerError, IssuedToken)
    )
    assert str(refused) == f"Token {old.id} was rotated meanwhile: no other was made."
    tokens = {each.id: each for each in await list_tokens(database, account.id)}
    assert tokens.keys() == {old.id, issued.token.id}


async def test_a_client_that_is_revoked_while_it_asks_gets_no_token(
    database: Database, new_name: Callable[[], str]
) -> None:
    account = await open_account(database, RUNTIME, new_name())
    client = (await add_client(database, RUNTIME, account.id)).client
    await revoke_client(database, RUNTIME, client.id)
    # It was recognised before that.
    assert await obtain_token(database, RUNTIME, client, 60) is None
    assert await list_tokens(database, account.id) == []


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (NO_LIMITS, ""),
        (TokenLimits(["orders", "waybills"]), "orders, waybills"),
        (TokenLimits(networks=["::1/128"]), "from ::1/128"),
        (TokenLimits(["orders"], None, 5, 7), "orders; 5 credits a day; 7 calls a day"),
    ],
)
def test_the_limits_of_a_token_in_words(limits: TokenLimits, words: str) -> None:
    assert limits.in_words() == words


async def test_an_act_that_no_operator_does_is_not_recorded(database: Database) -> None:
    for by in ("", "owner"):
        await note_act(database, Runtime(by=by), "noted", f"test {by}")
    acts = [each.subject for each in await newest_acts(database, 9) if each.act == "noted"]
    assert acts == ["test owner"]


@pytest.mark.sqlite
def test_entries_that_another_process_dropped_meanwhile_are_not_archived_twice() -> None:
    executed: list[object] = []

    async def fetch_all(_query: object, **_: object) -> list[Any]:
        return [(number, "charge", -1, 9, 0, "orders", False) for number in (1, 2)]

    async def execute(query: object, **_: object) -> int:
        executed.append(query)
        return 1

    transaction = cast(Any, SimpleNamespace(fetch_all=fetch_all, execute=execute))
    with pytest.raises(StoreError, match="dropped entries at the same moment"):
        asyncio.run(
            archive_entries(transaction, 9, account_id="acc_x", unit="credits", before_ms=1)
        )
    # Nothing was added to the sums.
    assert len(executed) == 1


@pytest.mark.sqlite
def test_ids_can_be_held_still() -> None:
    assert Runtime(pick=lambda alphabet: alphabet[-1]).new_id("acc_") == "acc_" + "z" * 12
