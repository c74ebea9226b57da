"""Accounts: the customers of the gateway, opened, found, listed, suspended and closed."""

from collections.abc import Iterable

import msgspec
from sqlalchemy import String, and_, bindparam, func, null, or_, select

from tollway.ledger import LedgerError
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import record_act
from tollway.store.cache_versions import directory_changed
from tollway.store.database import Reader, Transaction, transactional
from tollway.store.query import Query, changed, listed, pieces
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
_ANY = Query(lambda: select(account.c.id).limit(1))
_NAMES = Query(lambda: select(account.c.id, account.c.name).where(account.c.id.in_(_listed)))
_is_open = and_(account.c.id == bindparam("wanted"), account.c.closed_at_s.is_(None))
_CLOSE = Query(lambda: changed(account, closed_at_s="closed_at_s").where(_is_open))
_SUSPEND = Query(
    lambda: changed(account, suspended_at_s="at_s").where(
        _is_open, account.c.suspended_at_s.is_(None)
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
    lambda: changed(webhook_endpoint, ended_at_s="at_s").where(
        webhook_endpoint.c.account_id == bindparam("of_account"),
        webhook_endpoint.c.ended_at_s.is_(None),
    )
)


@transactional
async def open_account(transaction: Transaction, runtime: Runtime, name: str) -> Account:
    # Pages strip the names that they look up or use as positions.
    name = name.strip()
    if not name or len(name) > _NAME_MAX or not name.isprintable():
        raise LedgerError(
            "An account's name has 1 to {most} printable characters.", most=_NAME_MAX, name=name
        )
    opened = Account(runtime.new_id("acc_"), name, runtime.at_s())
    if await transaction.fetch_one(_FIND, wanted=name):
        raise LedgerError("There is already an account named {name}.", name=name)
    await transaction.execute(
        _INSERT, id=opened.id, name=opened.name, opened_at_s=opened.opened_at_s
    )
    await record_act(transaction, runtime, "account open", f"account {opened.id}", after=opened)
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


async def has_accounts(reader: Reader) -> bool:
    return await reader.fetch_one(_ANY) is not None


async def names_of(reader: Reader, account_ids: Iterable[str]) -> dict[str, str]:
    """The names of some accounts."""
    found: dict[str, str] = {}
    for ids in pieces(list(dict.fromkeys(account_ids)), _listed):
        found.update(await reader.fetch_all(_NAMES, **ids))
    return found


@transactional
async def suspend_account(transaction: Transaction, runtime: Runtime, wanted: str) -> Account:
    """Suspends an account: its calls are refused from the next one on; all else stays."""
    found, at_s = await find_account(transaction, wanted), runtime.at_s()
    if not await transaction.execute(_SUSPEND, wanted=found.id, at_s=at_s):
        if found.closed_at_s is not None:
            raise LedgerError("Account {account} is closed already.", account=wanted)
        raise LedgerError("Account {account} is suspended already.", account=wanted)
    return await _changed(transaction, runtime, "account suspend", found)


@transactional
async def resume_account(transaction: Transaction, runtime: Runtime, wanted: str) -> Account:
    """Ends the suspension of an account: its calls are answered again."""
    found = await find_account(transaction, wanted)
    if not await transaction.execute(_RESUME, wanted=found.id):
        raise LedgerError("Account {account} is not suspended.", account=wanted)
    return await _changed(transaction, runtime, "account resume", found)


@transactional
async def close_account(transaction: Transaction, runtime: Runtime, wanted: str) -> Account:
    """Closes an account: its tokens are refused from the next call on; its ledger stays."""
    found, at_s = await find_account(transaction, wanted), runtime.at_s()
    if not await transaction.execute(_CLOSE, wanted=found.id, closed_at_s=at_s):
        raise LedgerError("Account {account} is closed already.", account=wanted)
    # The account has no valid token left to end them with.
    await transaction.execute(_END_WEBHOOKS, of_account=found.id, at_s=at_s)
    return await _changed(transaction, runtime, "account close", found)


async def lock_account(transaction: Transaction, wanted: str) -> Account:
    """An account whose rights this transaction changes. Until its end, all others that change
    rights wait, and so does what closes the account."""
    account_id = (await find_account(transaction, wanted)).id
    await directory_changed(transaction, account_id)
    # It may have been closed while this waited.
    return await find_account(transaction, account_id)


async def _changed(
    transaction: Transaction, runtime: Runtime, act: str, before: Account
) -> Account:
    """The account after a change, which the gateways learn of and the trail has."""
    await directory_changed(transaction, before.id)
    after = await find_account(transaction, before.id)
    await record_act(transaction, runtime, act, f"account {before.id}", before=before, after=after)
    return after
