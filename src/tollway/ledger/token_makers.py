"""Tokens that make something that stays, such as other tokens: it is stored before the token is
revoked, or not at all. So an operator who has revoked one sees all that was made with it."""

from collections.abc import Iterable

from sqlalchemy import bindparam, select

from tollway.ledger import LedgerError
from tollway.ledger.tokens import one_at_a_time
from tollway.store.database import Transaction
from tollway.store.query import Query
from tollway.store.schema.ledger import token

_CLIENT = Query(lambda: select(token.c.client_id).where(token.c.id == bindparam("wanted")))
# Others may use the token meanwhile, but not revoke it.
_HOLD = Query(
    lambda: (
        select(token.c.revoked_at_s)
        .where(token.c.id == bindparam("wanted"))
        .with_for_update(read=True)
    )
)


async def hold_tokens(token_ids: Iterable[str], transaction: Transaction) -> None:
    """Refuses tokens of which one is revoked. Until the transaction ends, none of them is, nor the
    client that obtained it."""
    # A fixed lock order prevents deadlocks.
    held = sorted(set(token_ids))
    clients = {await transaction.fetch_one(_CLIENT, wanted=each) for each in held}
    for client_id in sorted(row[0] for row in clients if row is not None and row[0] is not None):
        await one_at_a_time(transaction, client_id)
    for token_id in held:
        row = await transaction.fetch_one(_HOLD, wanted=token_id)
        if row is None or row[0] is not None:
            raise LedgerError("Token {token_id} is revoked already.", token_id=token_id)
