"""Accounts: the customers of the gateway, opened, found, listed, suspended and closed."""

from collections.abc import Iterable

import msgspec
from sqlalchemy import String, and_, bindparam, func, null, or_, select

from tollway.ledger import LedgerError
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import record_act
from tollway.store.cache_versions import directory_changed
from tollway.store.database import Database, Reader, Transaction
from tollway.store.query import Query, listed, pieces
from tollway.store.schema.ledger import account
from tollway.store.schema.webhooks import webhook_endpoint

_NAME_MAX = 100


class Account(msgspec.Struct, frozen=True):
    """An account as the operator sees it."""

    id: str
    name: str
    opened_at_s: int
    closed_at_s: int | None = None
    suspended_at_s: int | None = None

    @property
    def state(self) -> str:
        if self.closed_at_s is not None:
            return "closed"
        return "open" if self.suspended_at_s is None else "suspended"


_COLUMNS = [account.c[name] for name in Account.__struct_fields__]
_INSERT = Query(
    lambda: account.insert().values(
        id=bindparam("id"), name=bindparam("name"), opened_at_s=bindparam("opened_at_s")
    )
)
_FIND = Query(
    lambda: select(*_COLUMNS).where(
        or_(account.c.id == bindparam("wanted"), account.c.name == bindparam("wanted"))
    )
)
_SPELLED_OTHERWISE = Query(
    lambda: (
        select(account.c.name)
        .where(func.lower(account.c.name) == func.lower(bindparam("wanted", type_=String)))
        .limit(1)
    )
)
_ALL = Query(lambda: select(*_COLUMNS).order_by(account.c.opened_at_s, account.c.id))
_listed = listed(50)
_NAMES = Query(lambda: select(account.c.id, account.c.name).where(account.c.id.in_(_listed)))
_CLOSE = Query(
    lambda: (
        account.update()
        .where(account.c.id == bindparam("wanted"), account.c.closed_at_s.is_(None))
        .values(closed_at_s=bindparam("closed_at_s"))
    )
)
_is_open = and_(account.c.id == bindparam("wanted"), account.c.closed_at_s.is_(None))
_SUSPEND = Query(
    lambda: (
        account.update()
        .where(_is_open, account.c.suspended_at_s.is_(None))
        .values(suspended_at_s=bindparam("at_s"))
    )
)
_RESUME = Query(
    lambda: (
        account.update()
        .where(_is_open, account.c.suspended_at_s.is_not(None))
        .values(suspended_at_s=null())
    )
)
_END_WEBHOOKS = Query(
    lambda: (
        webhook_endpoint.update()
        .where(
            webhook_endpoint.c.account_id == bindparam("of_account"),
            webhook_endpoint.c.ended_at_s.is_(None),
        )
        .values(ended_at_s=bindparam("at_s"))
    )
)


async def open_account(database: Database, runtime: Runtime, name: str) -> Account:
    # Pages strip the names that they look up or use as positions.
    name = name.strip()
    if not name or len(name) > _NAME_MAX or not name.isprintable():
        raise LedgerError(
            "An account's name has 1 to {most} printable characters.", most=_NAME_MAX, name=name
        )
    opened = Account(runtime.new_id("acc_"), name, runtime.at_s())

    async def work(transaction: Transaction) -> None:
        if await transaction.fetch_one(_FIND, wanted=name):
            raise LedgerError("There is already an account named {name}.", name=name)
        await transaction.execute(
            _INSERT, id=opened.id, name=opened.name, opened_at_s=opened.opened_at_s
        )
        await record_act(transaction, runtime, "account open", f"account {opened.id}", after=opened)

    await database.write(work)
    return opened


async def find_account(reader: Reader, wanted: str) -> Account:
    """The account with this id or name."""
    row = await reader.fetch_one(_FIND, wanted=wanted)
    if row is None:
        similar = await reader.fetch_one(_SPELLED_OTHERWISE, wanted=wanted.strip())
        if similar is not None:
            raise LedgerError(
                "There is no account {account}. Did you mean {similar}?",
                account=wanted,
                similar=similar[0],
            )
        raise LedgerError(
            "There is no account {account}: `tollway account list` shows them all.", account=wanted
        )
    return Account(*row)


async def list_accounts(reader: Reader) -> list[Account]:
    return [Account(*row) for row in await reader.fetch_all(_ALL)]


async def names_of(reader: Reader, account_ids: Iterable[str]) -> dict[str, str]:
    """The names of some accounts."""
    found: dict[str, str] = {}
    for ids in pieces(list(dict.fromkeys(account_ids)), _listed):
        found.update(await reader.fetch_all(_NAMES, **ids))
    return found


async def suspend_account(database: Database, runtime: Runtime, wanted: str) -> Account:
    """Suspends an account: its calls are refused from the next one on; all else stays."""

    async def work(transaction: Transaction) -> Account:
        found, at_s = await find_account(transaction, wanted), runtime.at_s()
        if not await transaction.execute(_SUSPEND, wanted=found.id, at_s=at_s):
            if found.closed_at_s is not None:
                raise LedgerError("Account {account} is closed already.", account=wanted)
            raise LedgerError("Account {account} is suspended already.", account=wanted)
        return await _changed(transaction, runtime, "account suspend", found)

    return await database.write(work)


async def resume_account(database: Database, runtime: Runtime, wanted: str) -> Account:
    """Ends the suspension of an account: its calls are answered again."""

    async def work(transaction: Transaction) -> Account:
        found = await find_account(transaction, wanted)
        if not await transaction.execute(_RESUME, wanted=found.id):
            raise LedgerError("Account {account} is not suspended.", account=wanted)
        return await _changed(transaction, runtime, "account resume", found)

    return await database.write(work)


async def close_account(database: Database, runtime: Runtime, wanted: str) -> Account:
    """Closes an account: its tokens are refused from the next call on; its ledger stays."""

    async def work(transaction: Transaction) -> Account:
        found, at_s = await find_account(transaction, wanted), runtime.at_s()
        if not await transaction.execute(_CLOSE, wanted=found.id, closed_at_s=at_s):
            raise LedgerError("Account {account} is closed already.", account=wanted)
        # The account has no valid token left to end them with.
        await transaction.execute(_END_WEBHOOKS, of_account=found.id, at_s=at_s)
        return await _changed(transaction, runtime, "account close", found)

    return await database.write(work)


async def _changed(
    transaction: Transaction, runtime: Runtime, act: str, before: Account
) -> Account:
    """The account after a change, which the gateways learn of and the trail has."""
    await directory_changed(transaction, before.id)
    after = await find_account(transaction, before.id)
    await record_act(transaction, runtime, act, f"account {before.id}", before=before, after=after)
    return after
