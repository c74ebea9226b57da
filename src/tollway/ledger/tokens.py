"""Tokens: how they are issued, listed, replaced, revoked and marked as used."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Literal

import msgspec
from sqlalchemy import BigInteger, bindparam, case, func, or_, select

from tollway.contract.language import Phrase
from tollway.ledger import LedgerError
from tollway.ledger.accounts import find_account
from tollway.ledger.creation_limits import Counted, count_today, limit_reached
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_format import is_well_formed, mint, token_hash
from tollway.ledger.token_limits import (
    LIMIT_COLUMNS,
    NO_LIMITS,
    TokenLimits,
    begin_days,
    counter_of,
    limits_of,
    stored_limits,
)
from tollway.ledger.trail import record_act
from tollway.store.cache_versions import directory_changed
from tollway.store.database import Database, Reader, Row, Transaction
from tollway.store.query import Query, insert_row
from tollway.store.schema.ledger import token
from tollway.store.small_commits import PIECE

# In place of a client's id: marks a token that pages call with. Like a client's, it expires.
PAGES = "pages"
# Enough for every program of an account, and few enough to be listed in one answer.
_VALID_MAX = 200
# Rows are kept for audits, so an account's tokens only grow in number: lists are cut at this many.
LISTED_MAX = 1000
LIFETIME_MAX_S = 36_500 * 86_400
NEVER_S = 2**62
_AHEAD_S = 86_400
# Refuses a maker who has lost the right to it; who has it keeps it until the transaction ends.
MakerCheck = Callable[[Transaction], Awaitable[None]]


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
    limits: TokenLimits = NO_LIMITS

    def state(self, now_s: float) -> Literal["valid", "expired", "revoked"]:
        """Its own state; no token of a closed account is accepted, whatever its state."""
        if self.revoked_at_s is not None:
            return "revoked"
        has_expired = self.expires_at_s is not None and self.expires_at_s <= now_s
        return "expired" if has_expired else "valid"


class IssuedToken(msgspec.Struct, frozen=True):
    """A token just issued; the only time its text is seen."""

    text: str
    token: Token


_FACTS = tuple(name for name in Token.__struct_fields__ if name != "limits")
TOKEN_COLUMNS = (*(token.c[name] for name in _FACTS), *LIMIT_COLUMNS)
_INSERT = Query(lambda: insert_row(token))
_of_account = (
    select(*TOKEN_COLUMNS)
    .where(token.c.account_id == bindparam("account_id"))
    .order_by(token.c.issued_at_s, token.c.id)
)
_OF_ACCOUNT = Query(_of_account)
_is_own = func.coalesce(token.c.client_id, "") != PAGES
_has_ended = or_(
    token.c.revoked_at_s.is_not(None),
    func.coalesce(token.c.expires_at_s, NEVER_S) <= bindparam("now_s", type_=BigInteger),
)
# Valid ones first, and among those the ones that people made: clients make thousands.
_OF_CALLER = Query(
    lambda: (
        select(*TOKEN_COLUMNS)
        .where(token.c.account_id == bindparam("account_id"), _is_own)
        .order_by(
            case((_has_ended, 1), else_=0),
            case((token.c.client_id.is_not(None), 1), else_=0),
            token.c.issued_at_s.desc(),
            token.c.id,
        )
        .limit(LISTED_MAX)
    )
)
_OWN = Query(
    lambda: select(*TOKEN_COLUMNS).where(
        token.c.id == bindparam("wanted"), token.c.account_id == bindparam("account_id"), _is_own
    )
)
_ANY_OWN = Query(
    lambda: (
        select(token.c.id)
        .where(
            token.c.account_id == bindparam("account_id"), _is_own, token.c.revoked_at_s.is_(None)
        )
        .limit(1)
    )
)
# Tokens of clients and pages do not count: they are many, but expire soon.
_VALID = Query(
    lambda: (
        select(func.count())
        .select_from(token)
        .where(
            token.c.account_id == bindparam("of_account"),
            token.c.client_id.is_(None),
            token.c.revoked_at_s.is_(None),
            func.coalesce(token.c.expires_at_s, NEVER_S) > bindparam("now_s", type_=BigInteger),
        )
    )
)
_FIND = Query(lambda: select(*TOKEN_COLUMNS).where(token.c.id == bindparam("wanted")))
_FIND_BY_HASH = Query(lambda: select(*TOKEN_COLUMNS).where(token.c.hash == bindparam("hash")))
_REVOKE = Query(
    lambda: (
        token.update()
        .where(token.c.id == bindparam("wanted"), token.c.revoked_at_s.is_(None))
        .values(revoked_at_s=bindparam("revoked_at_s"))
    )
)
_END = Query(
    lambda: (
        token.update()
        .where(token.c.id == bindparam("wanted"), token.c.revoked_at_s.is_(None))
        .values(expires_at_s=bindparam("ends_at_s"))
    )
)
# Two processes may report one token's use in any order: the later time stays, unless it is so late
# that a clock was ahead.
_USED = Query(
    lambda: (
        token.update()
        .where(
            token.c.id == bindparam("wanted"),
            or_(
                func.coalesce(token.c.last_used_at_s, 0) < bindparam("used_at_s"),
                token.c.last_used_at_s > bindparam("used_at_s", type_=BigInteger) + _AHEAD_S,
            ),
        )
        .values(last_used_at_s=bindparam("used_at_s"))
    )
)


async def issue_token(
    database: Database,
    runtime: Runtime,
    account_wanted: str,
    *,
    kind: str = "live",
    label: str = "",
    lifetime_s: int | None = None,
    client_id: str | None = None,
    limits: TokenLimits = NO_LIMITS,
    day_start_s: int | None = None,
    check_maker: MakerCheck | None = None,
) -> IssuedToken:
    """A new token; with `client_id` it ends with that client. If a caller makes it, it counts
    against the limit of the day that began at `day_start_s`."""
    if lifetime_s is not None and not 0 < lifetime_s <= LIFETIME_MAX_S:
        raise LedgerError(
            "A token is valid for 1 to {most:,} days, or without an end.",
            most=LIFETIME_MAX_S // 86_400,
            days=lifetime_s // 86_400,
        )
    if kind == "test" and limits.is_capped:
        raise LedgerError("A test token spends nothing: only a live token can have a cap.")

    async def work(transaction: Transaction) -> IssuedToken:
        found = await find_account(transaction, account_wanted)
        if found.closed_at_s is not None:
            raise LedgerError(
                "Account {account} is closed: it can have no new token.", account=account_wanted
            )
        if day_start_s is not None:
            await count_today(transaction, found.id, Counted.TOKENS, day_start_s)
            if client_id is None:
                await _check_number(transaction, runtime, found.id)
        if check_maker is not None:
            await check_maker(transaction)
        issued = await put_token(
            transaction,
            runtime,
            found.id,
            kind=kind,
            label=label,
            lifetime_s=lifetime_s,
            client_id=client_id,
            limits=limits,
        )
        subject = f"account {found.id}"
        await record_act(transaction, runtime, "token issue", subject, after=issued.token)
        return issued

    return await database.write(work)


async def _check_number(transaction: Transaction, runtime: Runtime, account_id: str) -> None:
    """Refuses a caller one more token if the account has too many. The day's count is locked, so
    concurrent requests see each other's tokens."""
    row = await transaction.fetch_one(_VALID, of_account=account_id, now_s=runtime.at_s())
    if row is not None and row[0] >= _VALID_MAX:
        raise limit_reached(
            _VALID_MAX,
            Phrase("valid tokens", "的有效令牌"),
            Phrase("revoke those that are not used", "请撤销不再使用的令牌"),
        )


async def put_token(
    transaction: Transaction,
    runtime: Runtime,
    account_id: str,
    *,
    kind: str,
    label: str,
    lifetime_s: int | None,
    client_id: str | None = None,
    limits: TokenLimits = NO_LIMITS,
    replaces: str | None = None,
) -> IssuedToken:
    """Makes a token for an account that exists and is open."""
    text, now_s = mint(kind, runtime.pick), runtime.at_s()
    issued = Token(
        id=runtime.new_id("tok_"),
        account_id=account_id,
        kind=kind,
        label=label,
        start=text[:12],
        issued_at_s=now_s,
        expires_at_s=None if lifetime_s is None else now_s + lifetime_s,
        revoked_at_s=None,
        last_used_at_s=None,
        client_id=client_id,
        limits=limits,
    )
    facts = {name: getattr(issued, name) for name in _FACTS}
    # Shares the old token's count: otherwise rotating would reset the day's cap.
    shared = await counter_of(transaction, replaces) if replaces and limits.is_capped else None
    await transaction.execute(
        _INSERT, hash=token_hash(text), counted_with=shared, **facts, **stored_limits(limits)
    )
    if limits.is_capped and shared is None:
        await begin_days(transaction, issued.id)
    return IssuedToken(text, issued)


async def list_tokens(reader: Reader, account_wanted: str) -> list[Token]:
    found = await find_account(reader, account_wanted)
    return [token_of(row) for row in await reader.fetch_all(_OF_ACCOUNT, account_id=found.id)]


async def list_own_tokens(database: Database, account_id: str, now_s: float) -> list[Token]:
    """The tokens that an account manages itself, the oldest first: not those of pages, which a page
    makes again whenever they are revoked. If there are too many, ended ones are left out."""
    rows = await database.fetch_long(
        _OF_CALLER, account_id, account_id=account_id, now_s=int(now_s)
    )
    return sorted(map(token_of, rows), key=lambda each: (each.issued_at_s, each.id))


async def find_own_token(reader: Reader, account_id: str, token_id: str) -> Token | None:
    """A token that the account manages itself; None if there is none with this id."""
    row = await reader.fetch_one(_OWN, account_id=account_id, wanted=token_id)
    return None if row is None else token_of(row)


async def has_own_token(reader: Reader, account_id: str) -> bool:
    """Whether an account manages a token itself that is not revoked."""
    return await reader.fetch_one(_ANY_OWN, account_id=account_id) is not None


async def revoke_token(database: Database, runtime: Runtime, wanted: str) -> Token:
    """Revokes the token with this id or text; it is refused from the next call on."""

    async def work(transaction: Transaction) -> Token:
        found = await _find_token(transaction, wanted)
        if not await transaction.execute(_REVOKE, wanted=found.id, revoked_at_s=runtime.at_s()):
            raise LedgerError("Token {token_id} is revoked already.", token_id=found.id)
        await directory_changed(transaction, found.account_id)
        revoked = await _find_token(transaction, found.id)
        subject = f"account {found.account_id}"
        await record_act(transaction, runtime, "token revoke", subject, before=found, after=revoked)
        return revoked

    return await database.write(work)


async def one_at_a_time(transaction: Transaction, client_id: str) -> None:
    """Locks a client: its tokens are counted, added and revoked by one transaction at a time."""
    await transaction.lock_names([f"tokens of {client_id}"])


async def replace_token(
    database: Database,
    runtime: Runtime,
    old: Token,
    overlap_s: int,
    *,
    day_start_s: int,
    not_after_s: int | None = None,
    check_maker: MakerCheck | None = None,
) -> IssuedToken:
    """A new token like `old`, which ends after `overlap_s`, or earlier if it would have expired
    before. The new one expires when the old one would have, and not after `not_after_s`. The
    rotation counts in the day that began at `day_start_s`; the maximum number of tokens does not
    apply. It is refused if `old` was replaced since it was read: that new token is not known here.
    """

    async def work(transaction: Transaction) -> IssuedToken:
        await count_today(transaction, old.account_id, Counted.ROTATIONS, day_start_s)
        if check_maker is not None:
            await check_maker(transaction)
        if old.client_id is not None:
            await one_at_a_time(transaction, old.client_id)
        # The day's count is locked by now, so that of two concurrent rotations one sees the other.
        if (await _find_token(transaction, old.id)).expires_at_s != old.expires_at_s:
            raise LedgerError(
                "Token {token_id} was rotated meanwhile: no other was made.", token_id=old.id
            )
        now_s = runtime.at_s()
        left_s = None if old.expires_at_s is None else max(1, old.expires_at_s - now_s)
        most_s = None if not_after_s is None else max(1, not_after_s - now_s)
        lifetimes = [each for each in (left_s, most_s) if each is not None]
        issued = await put_token(
            transaction,
            runtime,
            old.account_id,
            kind=old.kind,
            label=old.label,
            lifetime_s=min(lifetimes, default=None),
            client_id=old.client_id,
            limits=old.limits,
            replaces=old.id,
        )
        ends_at_s = now_s + overlap_s
        if old.expires_at_s is not None:
            # A second sooner at least: by its other end another rotation sees that this one was.
            ends_at_s = min(ends_at_s, old.expires_at_s - 1)
        if not await transaction.execute(_END, wanted=old.id, ends_at_s=ends_at_s):
            raise LedgerError("Token {token_id} is revoked already.", token_id=old.id)
        await directory_changed(transaction, old.account_id)
        subject = f"account {old.account_id}"
        await record_act(
            transaction, runtime, "token rotate", subject, before=old, after=issued.token
        )
        return issued

    return await database.write(work)


async def record_use(database: Database, used_at_s: dict[str, int]) -> None:
    """Stores when tokens were last used, and removes them from `used_at_s`: after a failure, what
    is left there is not stored."""
    while used_at_s:
        # A fixed lock order prevents deadlocks between workers that store the same tokens.
        piece = sorted(used_at_s)[:PIECE]
        rows = [{"wanted": token_id, "used_at_s": used_at_s[token_id]} for token_id in piece]
        await database.write(partial(_store_use, rows))
        for token_id in piece:
            del used_at_s[token_id]


async def _store_use(rows: Sequence[dict[str, object]], transaction: Transaction) -> None:
    await transaction.execute_many(_USED, rows)


async def _find_token(reader: Reader, wanted: str) -> Token:
    if is_well_formed(wanted):
        row = await reader.fetch_one(_FIND_BY_HASH, hash=token_hash(wanted))
    else:
        row = await reader.fetch_one(_FIND, wanted=wanted)
    if row is None:
        raise LedgerError("There is no such token: `tollway token list ACCOUNT` shows their ids.")
    return token_of(row)


def token_of(row: Row) -> Token:
    facts, stored = row[: len(_FACTS)], row[len(_FACTS) :]
    limits = limits_of(stored)
    return Token(*(*facts, limits))
