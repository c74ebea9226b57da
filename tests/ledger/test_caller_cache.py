"""The cache of callers keeps what it read until something changed, and never longer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from tollway.ledger import caller_cache
from tollway.ledger.accounts import close_account, open_account, suspend_account
from tollway.ledger.caller_cache import CallerCache
from tollway.ledger.clients import add_client, revoke_client
from tollway.ledger.entries import top_up
from tollway.ledger.permissions import (
    Permission,
    add_permission,
    revoke_permission,
    set_closed,
    set_price,
)
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_format import token_hash
from tollway.ledger.tokens import IssuedToken, issue_token, replace_token, revoke_token
from tollway.store.cache_versions import Versions
from tollway.store.database import Database, Row
from tollway.store.query import Query

RUNTIME = Runtime()
NAME = "orders"


async def new_token(database: Database, name: str, **options: object) -> IssuedToken:
    account = await open_account(database, RUNTIME, name)
    await add_permission(database, account.id, Permission(NAME, 3, 20))
    return await issue_token(database, RUNTIME, account.id, **options)  # type: ignore[arg-type]


async def test_a_valid_token_leads_to_its_account_and_permissions(
    database: Database, new_name: Callable[[], str]
) -> None:
    callers = CallerCache(database, Versions(database))
    for kind in ("live", "test"):
        issued = await new_token(database, new_name(), kind=kind, lifetime_s=60)
        await callers.refresh()
        caller = await callers.caller(token_hash(issued.text))
        assert caller is not None
        assert caller.token_id == issued.token.id
        assert caller.account_id == issued.token.account_id
        assert caller.is_test == (kind == "test")
        assert caller.expires_at_s == issued.token.expires_at_s
        assert caller.permissions == {NAME: Permission(NAME, 3, 20)}


async def test_what_is_kept_is_not_read_again(
    database: Database, new_name: Callable[[], str]
) -> None:
    callers = CallerCache(database, Versions(database))
    hashed = token_hash((await new_token(database, new_name())).text)
    await callers.refresh()
    assert callers.known_caller(hashed) is None
    caller = await callers.caller(hashed)
    await callers.refresh()
    assert callers.known_caller(hashed) is caller
    assert await callers.caller(hashed) is caller


async def test_a_token_that_has_ended_is_kept_as_such_and_an_unknown_one_is_not(
    database: Database, new_name: Callable[[], str]
) -> None:
    callers = CallerCache(database, Versions(database))
    issued = await new_token(database, new_name())
    await revoke_token(database, RUNTIME, issued.token.id)
    await callers.refresh()
    for hashed, is_kept in ((token_hash(issued.text), True), (bytes(32), False)):
        assert not callers.is_ended(hashed)
        assert await callers.caller(hashed) is None
        assert callers.is_ended(hashed) == is_kept


@pytest.mark.parametrize("how", ["revoked", "closed", "regranted"])
async def test_a_change_is_seen_after_the_next_refresh(
    database: Database, new_name: Callable[[], str], how: str
) -> None:
    callers = CallerCache(database, Versions(database))
    issued = await new_token(database, new_name())
    hashed, account = token_hash(issued.text), issued.token.account_id
    await callers.refresh()
    assert await callers.caller(hashed)
    if how == "revoked":
        await revoke_token(database, RUNTIME, issued.token.id)
    elif how == "closed":
        await close_account(database, RUNTIME, account)
    else:
        await add_permission(database, account, Permission(NAME, 4, None))
    await callers.refresh()
    caller = await callers.caller(hashed)
    if how == "regranted":
        assert caller and caller.permissions[NAME] == Permission(NAME, 4, None)
    else:
        assert caller is None


async def _revoke_client(database: Database, issued: IssuedToken) -> None:
    added = await add_client(database, RUNTIME, issued.token.account_id)
    await revoke_client(database, RUNTIME, added.client.id)


ACTS: dict[str, Callable[[Database, IssuedToken], Awaitable[object]]] = {
    "revoke": lambda database, of: revoke_token(database, RUNTIME, of.token.id),
    "rotate": lambda database, of: replace_token(
        database, RUNTIME, of.token, overlap_s=60, day_start_s=0
    ),
    "close": lambda database, of: close_account(database, RUNTIME, of.token.account_id),
    "suspend": lambda database, of: suspend_account(database, RUNTIME, of.token.account_id),
    "permit": lambda database, of: add_permission(
        database, of.token.account_id, Permission(NAME, 4, None)
    ),
    "forbid": lambda database, of: revoke_permission(database, of.token.account_id, NAME),
    "top up": lambda database, of: top_up(database, RUNTIME, of.token.account_id, "credits", 5),
    "end a client": _revoke_client,
}


@pytest.mark.parametrize("act", ACTS)
async def test_a_change_of_one_account_leaves_what_is_known_of_the_others(
    database: Database, new_name: Callable[[], str], act: str
) -> None:
    callers = CallerCache(database, Versions(database))
    of_one, of_other = [await new_token(database, new_name()) for _ in range(2)]
    await callers.refresh()
    for each in (of_one, of_other):
        caller = await callers.caller(token_hash(each.text))
        assert caller is not None
        callers.remember_amount(caller.account_id, "credits", 5)
    await ACTS[act](database, of_one)
    await callers.refresh()
    assert callers.known_caller(token_hash(of_one.text)) is None
    assert callers.remembered_amount(of_one.token.account_id, "credits") == -1
    assert callers.known_caller(token_hash(of_other.text)) is not None
    assert callers.remembered_amount(of_other.token.account_id, "credits") == 5


async def test_a_change_for_all_leaves_nothing(
    database: Database, new_name: Callable[[], str]
) -> None:
    callers = CallerCache(database, Versions(database))
    hashed = token_hash((await new_token(database, new_name())).text)
    for nth in range(2):
        await callers.refresh()
        assert await callers.caller(hashed)
        await set_price(database, "promotion_material", nth)
        await callers.refresh()
        assert callers.known_caller(hashed) is None
        assert callers.operation_states["promotion_material"].price == nth


async def test_an_unknown_token_leads_nowhere_and_a_new_one_is_found(
    database: Database, new_name: Callable[[], str]
) -> None:
    callers = CallerCache(database, Versions(database))
    await callers.refresh()
    assert await callers.caller(b"\0" * 32) is None
    issued = await new_token(database, new_name())
    assert await callers.caller(token_hash(issued.text))


async def test_what_is_kept_is_bounded_and_still_right(
    database: Database, new_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller_cache, "_CALLERS_MAX", 2)
    callers = CallerCache(database, Versions(database))
    good = [await new_token(database, new_name()) for _ in range(3)]
    ended = [await new_token(database, new_name()) for _ in range(3)]
    for each in ended:
        await revoke_token(database, RUNTIME, each.token.id)
    await callers.refresh()
    for each in good:
        caller = await callers.caller(token_hash(each.text))
        assert caller is not None and caller.token_id == each.token.id
        callers.remember_amount(caller.account_id, "credits", 5)
    for each in ended:
        assert await callers.caller(token_hash(each.text)) is None
        assert callers.is_ended(token_hash(each.text))
    kept = (callers._callers, callers._ended, callers._amounts)
    assert max(map(len, kept)) <= 2


async def test_what_a_balance_held_is_only_remembered_until_something_changed(
    database: Database, new_name: Callable[[], str]
) -> None:
    callers = CallerCache(database, Versions(database))
    account = (await new_token(database, new_name())).token.account_id
    await callers.refresh()
    assert callers.remembered_amount(account, "credits") == -1
    assert await callers.amount_left(account, "credits") == 0
    assert callers.remembered_amount(account, "credits") == 0
    await top_up(database, RUNTIME, account, "credits", 9)
    await callers.refresh()
    assert callers.remembered_amount(account, "credits") == -1
    assert await callers.amount_left(account, "credits") == 9


@pytest.mark.postgresql
async def test_calls_of_one_moment_share_one_read_of_a_balance(
    database: Database, new_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    callers = CallerCache(database, Versions(database))
    account = (await open_account(database, RUNTIME, new_name())).id
    reads, fetch_one = [], database.fetch_one

    async def counted(query: Query, **values: object) -> Row | None:
        reads.append(values)
        return await fetch_one(query, **values)

    monkeypatch.setattr(database, "fetch_one", counted)
    found = await asyncio.gather(*(callers.amount_left(account, "credits") for _ in "12345"))
    assert (found, len(reads)) == ([0] * 5, 1)
    await top_up(database, RUNTIME, account, "credits", 3)
    assert await callers.amount_left(account, "credits") == 3


async def test_an_operation_that_is_closed_or_priced_is_seen(database: Database) -> None:
    callers = CallerCache(database, Versions(database))
    await set_price(database, "waybills", 12)
    await set_closed(database, "waybills", is_closed=True)
    await callers.refresh()
    state = callers.operation_states["waybills"]
    assert (state.is_closed, state.price) == (True, 12)
    await set_closed(database, "waybills", is_closed=False)
    await callers.refresh()
    state = callers.operation_states["waybills"]
    assert (state.is_closed, state.price) == (False, 12)


class LateDatabase:
    """A database whose next answer from one table is kept back."""

    def __init__(self, inner: Database, table: str) -> None:
        self._inner = inner
        self._table = table
        self._is_armed = False
        self.reads = 0
        self.has_come, self.let_go = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def keep_next_back(self) -> None:
        self._is_armed = True

    async def fetch_all(self, query: Query, **values: object) -> Sequence[Row]:
        rows = await self._inner.fetch_all(query, **values)
        if f"FROM {self._table}" in query.sqlite.text:
            self.reads += 1
            if self._is_armed:
                self._is_armed = False
                self.has_come.set()
                await self.let_go.wait()
        return rows

    async def fetch_one(self, query: Query, **values: object) -> Row | None:
        rows = await self.fetch_all(query, **values)
        return rows[0] if rows else None


@pytest.mark.parametrize("table", ["version", "operation_state"])
async def test_an_answer_that_was_overtaken_brings_nothing_back(
    database: Database, new_name: Callable[[], str], table: str
) -> None:
    late = LateDatabase(database, table)
    versions = Versions(late)
    callers = CallerCache(late, versions)
    issued = await new_token(database, new_name())
    hashed = token_hash(issued.text)
    await callers.refresh()
    assert await callers.caller(hashed)
    await set_closed(database, "waybills", is_closed=False)
    late.keep_next_back()
    slow = asyncio.create_task(callers.refresh())
    await late.has_come.wait()
    # A call that comes before the change is known must look it up too.
    assert (callers.known_caller(hashed) is None) == (table == "operation_state")
    await set_closed(database, "waybills", is_closed=True)
    await callers.refresh()
    seen = versions.directory
    late.let_go.set()
    await slow
    assert versions.directory == seen
    assert callers.operation_states["waybills"].is_closed
    caller = await callers.caller(hashed)
    assert caller and callers.known_caller(hashed) is caller
    await set_closed(database, "waybills", is_closed=False)


@pytest.mark.postgresql
@pytest.mark.parametrize("table", ["version", "operation_state", "token"])
async def test_calls_that_look_up_the_same_thing_share_the_reads(
    database: Database, new_name: Callable[[], str], table: str
) -> None:
    late = LateDatabase(database, table)
    callers = CallerCache(late, Versions(late))
    hashed = token_hash((await new_token(database, new_name())).text)

    async def call() -> object:
        await callers.refresh()
        return await callers.caller(hashed)

    late.keep_next_back()
    early = [asyncio.create_task(call()) for _ in range(5)]
    await late.has_come.wait()
    later = [asyncio.create_task(call()) for _ in range(5)]
    await asyncio.sleep(0)
    late.let_go.set()
    found = await asyncio.gather(*early, *later)
    assert found[0] is not None and all(each is found[0] for each in found)
    # The calls that came during a read share the next, if they still need one.
    assert late.reads <= 2
