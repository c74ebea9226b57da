"""Operators and the members of accounts: found, listed, removed, given a password or another role.

Only hashes of passwords are stored.
"""

from enum import StrEnum

import msgspec
from sqlalchemy import Integer, bindparam, func, select

from tollway.contract.language import Sentence
from tollway.identity.passwords import StoredPassword, folded_login, hash_password
from tollway.identity.second_factor import remove_factor
from tollway.identity.sessions import end_sessions, hold_session
from tollway.ledger import LedgerError
from tollway.ledger.creation_limits import Counted, count_today
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import record_act
from tollway.store.database import Database, Reader, Transaction, transactional
from tollway.store.query import Query
from tollway.store.schema.identity import person

OPERATOR = "operator"
MEMBER = "member"


class Role(StrEnum):
    """What a person may do. A reader changes nothing; a developer changes all but members."""

    OPERATOR = "operator"
    OWNER = "owner"
    DEVELOPER = "developer"
    READER = "reader"


MEMBER_ROLES = (Role.OWNER, Role.DEVELOPER, Role.READER)


class Person(msgspec.Struct, frozen=True):
    """An operator, or a member of one account."""

    id: str
    kind: str
    account_id: str | None
    role: Role
    name: str
    login: str
    added_at_s: int
    removed_at_s: int | None

    @property
    def trail_name(self) -> str:
        """The person as the trail of acts names them."""
        return f"{self.kind} {self.login}"

    @property
    def may_change(self) -> bool:
        return self.role is not Role.READER

    @property
    def may_invite(self) -> bool:
        return self.role in (Role.OPERATOR, Role.OWNER)


PERSON_COLUMNS = tuple(person.c[name] for name in Person.__struct_fields__)
_is_wanted = person.c.id == bindparam("wanted")
_FIND = Query(lambda: select(*PERSON_COLUMNS).where(_is_wanted))
_HOLD = Query(lambda: select(*PERSON_COLUMNS).where(_is_wanted).with_for_update(read=True))
IS_PRESENT = person.c.removed_at_s.is_(None)
BY_LOGIN = Query(
    lambda: select(*PERSON_COLUMNS, person.c.password_hash).where(
        person.c.kind == bindparam("of_kind"), person.c.login == bindparam("wanted"), IS_PRESENT
    )
)
_OPERATORS = Query(
    lambda: (
        select(*PERSON_COLUMNS)
        .where(person.c.kind == OPERATOR)
        .order_by(person.c.added_at_s, person.c.id)
    )
)
_OPERATORS_PAGE = Query(
    lambda: (
        select(*PERSON_COLUMNS)
        .where(person.c.kind == OPERATOR, IS_PRESENT, person.c.login > bindparam("after"))
        .order_by(person.c.login)
        .limit(bindparam("most", type_=Integer))
    )
)
_MEMBERS = Query(
    lambda: (
        select(*PERSON_COLUMNS)
        .where(person.c.account_id == bindparam("of_account"), IS_PRESENT)
        .order_by(person.c.added_at_s, person.c.id)
    )
)
SET_PASSWORD = Query(
    lambda: person.update().where(_is_wanted).values(password_hash=bindparam("new_hash"))
)
_change_present = person.update().where(_is_wanted, IS_PRESENT)
_REMOVE = Query(lambda: _change_present.values(removed_at_s=bindparam("now_s")))
_SET_ROLE = Query(lambda: _change_present.values(role=bindparam("new_role")))
_HAS_PASSWORD = Query(
    lambda: (
        select(func.count())
        .select_from(person)
        .where(person.c.kind == OPERATOR, IS_PRESENT, person.c.password_hash.is_not(None))
    )
)


def check_length(what: str, text: str, least: int, most: int) -> None:
    """Refuses a name, a login or the like that is too short, too long or not printable."""
    if not least <= len(text) <= most or not text.isprintable():
        raise LedgerError(
            "The {what} must have {least} to {most} printable characters.",
            what=Sentence(what),
            least=least,
            most=most,
        )


async def set_person_password(
    database: Database, found: Person, password: str, now_s: float
) -> None:
    """Gives a person another password, and ends their sessions."""
    new_hash = hash_password(password)

    async def work(transaction: Transaction) -> None:
        await transaction.execute(SET_PASSWORD, wanted=found.id, new_hash=new_hash)
        await end_sessions(transaction, found.kind, found.id, now_s)

    await database.write(work)


async def present_person(reader: Reader, person_id: str) -> Person:
    found = await find_person(reader, person_id)
    if found is None or found.removed_at_s is not None:
        raise LedgerError("There is no such person.")
    return found


@transactional
async def remove_person(
    transaction: Transaction, runtime: Runtime, person_id: str, *, keeps_owner: bool = False
) -> Person:
    """Removes a person's access at once. The last operator cannot be removed, nor, with
    `keeps_owner`, the last owner of an account."""
    found = await present_person(transaction, person_id)
    if found.kind == OPERATOR:
        # Two operators may try to remove each other at the same moment.
        await transaction.lock_names(["operators"])
        if len(await operators_page(transaction, "", 2)) == 1:
            raise LedgerError("The last operator cannot be removed: invite another first.")
    elif keeps_owner and found.account_id is not None:
        await _keep_an_owner(transaction, found.account_id, without=found.id)
    if not await transaction.execute(_REMOVE, wanted=person_id, now_s=runtime.at_s()):
        raise LedgerError("There is no such person.")
    await end_sessions(transaction, found.kind, found.id, runtime.at_s())
    await remove_factor(transaction, found.kind, found.id)
    act = f"{found.kind} remove"
    await record_act(transaction, runtime, act, found.trail_name, before=found)
    return found


@transactional
async def change_role(
    transaction: Transaction,
    runtime: Runtime,
    account_id: str,
    person_id: str,
    role: Role,
    day_start_s: int | None = None,
) -> None:
    """Gives a member of an account another role, from their next page on. The last owner stays an
    owner. A change by a member counts against the limit of the day that began at `day_start_s`."""
    found = await present_person(transaction, person_id)
    if found.account_id != account_id:
        raise LedgerError("There is no such person.")
    if found.role is role:
        return
    await _keep_an_owner(transaction, account_id, without=found.id)
    if day_start_s is not None:
        await count_today(transaction, account_id, Counted.ROLES, day_start_s)
    if not await transaction.execute(_SET_ROLE, wanted=found.id, new_role=role.value):
        raise LedgerError("There is no such person.")
    changed, act = msgspec.structs.replace(found, role=role), f"{found.kind} role"
    await record_act(transaction, runtime, act, found.trail_name, before=found, after=changed)


async def _keep_an_owner(transaction: Transaction, account_id: str, without: str) -> None:
    """Refuses to take the role or the access from the last owner of an account."""
    # Two owners may try to demote or remove each other at the same moment.
    await transaction.lock_names([f"owners {account_id}"])
    members = await list_members(transaction, account_id)
    if [each.id for each in members if each.role is Role.OWNER] == [without]:
        raise LedgerError("The last owner stays one: make another member an owner first.")


async def an_operator_has_a_password(reader: Reader) -> bool:
    row = await reader.fetch_one(_HAS_PASSWORD)
    return row is not None and row[0] > 0


async def find_person(reader: Reader, person_id: str) -> Person | None:
    row = await reader.fetch_one(_FIND, wanted=person_id)
    return None if row is None else person_of(row)


async def is_still_signed_in(
    transaction: Transaction, seen: Person, cookie: str, now_s: float
) -> bool:
    """Whether a person has the session and the role that they were seen with. If so, they keep
    both until the transaction ends."""
    row = await transaction.fetch_one(_HOLD, wanted=seen.id)
    if row is None or person_of(row) != seen:
        return False
    return await hold_session(transaction, cookie, now_s)


async def password_of(reader: Reader, kind: str, login: str) -> StoredPassword | None:
    row = await reader.fetch_one(BY_LOGIN, of_kind=kind, wanted=folded_login(login))
    if row is None or row[-1] is None:
        return None
    return StoredPassword(kind, row[0], row[-1])


async def list_operators(reader: Reader) -> list[Person]:
    return [person_of(row) for row in await reader.fetch_all(_OPERATORS)]


async def operators_page(reader: Reader, after: str, most: int) -> list[Person]:
    """Operators who are present, in the order of their logins, after one."""
    rows = await reader.fetch_all(_OPERATORS_PAGE, after=after, most=most)
    return [person_of(row) for row in rows]


async def list_members(reader: Reader, account_id: str) -> list[Person]:
    """The members of an account who are present."""
    return [person_of(row) for row in await reader.fetch_all(_MEMBERS, of_account=account_id)]


def person_of(row: tuple[object, ...]) -> Person:
    return msgspec.convert(dict(zip(Person.__struct_fields__, row, strict=True)), Person)
