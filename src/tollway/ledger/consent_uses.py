"""What the owner of a grant is told: one line per successful call under it, in its commit."""

from collections.abc import Iterable

from sqlalchemy import bindparam

from tollway.ledger.charges import GrantKey
from tollway.store.consent_tables import consent_use
from tollway.store.database import Transaction
from tollway.store.query import Query

_ADD_USE = Query(consent_use.insert().values({c.name: bindparam(c.name) for c in consent_use.c}))

# In the order of the table's columns.
Use = tuple[object, ...]


def use_of(grant: GrantKey, request_id: str, at_ms: int, operation: str) -> Use:
    return (grant.owner_kind, grant.owner_id, grant.consent_id, request_id, at_ms, operation)


async def add_uses(transaction: Transaction, uses: Iterable[Use]) -> None:
    await transaction.execute_many(_ADD_USE, uses)
