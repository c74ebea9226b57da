"""Tokens that make or replace others: what is made with a token is stored before the token is
revoked, or not at all. So an operator who has revoked one sees all that was made with it."""

from collections.abc import Sequence

from sqlalchemy import bindparam, select

from tollway.ledger import LedgerError
from tollway.ledger.tokens import Token, one_at_a_time
from tollway.store.database import Transaction
from tollway.store.query import Query
from tollway.store.schema.ledger import token

# Others may use the token meanwhile, but not revoke it.
_HOLD = Query(
    lambda: (
        select(token.c.revoked_at_s)
        .where(token.c.id == bindparam("wanted"))
        .with_for_update(read=True)
    )
)


async def hold_tokens(held: Sequence[Token], transaction: Transaction) -> None:
    """Refuses tokens of which one is revoked. Until the transaction ends, none of them is, nor the
    client that obtained it."""
    # A fixed lock order prevents deadlocks.
    for client_id in sorted({each.client_id for each in held if each.client_id is not None}):
        await one_at_a_time(transaction, client_id)
    for token_id in sorted({each.id for each in held}):
        row = await transaction.fetch_one(_HOLD, wanted=token_id)
        if row is None or row[0] is not None:
            raise LedgerError("Token {token_id} is revoked already.", token_id=token_id)
