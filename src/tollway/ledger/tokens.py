"""Issuing, listing and revoking access tokens. Only a token's hash is kept."""

from collections.abc import Mapping

import msgspec
from sqlalchemy import bindparam, func, select

from tollway.ledger.accounts import find_account
from tollway.ledger.errors import LedgerError
from tollway.ledger.identity import World
from tollway.ledger.token_format import is_well_formed, mint, token_hash
from tollway.store.database import Database, Reader, Transaction
from tollway.store.query import Query
from tollway.store.schema import token
from tollway.store.versions import directory_changed


class Token(msgspec.Struct, frozen=True):
    """A token as the operator sees it: never the token itself, only how it starts."""

    id: str
    account_id: str
    kind: str
    label: str
    start: str
    issued_at_s: int
    expires_at_s: int | None
    revoked_at_s: int | None
    last_used_at_s: int | None
    client_id: str | None


class IssuedToken(msgspec.Struct, frozen=True):
    """A token just issued; the only time its text is seen."""

    text: str
    token: Token


_COLUMNS = tuple(token.c[name] for name in Token.__struct_fields__)
_INSERT = Query(
    token.insert().values({name: bindparam(name) for name in ("hash", *Token.__struct_fields__)})
)
_OF_ACCOUNT = Query(
    select(*_COLUMNS)
    .where(token.c.account_id == bindparam("account_id"))
    .order_by(token.c.issued_at_s, token.c.id)
)
_FIND = Query(select(*_COLUMNS).where(token.c.id == bindparam("wanted")))
_FIND_BY_HASH = Query(select(*_COLUMNS).where(token.c.hash == bindparam("hash")))
_REVOKE = Query(
    token.update()
    .where(token.c.id == bindparam("wanted"), token.c.revoked_at_s.is_(None))
    .values(revoked_at_s=bindparam("revoked_at_s"))
)
# Two processes may report one token's use in any order: the later time stays.
_USED = Query(
    token.update()
    .where(
        token.c.id == bindparam("wanted"),
        func.coalesce(token.c.last_used_at_s, 0) < bindparam("used_at_s"),
    )
    .values(last_used_at_s=bindparam("used_at_s"))
)


async def issue_token(
    database: Database,
    world: World,
    account_wanted: str,
    *,
    kind: str = "live",
    label: str = "",
    lifetime_s: int | None = None,
) -> IssuedToken:
    async def work(transaction: Transaction) -> IssuedToken:
        found = await find_account(transaction, account_wanted)
        if found.closed_at_s is not None:
            raise LedgerError(f"Account {account_wanted} is closed: it can have no new token.")
        return await put_token(
            transaction, world, found.id, kind=kind, label=label, lifetime_s=lifetime_s
        )

    return await database.write(work)


async def put_token(
    transaction: Transaction,
    world: World,
    account_id: str,
    *,
    kind: str,
    label: str,
    lifetime_s: int | None,
    client_id: str | None = None,
) -> IssuedToken:
    """Makes a token for an account that is there and open."""
    text, now_s = mint(kind, world.pick), world.at_s()
    issued = Token(
        id=world.new_id("tok_"),
        account_id=account_id,
        kind=kind,
        label=label,
        start=text[:12],
        issued_at_s=now_s,
        expires_at_s=None if lifetime_s is None else now_s + lifetime_s,
        revoked_at_s=None,
        last_used_at_s=None,
        client_id=client_id,
    )
    await transaction.execute(_INSERT, hash=token_hash(text), **msgspec.structs.asdict(issued))
    return IssuedToken(text, issued)


async def list_tokens(reader: Reader, account_wanted: str) -> list[Token]:
    found = await find_account(reader, account_wanted)
    return [Token(*row) for row in await reader.fetch_all(_OF_ACCOUNT, account_id=found.id)]


async def revoke_token(database: Database, world: World, wanted: str) -> Token:
    """Revokes the token with this id, or this very text; it is refused from the next call on."""

    async def work(transaction: Transaction) -> Token:
        found = await _find_token(transaction, wanted)
        if not await transaction.execute(_REVOKE, wanted=found.id, revoked_at_s=world.at_s()):
            raise LedgerError(f"Token {found.id} is revoked already.")
        await directory_changed(transaction)
        return await _find_token(transaction, found.id)

    return await database.write(work)


async def record_use(database: Database, used_at_s: Mapping[str, int]) -> None:
    """Writes down when tokens were last used."""
    rows = [{"wanted": token_id, "used_at_s": at_s} for token_id, at_s in used_at_s.items()]

    async def work(transaction: Transaction) -> None:
        await transaction.execute_many(_USED, rows)

    await database.write(work)


async def _find_token(reader: Reader, wanted: str) -> Token:
    if is_well_formed(wanted):
        row = await reader.fetch_one(_FIND_BY_HASH, hash=token_hash(wanted))
    else:
        row = await reader.fetch_one(_FIND, wanted=wanted)
    if row is None:
        raise LedgerError("There is no such token: `tollway token list ACCOUNT` shows their ids.")
    return Token(*row)
