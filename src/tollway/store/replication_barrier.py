"""Acknowledging what is there already.

A commit that writes nothing waits for nobody. But what it found may be on this server alone: its
own commit may have waited for a synchronous standby in vain. The log is in one order, so whoever
writes anything to it, and waits for that, has waited for all that stands before.
"""

from sqlalchemy import text

from tollway.store.database import Transaction
from tollway.store.query import Query

# To the log alone: no row is locked by it, and none is left behind.
_WRITE_TO_LOG = Query(text("SELECT pg_logical_emit_message(true, 'tollway', '')"))


async def wait_for_standby(transaction: Transaction) -> None:
    """Makes the commit of work that wrote nothing durable wherever commits are."""
    if transaction.is_shared:
        await transaction.fetch_all(_WRITE_TO_LOG)
