"""Clients: programs of an account that obtain tokens themselves, and the tokens they obtain.

Only the hash of a client's secret is stored. How many tokens a client obtains is limited; a sweep
removes them some time after they have expired, and the tokens of the gateway's own pages too.
"""

import hmac
import re

import msgspec
from sqlalchemy import BigInteger, bindparam, select

from tollway.ledger import LedgerError
from tollway.ledger.accounts import find_account
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_format import SECRET, is_well_formed, mint, token_hash
from tollway.ledger.tokens import IssuedToken, one_at_a_time, put_token
from tollway.ledger.trail import record_act
from tollway.store.cache_versions import directory_changed
from tollway.store.database import Database, Reader, Transaction
from tollway.store.query import Query, insert_row
from tollway.store.schema.ledger import account, client, token
from tollway.store.small_commits import PieceBudget, delete_oldest

_CLIENT_ID = re.compile("cli_[0-9a-z]{12}", re.ASCII)
# Compared with the secret if the client does not exist: no text has this hash.
_NO_HASH = bytes(32)


class Client(msgspec.Struct, frozen=True):
    """A client as the operator sees it: never the secret itself, only how it starts."""

    id: str
    account_id: str
    kind: str
    label: str
    start: str
    added_at_s: int
    revoked_at_s: int | None


class AddedClient(msgspec.Struct, frozen=True):
    """A client just added; the only time its secret is seen."""

    client_id: str
    client_secret: str
    client: Client


_COLUMNS = tuple(client.c[name] for name in Client.__struct_fields__)
_INSERT = Query(lambda: insert_row(client))
_OF_ACCOUNT = Query(
    lambda: (
        select(*_COLUMNS)
        .where(client.c.account_id == bindparam("of_account"))
        .order_by(client.c.added_at_s, client.c.id)
    )
)
_FIND = Query(lambda: select(*_COLUMNS).where(client.c.id == bindparam("wanted")))
_FIND_BY_HASH = Query(lambda: select(*_COLUMNS).where(client.c.hash == bindparam("wanted")))
_IN_FORCE = Query(
    lambda: (
        select(client.c.hash, *_COLUMNS)
        .join(account, account.c.id == client.c.account_id)
        .where(
            client.c.id == bindparam("wanted"),
            client.c.revoked_at_s.is_(None),
            account.c.closed_at_s.is_(None),
        )
    )
)
_REVOKE = Query(
    lambda: (
        client.update()
        .where(client.c.id == bindparam("wanted"), client.c.revoked_at_s.is_(None))
        .values(revoked_at_s=bindparam("now_s"))
    )
)
# Even those that have expired by this node's clock: if it is ahead, other nodes still accept them.
_REVOKE_TOKENS = Query(
    lambda: (
        token.update()
        .where(token.c.client_id == bindparam("wanted"), token.c.revoked_at_s.is_(None))
        .values(revoked_at_s=bindparam("now_s"))
    )
)


async def add_client(
    database: Database,
    runtime: Runtime,
    account_wanted: str,
    *,
    kind: str = "live",
    label: str = "",
) -> AddedClient:
    secret = mint(SECRET, runtime.pick)

    async def work(transaction: Transaction) -> Client:
        found = await find_account(transaction, account_wanted)
        if found.closed_at_s is not None:
            raise LedgerError(
                "Account {account} is closed: it can have no new client.", account=account_wanted
            )
        added = Client(
            id=runtime.new_id("cli_"),
            account_id=found.id,
            kind=kind,
            label=label,
            start=secret[:14],
            added_at_s=runtime.at_s(),
            revoked_at_s=None,
        )
        await transaction.execute(_INSERT, hash=token_hash(secret), **msgspec.structs.asdict(added))
        subject = f"account {found.id}"
        await record_act(transaction, runtime, "client add", subject, after=added)
        return added

    added = await database.write(work)
    return AddedClient(added.id, secret, added)


async def list_clients(reader: Reader, account_wanted: str) -> list[Client]:
    found = await find_account(reader, account_wanted)
    return [Client(*row) for row in await reader.fetch_all(_OF_ACCOUNT, of_account=found.id)]


async def revoke_client(database: Database, runtime: Runtime, wanted: str) -> Client:
    """Revokes the client with this id, or this very secret, and every token that it obtained."""

    async def work(transaction: Transaction) -> Client:
        found = await _find_client(transaction, wanted)
        await one_at_a_time(transaction, found.id)
        now_s = runtime.at_s()
        if not await transaction.execute(_REVOKE, wanted=found.id, now_s=now_s):
            raise LedgerError("Client {client_id} is revoked already.", client_id=found.id)
        await transaction.execute(_REVOKE_TOKENS, wanted=found.id, now_s=now_s)
        await directory_changed(transaction, found.account_id)
        revoked = await _find_client(transaction, found.id)
        subject = f"account {found.account_id}"
        await record_act(
            transaction, runtime, "client revoke", subject, before=found, after=revoked
        )
        return revoked

    return await database.write(work)


def is_client_id(text: str) -> bool:
    """Whether a text has the form of a client id; if not, it may be a misplaced secret."""
    return _CLIENT_ID.fullmatch(text) is not None


async def recognise(reader: Reader, client_id: str, secret: str) -> Client | None:
    """The client with this id and secret; None, whatever is wrong with them. A malformed id or
    secret is refused without a query."""
    if not (is_client_id(client_id) and is_well_formed(secret, [SECRET])):
        return None
    row = await reader.fetch_one(_IN_FORCE, wanted=client_id)
    hashed, *facts = row or (_NO_HASH,)
    # Constant time: an unknown client and a wrong secret take equally long.
    is_right = hmac.compare_digest(hashed, token_hash(secret))
    return Client(*facts) if is_right else None


async def is_in_force(reader: Reader, client_id: str) -> bool:
    """Whether the client is not revoked and its account not closed."""
    return await reader.fetch_one(_IN_FORCE, wanted=client_id) is not None


async def _find_client(reader: Reader, wanted: str) -> Client:
    if is_well_formed(wanted, [SECRET]):
        row = await reader.fetch_one(_FIND_BY_HASH, wanted=token_hash(wanted))
    else:
        row = await reader.fetch_one(_FIND, wanted=wanted)
    if row is None:
        raise LedgerError("There is no such client: `tollway client list ACCOUNT` shows their ids.")
    return Client(*row)


TOKENS_MAX = 10
WINDOW_S = 60
# Longer than any clock skew between nodes. Test tokens are kept for audits, which prove that none
# of them was charged.
_KEPT_S = {"live": 24 * 3600, "test": 30 * 24 * 3600}
# Pieces that one sweep deletes at most, each in a commit of its own.
_SWEEP_PIECES_MAX = 20

# Tokens dated in the future come from a wrong clock, and must not lock a client out for long.
_LATELY = Query(
    lambda: (
        select(token.c.issued_at_s)
        .where(
            token.c.client_id == bindparam("of_client"),
            token.c.issued_at_s > bindparam("since_s", type_=BigInteger),
            token.c.issued_at_s <= bindparam("until_s", type_=BigInteger),
        )
        .order_by(token.c.issued_at_s.desc())
        .limit(TOKENS_MAX)
    )
)
_SWEEP = delete_oldest(
    token,
    token.c.expires_at_s,
    token.c.client_id.is_not(None),
    token.c.kind == bindparam("of_kind"),
)


class TooManyTokensError(Exception):
    """A client obtained as many tokens as it may for now."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(retry_after_s)
        self.retry_after_s = retry_after_s


async def obtain_token(
    database: Database, runtime: Runtime, client: Client, lifetime_s: int
) -> IssuedToken | None:
    """A token for a recognised client; None if the client was revoked at this moment."""
    # Checked before the transaction too, so that a client that asks endlessly costs only reads.
    await _check_limit(database, runtime, client.id)

    async def work(transaction: Transaction) -> IssuedToken | None:
        await one_at_a_time(transaction, client.id)
        if not await is_in_force(transaction, client.id):
            return None
        await _check_limit(transaction, runtime, client.id)
        return await put_token(
            transaction,
            runtime,
            client.account_id,
            kind=client.kind,
            label=f"client {client.id}",
            lifetime_s=lifetime_s,
            client_id=client.id,
        )

    return await database.write(work)


async def _check_limit(reader: Reader, runtime: Runtime, client_id: str) -> None:
    now_s = runtime.at_s()
    lately = await reader.fetch_all(
        _LATELY, of_client=client_id, since_s=now_s - WINDOW_S, until_s=now_s + WINDOW_S
    )
    if len(lately) == TOKENS_MAX:
        ((oldest_s,), *_) = reversed(lately)
        raise TooManyTokensError(oldest_s + WINDOW_S - now_s)


async def sweep_client_tokens(database: Database, now_s: int) -> int:
    """Removes rows of tokens that expired long enough ago; returns how many."""
    budget, swept = PieceBudget(_SWEEP_PIECES_MAX), 0
    for kind, kept_s in _KEPT_S.items():
        swept += await budget.sweep(database, _SWEEP, of_kind=kind, until=now_s - kept_s)
    return swept
