"""The tokens that clients obtain: how many, for how long, and when their rows go.

A token that has expired is of no use to anybody, and entries and receipts name it by its id alone.
So its row goes a day later. Those of the sandbox stay: by them the audit knows that no test token
was ever charged.
"""

from sqlalchemy import BigInteger, bindparam, select

from tollway.ledger.clients import Client, is_in_force, one_at_a_time
from tollway.ledger.identity import World
from tollway.ledger.tokens import IssuedToken, put_token
from tollway.store.database import Database, Reader, Transaction
from tollway.store.query import Query
from tollway.store.schema import token

TOKENS_MAX = 10
WINDOW_S = 60
# Longer than any node's clock is ahead of another's.
_KEPT_S = 24 * 3600
# Rows per commit: the calls that are charged meanwhile wait for one of these at most.
_PIECE = 500

# Those of the future were issued while a clock went wrong, and must not keep a client out for long.
_LATELY = Query(
    select(token.c.issued_at_s)
    .where(
        token.c.client_id == bindparam("of_client"),
        token.c.issued_at_s > bindparam("since_s", type_=BigInteger),
        token.c.issued_at_s <= bindparam("until_s", type_=BigInteger),
    )
    .order_by(token.c.issued_at_s.desc())
    .limit(TOKENS_MAX)
)
# Whoever sweeps waits for nobody: what another node is at is gone the next time.
_SWEEP = Query(
    token.delete().where(
        token.c.hash.in_(
            select(token.c.hash)
            .where(
                token.c.client_id.is_not(None),
                token.c.kind == "live",
                token.c.expires_at_s <= bindparam("before_s", type_=BigInteger),
            )
            .order_by(token.c.expires_at_s)
            .limit(_PIECE)
            .with_for_update(skip_locked=True)
        )
    )
)


class TooManyTokensError(Exception):
    """A client obtained as many tokens as it may for now."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(retry_after_s)
        self.retry_after_s = retry_after_s


async def obtain_token(
    database: Database, world: World, client: Client, lifetime_s: int
) -> IssuedToken | None:
    """A token for a client that was recognised; None if it was revoked in this very moment."""
    # Looked at before anything is written, so that whoever asks without end costs one read.
    await _check_limit(database, world, client.id)

    async def work(transaction: Transaction) -> IssuedToken | None:
        await one_at_a_time(transaction, client.id)
        if not await is_in_force(transaction, client.id):
            return None
        await _check_limit(transaction, world, client.id)
        return await put_token(
            transaction,
            world,
            client.account_id,
            kind=client.kind,
            label=f"client {client.id}",
            lifetime_s=lifetime_s,
            client_id=client.id,
        )

    return await database.write(work)


async def _check_limit(reader: Reader, world: World, client_id: str) -> None:
    now_s = world.at_s()
    lately = await reader.fetch_all(
        _LATELY, of_client=client_id, since_s=now_s - WINDOW_S, until_s=now_s + WINDOW_S
    )
    if len(lately) == TOKENS_MAX:
        ((oldest_s,), *_) = reversed(lately)
        raise TooManyTokensError(oldest_s + WINDOW_S - now_s)


async def sweep_client_tokens(database: Database, now_s: int) -> int:
    """Removes rows of tokens that expired long enough ago; how many that were."""

    async def sweep(transaction: Transaction) -> int:
        async with transaction.planned_anew():
            return await transaction.execute(_SWEEP, before_s=now_s - _KEPT_S)

    return await database.write(sweep)
