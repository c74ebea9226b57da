"""Whether a PostgreSQL server keeps what it has committed when its machine loses power, and waiting
for its synchronous standby."""

from sqlalchemy import select, text

from tollway.store.database import Reader, Transaction
from tollway.store.query import Query

# `synchronous_commit` is not among them: every connection sets it (`hosts.py`).
_RISKS = {
    "fsync": "charges that were acknowledged can be lost, or the whole database",
    "full_page_writes": (
        "the database can be damaged, unless its file system never writes half a page (ZFS)"
    ),
}
_SETTINGS = Query(lambda: select(*(text(f"current_setting('{name}')") for name in _RISKS)))
# Writes only to the log: it locks no row and leaves none behind.
_WRITE_TO_LOG = Query(lambda: text("SELECT pg_logical_emit_message(true, 'tollway', '')"))


async def durability_risks(reader: Reader) -> list[str]:
    """A sentence for each setting of the server by which a power cut can do damage."""
    if not reader.is_shared:
        return []
    (values,) = await reader.fetch_all(_SETTINGS)
    return [
        f"PostgreSQL runs with {name} = off. If its machine crashes or loses power, {risk}: set "
        f"{name} = on in postgresql.conf, then run SELECT pg_reload_conf()."
        for (name, risk), value in zip(_RISKS.items(), values, strict=True)
        if value == "off"
    ]


async def wait_for_standby(transaction: Transaction) -> None:
    """Makes a commit that wrote nothing wait for the standby like any other.

    The rows that it found may be on the primary alone, if their own commit's wait timed out. The
    write-ahead log has one order: a commit that writes to it, and waits, has waited for everything
    before it.
    """
    if transaction.is_shared:
        await transaction.fetch_all(_WRITE_TO_LOG)
