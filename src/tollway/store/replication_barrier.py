"""Waiting for the synchronous standby before acknowledging rows that another commit wrote.

A commit that writes nothing does not wait for the standby. But the rows it found may be on the
primary alone, if their own commit's wait for the standby timed out. The write-ahead log has one
order: a commit that writes to it, and waits, has waited for everything before it.
"""

from sqlalchemy import text

from tollway.store.database import Transaction
from tollway.store.query import Query

# Writes only to the log: it locks no row and leaves none behind.
_WRITE_TO_LOG = Query(lambda: text("SELECT pg_logical_emit_message(true, 'tollway', '')"))


async def wait_for_standby(transaction: Transaction) -> None:
    """Makes a commit that wrote nothing wait for the standby like any other."""
    if transaction.is_shared:
        await transaction.fetch_all(_WRITE_TO_LOG)
