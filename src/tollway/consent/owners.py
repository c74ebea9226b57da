"""Owners: the shops and users that the gateway knows, their logins and passwords."""

import asyncio

import msgspec
from sqlalchemy import Integer, bindparam, func, or_, select

from tollway.contract.language import Sentence
from tollway.contract.operation import OwnerKind
from tollway.identity.passwords import LOGIN_MIN, NAME_MAX, folded_login, hash_password
from tollway.identity.people import check_length
from tollway.identity.sessions import end_sessions
from tollway.ledger import LedgerError
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import record_act
from tollway.store.cache_versions import directory_changed
from tollway.store.database import Database, Reader, Row, Transaction, transactional
from tollway.store.query import Query, contains_pattern, equals, insert_row
from tollway.store.schema.consent import owner

_ID_MAX = 64


class Owner(msgspec.Struct, frozen=True):
    """A shop or user of the marketplace, and the login of the person it belongs to."""

    kind: str
    id: str
    name: str
    shop_code: str | None
    login: str
    added_at_s: int


class Credential(msgspec.Struct, frozen=True):
    """An owner and the hash of their password."""

    owner: Owner
    password_hash: str


_COLUMNS = tuple(owner.c[name] for name in Owner.__struct_fields__)
_INSERT = Query(lambda: insert_row(owner))
_FIND = Query(
    lambda: select(*_COLUMNS, owner.c.password_hash).where(
        equals(owner, kind="of_kind", id="wanted")
    )
)
_BY_LOGIN = Query(
    lambda: select(*_COLUMNS, owner.c.password_hash).where(owner.c.login == bindparam("wanted"))
)
_TAKEN = Query(
    lambda: select(owner.c.kind, owner.c.id, owner.c.login).where(
        or_(
            owner.c.login == bindparam("wanted_login"),
            (owner.c.kind == bindparam("of_kind")) & (owner.c.id == bindparam("wanted")),
        )
    )
)
_ALL = Query(lambda: select(*_COLUMNS).order_by(owner.c.kind, owner.c.added_at_s, owner.c.id))
_after = or_(
    owner.c.kind > bindparam("after_kind"),
    (owner.c.kind == bindparam("after_kind")) & (owner.c.id > bindparam("after_id")),
)
_in_order = select(*_COLUMNS).where(_after).order_by(owner.c.kind, owner.c.id)
_PAGE = Query(lambda: _in_order.limit(bindparam("most", type_=Integer)))
_PAGE_OF_TEXT = Query(
    lambda: _in_order.where(
        or_(
            owner.c.id == bindparam("wanted"),
            owner.c.login == bindparam("wanted_login"),
            func.lower(owner.c.name).like(bindparam("pattern"), escape="\\"),
        )
    ).limit(bindparam("most", type_=Integer))
)
_of_login = owner.update().where(owner.c.login == bindparam("wanted"))
_SET_PASSWORD = Query(lambda: _of_login.values(password_hash=bindparam("new_hash")))
_REPLACE_PASSWORD = Query(
    lambda: _of_login.where(owner.c.password_hash == bindparam("replaced")).values(
        password_hash=bindparam("new_hash")
    )
)


async def add_owner(database: Database, runtime: Runtime, added: Owner, password: str) -> Owner:
    """Adds a shop or user; fills in `added_at_s`."""
    added = msgspec.structs.replace(
        added,
        id=added.id.strip(),
        name=added.name.strip(),
        shop_code=(added.shop_code or "").strip() or None,
        login=folded_login(added.login),
        added_at_s=runtime.at_s(),
    )
    _check(added)
    # In a thread, because it takes a quarter of a second.
    password_hash = await asyncio.to_thread(hash_password, password)

    async def work(transaction: Transaction) -> None:
        taken = await transaction.fetch_one(
            _TAKEN, wanted_login=added.login, of_kind=added.kind, wanted=added.id
        )
        if taken is not None:
            if taken[:2] != (added.kind, added.id):
                raise LedgerError(
                    "That login is known already: `tollway shop list` shows them all."
                )
            raise LedgerError(
                "That {kind} {owner_id} is known already: `tollway shop list` shows them all.",
                kind=Sentence(added.kind),
                owner_id=added.id,
            )
        await put_owner(transaction, added, password_hash)
        subject = f"{added.kind} {added.id}"
        await record_act(transaction, runtime, "shop add", subject, after=added)

    await database.write(work)
    return added


async def put_owner(transaction: Transaction, added: Owner, password_hash: str) -> None:
    await transaction.execute(_INSERT, password_hash=password_hash, **msgspec.structs.asdict(added))
    await directory_changed(transaction)


async def set_password(database: Database, runtime: Runtime, login: str, password: str) -> Owner:
    """Gives an owner another password, and ends every session signed in with the old one."""
    changed = await put_password(database, runtime, login, hash_password(password))
    if changed is None:
        raise _unknown_login(login)
    return changed


@transactional
async def put_password(
    transaction: Transaction,
    runtime: Runtime,
    login: str,
    password_hash: str,
    replaced: str | None = None,
) -> Owner | None:
    """Stores the hash of a new password and ends the sessions; the caller hashes off the event
    loop. With `replaced`, only if that is still the stored hash. None if nothing changed."""
    wanted = folded_login(login)
    values = {"wanted": wanted, "new_hash": password_hash}
    query = _SET_PASSWORD
    if replaced is not None:
        query, values = _REPLACE_PASSWORD, {**values, "replaced": replaced}
    if not await transaction.execute(query, **values):
        return None
    found = await credential_of_login(transaction, wanted)
    assert found is not None
    await end_sessions(transaction, found.owner.kind, found.owner.id, runtime.at_s())
    subject = f"{found.owner.kind} {found.owner.id}"
    await record_act(transaction, runtime, "shop password", subject)
    return found.owner


@transactional
async def sign_out_everywhere(transaction: Transaction, runtime: Runtime, login: str) -> int:
    """Ends every session of an owner; returns how many there were."""
    found = await find_credential(transaction, login)
    kind, owner_id = found.owner.kind, found.owner.id
    ended = await end_sessions(transaction, kind, owner_id, runtime.at_s())
    await record_act(
        transaction, runtime, "shop sign-out", f"{kind} {owner_id}", after={"ended": ended}
    )
    return ended


async def find_owner(reader: Reader, kind: str, owner_id: str) -> Owner:
    found = await credential_of(reader, kind, owner_id)
    if found is None:
        raise LedgerError(
            "There is no {kind} {owner_id}: `tollway shop list` shows them all.",
            kind=Sentence(kind),
            owner_id=owner_id,
        )
    return found.owner


async def credential_of(reader: Reader, kind: str, owner_id: str) -> Credential | None:
    return _credential(await reader.fetch_one(_FIND, of_kind=kind, wanted=owner_id))


async def credential_of_login(reader: Reader, login: str) -> Credential | None:
    return _credential(await reader.fetch_one(_BY_LOGIN, wanted=folded_login(login)))


async def find_credential(reader: Reader, login: str) -> Credential:
    found = await credential_of_login(reader, login)
    if found is None:
        raise _unknown_login(login)
    return found


def _unknown_login(login: str) -> LedgerError:
    return LedgerError(
        "No owner signs in as {login}: `tollway shop list` shows them all.", login=login
    )


async def list_owners(reader: Reader) -> list[Owner]:
    return [Owner(*row) for row in await reader.fetch_all(_ALL)]


async def owners_page(
    database: Database, wanted: str, after: tuple[str, str], most: int
) -> list[Owner]:
    """Shops and users after one, in the order of their ids; if `wanted` is given, only those with
    this id or login, or with the text in their name."""
    values = {"after_kind": after[0], "after_id": after[1], "most": most}
    if not wanted:
        return [Owner(*row) for row in await database.fetch_all(_PAGE, **values)]
    # It may read every one of them.
    rows = await database.fetch_long(
        _PAGE_OF_TEXT,
        "owners",
        wanted=wanted,
        wanted_login=folded_login(wanted),
        pattern=contains_pattern(wanted),
        **values,
    )
    return [Owner(*row) for row in rows]


def _credential(row: Row | None) -> Credential | None:
    return None if row is None else Credential(Owner(*row[:-1]), row[-1])


def _check(added: Owner) -> None:
    for what, text, least, most in (
        ("id", added.id, 1, _ID_MAX),
        ("name", added.name, 1, NAME_MAX),
        ("login", added.login, LOGIN_MIN, NAME_MAX),
        ("shop code", added.shop_code or "-", 1, _ID_MAX),
    ):
        check_length(what, text, least, most)
    # On the wire a user id is a number, so it must have only one spelling.
    is_number = added.id.isascii() and added.id.isdecimal() and not added.id.startswith("0")
    if added.kind == OwnerKind.USER and not is_number:
        raise LedgerError("A user's id is a number, without zeros before it.")
