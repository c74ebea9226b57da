"""Links that sign people in: the first one of a new person, and another for a person who lost
theirs. With a link a person signs in and may choose a password.

A link works once and expires. Only hashes of links are stored, including those of the links with
which owners choose a new password.
"""

import hashlib
import secrets

import msgspec
from sqlalchemy import bindparam, or_, select

from tollway.identity.passwords import LOGIN_MIN, NAME_MAX, folded_login
from tollway.identity.people import (
    BY_LOGIN,
    IS_PRESENT,
    MEMBER,
    OPERATOR,
    PERSON_COLUMNS,
    SET_PASSWORD,
    Person,
    Role,
    check_length,
    list_operators,
    person_of,
    present_person,
)
from tollway.identity.second_factor import find_factor
from tollway.identity.sessions import end_sessions
from tollway.ledger import LedgerError
from tollway.ledger.accounts import find_account
from tollway.ledger.creation_limits import Counted, count_today
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import MakerCheck
from tollway.ledger.trail import record_act
from tollway.store.database import Database, Reader, StoreError, Transaction, transactional
from tollway.store.query import Query, equals
from tollway.store.schema.identity import person, sign_in_link

LINK_HOURS = 72

_HOLDS = (sign_in_link.c.used_at_s.is_(None), sign_in_link.c.expires_at_s > bindparam("now_s"))
_ADD = Query(
    lambda: sign_in_link.insert().values(
        {name: bindparam(name) for name in ("hash", "person_id", "made_at_s", "expires_at_s")}
    )
)
_FIND = Query(
    lambda: select(sign_in_link.c.hash).where(
        equals(sign_in_link, hash="wanted", person_id="of"), *_HOLDS
    )
)
_VOID = Query(
    lambda: sign_in_link.delete().where(
        sign_in_link.c.person_id == bindparam("wanted"), sign_in_link.c.used_at_s.is_(None)
    )
)
_SWEEP = Query(
    lambda: sign_in_link.delete().where(
        or_(
            sign_in_link.c.expires_at_s < bindparam("before_s"),
            sign_in_link.c.used_at_s < bindparam("before_s"),
        )
    )
)


async def add_link(
    transaction: Transaction, holder: str, text: str, now_s: int, expires_at_s: int
) -> None:
    """Stores a link of a person, named by their id, or of an owner, named as in `shop 7001`."""
    await transaction.execute(_SWEEP, before_s=now_s - LINK_HOURS * 3600)
    await transaction.execute(
        _ADD, hash=_hash_of(text), person_id=holder, made_at_s=now_s, expires_at_s=expires_at_s
    )


async def void_links(transaction: Transaction, holder: str) -> None:
    """Ends unused links: a lost one may be in the wrong hands."""
    await transaction.execute(_VOID, wanted=holder)


async def link_holds(reader: Reader, holder: str, text: str, now_s: float) -> bool:
    row = await reader.fetch_one(_FIND, wanted=_hash_of(text), of=holder, now_s=int(now_s))
    return row is not None


def _hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class Invitation(msgspec.Struct, frozen=True):
    """A person, and the text of the link that signs them in; shown once."""

    person: Person
    link: str
    expires_at_s: int


_INSERT = Query(
    lambda: person.insert().values({name: bindparam(name) for name in Person.__struct_fields__})
)
_SET_FIRST_PASSWORD = Query(
    lambda: (
        person.update()
        .where(person.c.id == bindparam("wanted"), person.c.password_hash.is_(None))
        .values(password_hash=bindparam("new_hash"))
    )
)
_OPEN_LINK = Query(
    lambda: (
        select(*PERSON_COLUMNS, person.c.password_hash)
        .join(sign_in_link, sign_in_link.c.person_id == person.c.id)
        .where(sign_in_link.c.hash == bindparam("wanted"), IS_PRESENT, *_HOLDS)
    )
)
_USE_LINK = Query(
    lambda: (
        sign_in_link.update()
        .where(sign_in_link.c.hash == bindparam("wanted"), *_HOLDS)
        .values(used_at_s=bindparam("now_s"))
    )
)


async def invite(
    database: Database,
    runtime: Runtime,
    *,
    role: Role,
    name: str,
    login: str,
    account_wanted: str | None = None,
    day_start_s: int | None = None,
    check_maker: MakerCheck | None = None,
) -> Invitation:
    """Adds a person, and makes the link for their first sign-in. An invitation by a member counts
    against the limit of the day that began at `day_start_s`, even if the login is taken: that
    answer reveals members of other accounts."""
    name, login = name.strip(), folded_login(login)
    # The login first, because a missing name defaults to it.
    for what, text, least in (("login", login, LOGIN_MIN), ("name", name, 1)):
        check_length(what, text, least, NAME_MAX)

    async def work(transaction: Transaction) -> Invitation | None:
        account_id = None
        if account_wanted is not None:
            found = await find_account(transaction, account_wanted)
            if found.closed_at_s is not None:
                raise LedgerError(
                    "Account {account} is closed: it can have no new member.", account=found.name
                )
            account_id = found.id
            if day_start_s is not None:
                await count_today(transaction, account_id, Counted.INVITATIONS, day_start_s)
        if check_maker is not None:
            await check_maker(transaction)
        kind = OPERATOR if account_id is None else MEMBER
        if await transaction.fetch_one(BY_LOGIN, of_kind=kind, wanted=login):
            return None
        added = Person(
            runtime.new_id("per_"), kind, account_id, role, name, login, runtime.at_s(), None
        )
        await transaction.execute(_INSERT, **msgspec.structs.asdict(added))
        made = await _make_link(transaction, runtime, added, LINK_HOURS * 3600)
        await record_act(transaction, runtime, f"{kind} invite", added.trail_name, after=added)
        return made

    made = await database.write(work)
    if made is None:
        # Raised only here, so that the count is committed.
        raise LedgerError("The login {login} is taken: choose another.", login=login)
    return made


@transactional
async def new_link(
    transaction: Transaction,
    runtime: Runtime,
    person_id: str,
    lifetime_s: int = LINK_HOURS * 3600,
    *,
    ends_earlier: bool = True,
) -> Invitation:
    """Another link for a person who lost theirs: an existing password stays, and earlier links end,
    since a lost one may be in the wrong hands."""
    found = await present_person(transaction, person_id)
    if ends_earlier:
        await void_links(transaction, found.id)
    made = await _make_link(transaction, runtime, found, lifetime_s)
    await record_act(transaction, runtime, f"{found.kind} link", found.trail_name)
    return made


@transactional
async def new_start(
    transaction: Transaction,
    runtime: Runtime,
    person_id: str,
    day_start_s: int | None,
    *,
    check_maker: MakerCheck,
) -> Invitation:
    """A link for a member who lost theirs, or their password: with it they choose another. Ends the
    old password, all earlier links and all sessions; a second factor stays. If a member makes it,
    it counts as an invitation in the day that began at `day_start_s`."""
    found = await present_person(transaction, person_id)
    if day_start_s is not None and found.account_id is not None:
        await count_today(transaction, found.account_id, Counted.INVITATIONS, day_start_s)
    await check_maker(transaction)
    await transaction.execute(SET_PASSWORD, wanted=found.id, new_hash=None)
    # With the password gone, a holder of an earlier link could choose the next one.
    await void_links(transaction, found.id)
    await end_sessions(transaction, found.kind, found.id, runtime.at_s())
    made = await _make_link(transaction, runtime, found, LINK_HOURS * 3600)
    await record_act(transaction, runtime, f"{found.kind} link", found.trail_name)
    return made


async def _make_link(
    transaction: Transaction, runtime: Runtime, found: Person, lifetime_s: int
) -> Invitation:
    text, now_s = secrets.token_urlsafe(24), runtime.at_s()
    await add_link(transaction, found.id, text, now_s, now_s + lifetime_s)
    return Invitation(found, text, now_s + lifetime_s)


class OpenedSignInLink(msgspec.Struct, frozen=True):
    """The person a link is for, whether they may choose a password (not if they have one), and
    whether they need a code of their second factor."""

    person: Person
    may_choose_password: bool
    needs_code: bool


async def open_link(reader: Reader, text: str, now_s: float) -> OpenedSignInLink | None:
    """The person whom a link signs in; None if it is used, expired or invalid."""
    row = await reader.fetch_one(_OPEN_LINK, wanted=_hash_of(text), now_s=int(now_s))
    if row is None:
        return None
    found = person_of(row[:-1])
    has_factor = await find_factor(reader, found.kind, found.id) is not None
    return OpenedSignInLink(found, row[-1] is None, has_factor)


@transactional
async def use_link(
    transaction: Transaction,
    text: str,
    password_hash: str | None,
    now_s: float,
    *,
    has_shown_code: bool = False,
) -> Person | None:
    """Uses a link up, and sets the password if one was chosen; None if the link is invalid or may
    not set one: the person may have set up a second factor since opening it."""
    opened = await open_link(transaction, text, now_s)
    if opened is None:
        return None
    may_choose = opened.may_choose_password and (has_shown_code or not opened.needs_code)
    if password_hash is not None and not may_choose:
        return None
    if not await transaction.execute(_USE_LINK, wanted=_hash_of(text), now_s=int(now_s)):
        return None
    found = opened.person
    if password_hash is not None:
        # Another link of the same person may be used at the same moment: the first one wins.
        if not await transaction.execute(
            _SET_FIRST_PASSWORD, wanted=found.id, new_hash=password_hash
        ):
            return None
        await end_sessions(transaction, found.kind, found.id, now_s)
    return found


async def ensure_operator(database: Database, runtime: Runtime) -> Person:
    """The first operator, created if there is none yet."""
    first = await _first_operator(database)
    if first is not None:
        return first
    try:
        made = await invite(
            database, runtime, role=Role.OPERATOR, name="Operator", login="operator"
        )
    except (LedgerError, StoreError):
        # Another node that started at the same moment may have made it.
        first = await _first_operator(database)
        if first is None:
            raise
        return first
    return made.person


async def _first_operator(database: Database) -> Person | None:
    operators = await list_operators(database)
    return next((each for each in operators if each.removed_at_s is None), None)
