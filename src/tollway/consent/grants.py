"""Grants: an owner lets an account do one kind of thing, until a time or until it is revoked.

This module gives, extends, revokes and lists them, and lists the reads that were made under them.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from sqlalchemy import BigInteger, Integer, String, and_, bindparam, func, or_, select, tuple_

from tollway.consent.owners import find_owner
from tollway.ledger import LedgerError
from tollway.ledger.accounts import find_account, lock_account
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import record_act
from tollway.store.cache_versions import directory_changed
from tollway.store.database import Reader, Row, Transaction, transactional
from tollway.store.query import Query, changed, equals, insert_row
from tollway.store.schema.consent import consent, consent_use, owner
from tollway.store.schema.ledger import account
from tollway.webhooks.events import Event, record_event

ID_PREFIX = "con_"


class Grant(msgspec.Struct, frozen=True):
    """One grant. Without an expiry it is valid until it is revoked. If it was given again while it
    was valid, it says when and by whom it was last extended."""

    id: str
    account_id: str
    owner_kind: str
    owner_id: str
    scope: str
    granted_by: str
    granted_at_s: int
    expires_at_s: int | None
    revoked_at_s: int | None
    extended_at_s: int | None = None
    extended_by: str | None = None

    def holds(self, now_s: float) -> bool:
        return self.revoked_at_s is None and (
            self.expires_at_s is None or now_s < self.expires_at_s
        )

    def state(self, now_s: float) -> Literal["valid", "expired", "revoked"]:
        if self.holds(now_s):
            return "valid"
        return "expired" if self.revoked_at_s is None else "revoked"


class NamedGrant(msgspec.Struct, frozen=True):
    """A grant with the name of the account that has it, and of the shop or user that gave it."""

    grant: Grant
    account_name: str
    owner_name: str


class GrantRequest(msgspec.Struct, frozen=True):
    """Which account is to be allowed what, by which owner."""

    account_id: str
    owner_kind: str
    owner_id: str
    scope: str


_COLUMNS = tuple(consent.c[name] for name in Grant.__struct_fields__)
_INSERT = Query(lambda: insert_row(consent))
_EXTEND = Query(
    lambda: changed(consent, expires_at_s="until_s", extended_at_s="now_s", extended_by="by").where(
        consent.c.id == bindparam("wanted")
    )
)
_NAMED = (
    select(*_COLUMNS, account.c.name, func.coalesce(owner.c.name, ""))
    .join(account, account.c.id == consent.c.account_id)
    .outerjoin(owner, and_(owner.c.kind == consent.c.owner_kind, owner.c.id == consent.c.owner_id))
)
_ORDER = (consent.c.granted_at_s.desc(), consent.c.id)
_between = equals(consent, owner_kind="kind", owner_id="wanted", account_id="of_account")
_BETWEEN = Query(lambda: select(*_COLUMNS).where(_between, consent.c.revoked_at_s.is_(None)))
_OF_OWNER = Query(
    lambda: _NAMED.where(equals(consent, owner_kind="kind", owner_id="wanted")).order_by(*_ORDER)
)
_OF_ACCOUNT = Query(
    lambda: _NAMED.where(consent.c.account_id == bindparam("wanted")).order_by(*_ORDER)
)
_ALL = Query(lambda: _NAMED.order_by(*_ORDER))
_page = (
    _NAMED.where(
        tuple_(consent.c.granted_at_s, consent.c.id)
        < tuple_(bindparam("before_s", type_=BigInteger), bindparam("before_id", type_=String))
    )
    .order_by(consent.c.granted_at_s.desc(), consent.c.id.desc())
    .limit(bindparam("most", type_=Integer))
)
_PAGE = Query(_page)
_PAGE_OF_ACCOUNT = Query(
    lambda: _page.where(
        or_(account.c.id == bindparam("wanted"), account.c.name == bindparam("wanted"))
    )
)
_page_of_owner = _page.where(
    or_(consent.c.owner_kind == "shop", consent.c.owner_kind == "user"),
    consent.c.owner_id == bindparam("wanted"),
)
_PAGE_OF_OWNER = Query(_page_of_owner)
_ACCOUNT_PAGE = Query(lambda: _page.where(consent.c.account_id == bindparam("of_account")))
# Spelled so that the account's index is not used: with it, every grant of the account is read.
_ACCOUNT_PAGE_OF_OWNER = Query(
    lambda: _page_of_owner.where(func.coalesce(consent.c.account_id, "") == bindparam("of_account"))
)
_GIVEN_SINCE = Query(
    lambda: (
        select(func.count())
        .select_from(consent)
        .where(_between, consent.c.granted_at_s > bindparam("since_s", type_=BigInteger))
    )
)
_FIND = Query(lambda: select(*_COLUMNS).where(consent.c.id == bindparam("wanted")))
_REVOKE = Query(
    lambda: changed(consent, revoked_at_s="now_s").where(
        consent.c.id == bindparam("wanted"),
        consent.c.revoked_at_s.is_(None),
        or_(consent.c.expires_at_s.is_(None), consent.c.expires_at_s > bindparam("now_s")),
    )
)


@transactional
async def give_grant(
    transaction: Transaction,
    runtime: Runtime,
    grant_request: GrantRequest,
    *,
    lifetime_s: int | None,
    granted_by: str,
) -> Grant:
    """Lets an account do something; extends a grant that is still valid instead of adding one."""
    # A concurrent grant is then seen, and recorded as the state before.
    found = await lock_account(transaction, grant_request.account_id)
    if found.closed_at_s is not None:
        raise LedgerError(
            "Account {account} is closed: nothing more can be allowed to it.",
            account=found.name,
        )
    await find_owner(transaction, grant_request.owner_kind, grant_request.owner_id)
    named = msgspec.structs.replace(grant_request, account_id=found.id)
    before = await held_grant(transaction, named, runtime.at_s())
    given = await put_grant(
        transaction, runtime, named, lifetime_s=lifetime_s, granted_by=granted_by
    )
    subject = f"account {found.id}"
    await record_act(transaction, runtime, "consent grant", subject, before=before, after=given)
    return given


async def put_grant(
    transaction: Transaction,
    runtime: Runtime,
    grant_request: GrantRequest,
    *,
    lifetime_s: int | None,
    granted_by: str,
) -> Grant:
    """Stores a grant, without checking that the account and the owner exist."""
    # First, as a lock: another transaction that gives a grant waits here, and then sees this one.
    await directory_changed(transaction, grant_request.account_id)
    now_s = runtime.at_s()
    until_s = None if lifetime_s is None else now_s + lifetime_s
    current = await held_grant(transaction, grant_request, now_s)
    if current is not None:
        await transaction.execute(
            _EXTEND, wanted=current.id, until_s=until_s, now_s=now_s, by=granted_by
        )
        given = msgspec.structs.replace(
            current, expires_at_s=until_s, extended_at_s=now_s, extended_by=granted_by
        )
    else:
        given = Grant(
            runtime.new_id(ID_PREFIX),
            **msgspec.structs.asdict(grant_request),
            granted_by=granted_by,
            granted_at_s=now_s,
            expires_at_s=until_s,
            revoked_at_s=None,
        )
        await transaction.execute(_INSERT, **msgspec.structs.asdict(given))
    await record_event(transaction, runtime, _event("consent.given", given))
    return given


def _event(kind: str, grant: Grant) -> Event:
    data = {
        "consent_id": grant.id,
        "owner_kind": grant.owner_kind,
        "owner_id": grant.owner_id,
        "scope": grant.scope,
        "expires_at": grant.expires_at_s,
    }
    return Event(grant.account_id, kind, f"consent:{grant.id}", data)


@transactional
async def revoke_grant(transaction: Transaction, runtime: Runtime, grant_id: str) -> Grant:
    """Revokes a grant, from the next call on."""
    account_id = (await find_grant(transaction, grant_id)).account_id
    await directory_changed(transaction, account_id)
    found = await find_grant(transaction, grant_id)
    if not await transaction.execute(_REVOKE, wanted=found.id, now_s=runtime.at_s()):
        raise LedgerError("Consent {grant_id} has ended already.", grant_id=grant_id)
    await record_event(transaction, runtime, _event("consent.revoked", found))
    revoked = await find_grant(transaction, grant_id)
    subject = f"account {found.account_id}"
    await record_act(transaction, runtime, "consent revoke", subject, before=found, after=revoked)
    return revoked


async def find_grant(reader: Reader, grant_id: str) -> Grant:
    row = await reader.fetch_one(_FIND, wanted=grant_id)
    if row is None:
        raise LedgerError(
            "There is no consent {grant_id}: `tollway consent list` shows them all.",
            grant_id=grant_id,
        )
    return Grant(*row)


def _parties(of: GrantRequest) -> dict[str, str]:
    return {"kind": of.owner_kind, "wanted": of.owner_id, "of_account": of.account_id}


async def grants_between(reader: Reader, grant_request: GrantRequest) -> Sequence[Grant]:
    """The grants of every scope from an owner to an account that are not revoked; some may have
    expired."""
    rows = await reader.fetch_all(_BETWEEN, **_parties(grant_request))
    return [Grant(*row) for row in rows]


async def held_grant(reader: Reader, grant_request: GrantRequest, now_s: float) -> Grant | None:
    """The valid grant for a request; None if there is none."""
    for each in await grants_between(reader, grant_request):
        if each.scope == grant_request.scope and each.holds(now_s):
            return each
    return None


async def given_since(reader: Reader, grant_request: GrantRequest, since_s: float) -> int:
    """How many grants an owner gave an account after a moment, of every scope."""
    values = {**_parties(grant_request), "since_s": int(since_s)}
    ((given,),) = await reader.fetch_all(_GIVEN_SINCE, **values)
    return int(given)


async def grants_of_owner(reader: Reader, kind: str, owner_id: str) -> Sequence[NamedGrant]:
    """Every grant an owner ever gave, the newest first."""
    return _named(await reader.fetch_all(_OF_OWNER, kind=kind, wanted=owner_id))


async def grants_of_account(reader: Reader, account_wanted: str) -> Sequence[NamedGrant]:
    found = await find_account(reader, account_wanted)
    return _named(await reader.fetch_all(_OF_ACCOUNT, wanted=found.id))


async def all_grants(reader: Reader) -> Sequence[NamedGrant]:
    return _named(await reader.fetch_all(_ALL))


async def grants_page(
    reader: Reader, wanted: str, after: tuple[int, str] | None, most: int
) -> Sequence[NamedGrant]:
    """The newest grants, or those after one: of all, or of a shop, user or account."""
    before_s, before_id = after or (2**62, "")
    values = {"before_s": before_s, "before_id": before_id, "most": most}
    if not wanted:
        return _named(await reader.fetch_all(_PAGE, **values))
    rows = await reader.fetch_all(_PAGE_OF_OWNER, wanted=wanted, **values)
    return _named(rows or await reader.fetch_all(_PAGE_OF_ACCOUNT, wanted=wanted, **values))


async def grants_of_account_page(
    reader: Reader, account_id: str, owner_id: str, after: tuple[int, str] | None, most: int
) -> Sequence[NamedGrant]:
    """The newest grants of an account, or those after one: of every owner, or of owners with this
    id."""
    before_s, before_id = after or (2**62, "")
    values = {"of_account": account_id, "before_s": before_s, "before_id": before_id, "most": most}
    if not owner_id:
        return _named(await reader.fetch_all(_ACCOUNT_PAGE, **values))
    return _named(await reader.fetch_all(_ACCOUNT_PAGE_OF_OWNER, wanted=owner_id, **values))


def _named(rows: Sequence[Row]) -> Sequence[NamedGrant]:
    return [NamedGrant(Grant(*row[:-2]), *row[-2:]) for row in rows]


# Sorts after every request id: those are hexadecimal.
_AFTER_ALL = "~"


class Read(msgspec.Struct, frozen=True):
    """One successful call under a grant; a repetition names the request that it repeats."""

    request_id: str
    at_ms: int
    operation: str
    replay_of: str | None
    # None if it is not known.
    records: int | None


_NEWEST = Query(
    lambda: (
        select(*(consent_use.c[name] for name in Read.__struct_fields__))
        .where(
            equals(consent_use, owner_kind="kind", owner_id="owner", consent_id="grant"),
            consent_use.c.request_id < bindparam("before"),
        )
        .order_by(consent_use.c.request_id.desc())
        .limit(bindparam("count"))
    )
)


async def newest_reads(
    reader: Reader, grant: Grant, count: int, before: str = _AFTER_ALL
) -> Sequence[Read]:
    """The newest reads before a request."""
    rows = await reader.fetch_all(
        _NEWEST,
        kind=grant.owner_kind,
        owner=grant.owner_id,
        grant=grant.id,
        before=before or _AFTER_ALL,
        count=count,
    )
    return [Read(*row) for row in rows]
