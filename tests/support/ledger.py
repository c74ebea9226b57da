"""Accounts for tests: what an operator would do, and what is in the ledger afterwards."""

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from tests.support.stores import Store
from tollway.contract.operation import Operation, Unit
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import Entry, list_balances, newest_entries, top_up
from tollway.ledger.permissions import Permission, add_permission
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_limits import NO_LIMITS, TokenLimits
from tollway.ledger.tokens import issue_token
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.store.database import Database

CALLS = PRODUCT_ANALYSIS.balance_unit
CREDITS = "credits"
RUNTIME = Runtime()
_numbers = count(1)


class Caller(NamedTuple):
    """An account and its token."""

    account_id: str
    token: str
    token_id: str


def new_caller(
    store: Store,
    *,
    operations: Sequence[Operation] = (PRODUCT_ANALYSIS,),
    calls: int = 100,
    credits_: int = 0,
    granted: bool = True,
    price: int | None = None,
    rate_limit: int | None = None,
    kind: str = "live",
    lifetime_s: int | None = None,
    limits: TokenLimits = NO_LIMITS,
    name: str = "",
) -> Caller:
    """A new account that can call these operations, with calls of each that takes calls."""

    async def work(database: Database) -> Caller:
        called = name or f"caller {next(_numbers)}"
        account = await open_account(database, RUNTIME, called)
        for operation in operations if granted else ():
            await add_permission(
                database, account.id, Permission(operation.name, price, rate_limit)
            )
        amounts = {each.balance_unit: calls for each in operations if each.unit is Unit.CALLS}
        for unit, amount in {**amounts, CREDITS: credits_}.items():
            if amount:
                await top_up(database, RUNTIME, account.id, unit, amount)
        issued = await issue_token(
            database, RUNTIME, account.id, kind=kind, lifetime_s=lifetime_s, limits=limits
        )
        return Caller(account.id, issued.text, issued.token.id)

    return store.do(work)


def calls_left(store: Store, caller: Caller) -> int:
    return amount_left(store, caller, CALLS)


def credits_left(store: Store, caller: Caller) -> int:
    return amount_left(store, caller, CREDITS)


def amount_left(store: Store, caller: Caller, unit: str) -> int:
    """The balance; checked against the sum of its entries, which must always be the same."""

    async def work(database: Database) -> int:
        balances = {each.unit: each for each in await list_balances(database, caller.account_id)}
        entries = await newest_entries(database, caller.account_id, unit, 1_000_000)
        left = balances[unit].amount if unit in balances else 0
        assert sum(entry.amount for entry in entries) == left
        return left

    return store.do(work)


def newest_entry(store: Store, caller: Caller, unit: str) -> Entry:
    """The last entry of a balance."""
    return store.do(lambda database: newest_entries(database, caller.account_id, unit, 1))[0]
