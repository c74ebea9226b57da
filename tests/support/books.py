"""Accounts for tests: what an operator would do, and what is in the books afterwards."""

from itertools import count
from typing import NamedTuple

from tests.support.gateway import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import list_balances, newest_entries, top_up
from tollway.ledger.identity import World
from tollway.ledger.permissions import Permission, grant
from tollway.ledger.tokens import issue_token
from tollway.operations.product_analysis.descriptor import PRODUCT_ANALYSIS
from tollway.store.database import Database

CALLS = PRODUCT_ANALYSIS.balance_unit
WORLD = World()
_numbers = count(1)


class Caller(NamedTuple):
    """An account and its token."""

    account_id: str
    token: str
    token_id: str


def new_caller(
    store: Store,
    *,
    calls: int = 100,
    granted: bool = True,
    price: int | None = None,
    rate_limit: int | None = None,
    kind: str = "live",
    lifetime_s: int | None = None,
) -> Caller:
    """A new account that can call product analysis."""

    async def work(database: Database) -> Caller:
        account = await open_account(database, WORLD, f"caller {next(_numbers)}")
        if granted:
            given = Permission(PRODUCT_ANALYSIS.name, price, rate_limit)
            await grant(database, account.id, given)
        if calls:
            await top_up(database, WORLD, account.id, CALLS, calls)
        issued = await issue_token(database, WORLD, account.id, kind=kind, lifetime_s=lifetime_s)
        return Caller(account.id, issued.text, issued.token.id)

    return store.do(work)


def calls_left(store: Store, caller: Caller) -> int:
    """The balance; checked against the sum of its entries, which must always be the same."""

    async def work(database: Database) -> int:
        balances = {each.unit: each for each in await list_balances(database, caller.account_id)}
        entries = await newest_entries(database, caller.account_id, CALLS, 1_000_000)
        assert sum(entry.amount for entry in entries) == (
            balances[CALLS].amount if CALLS in balances else 0
        )
        return balances[CALLS].amount if CALLS in balances else 0

    return store.do(work)
