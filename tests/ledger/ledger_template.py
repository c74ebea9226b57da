"""The database that every example of the ledger's machine begins with."""

from pathlib import Path
from typing import NamedTuple

from tests.ledger.ledger_draws import PRICES, START_MS
from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.permissions import Permission, add_permission
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import issue_token
from tollway.store.database import Database

_WORLD = Runtime(now_s=lambda: START_MS / 1000)


class Token(NamedTuple):
    text: str
    id: str


class Template(NamedTuple):
    """A migrated file with two accounts, each with a token."""

    path: Path
    account_ids: list[str]
    tokens: list[Token]


def make_template(folder: Path) -> Template:
    path = folder / "template.db"

    async def work(database: Database) -> Template:
        account_ids, tokens = [], []
        for name in ("first", "second"):
            account = await open_account(database, _WORLD, name)
            for operation, price in PRICES.items():
                await add_permission(database, account.id, Permission(operation, price, None))
            issued = await issue_token(database, _WORLD, account.id)
            account_ids.append(account.id)
            tokens.append(Token(issued.text, issued.token.id))
        return Template(path, account_ids, tokens)

    # All of it is in the one file once the last connection is closed.
    return Store(path).do(work)
