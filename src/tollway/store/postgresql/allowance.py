"""Whether the server allows as many connections as its gateways may open.

One too many is refused in the busiest hour, when all of them are wanted: so whoever starts a
gateway is told before.
"""

from sqlalchemy import select, text

from tollway.store.database import Reader
from tollway.store.nodes import count_serving
from tollway.store.query import Query

# Beside those of the pool, one of each process listens for changes.
_LISTENING = 1
# For commands, backups and standbys.
_FOR_OTHERS = 20
_SETTINGS = Query(
    select(
        text("current_setting('max_connections')::integer"),
        text(
            "current_setting('superuser_reserved_connections')::integer"
            # Only from PostgreSQL 16 on.
            " + coalesce(current_setting('reserved_connections', true)::integer, 0)"
        ),
    )
)


async def crowding(reader: Reader, processes: int, connections: int, own_ms: int) -> list[str]:
    """A sentence if the server may run out of connections once these processes serve as well, each
    with a pool of so many; those that serve already are taken to have as many."""
    if not reader.is_shared:
        return []
    ((allowed, reserved),) = await reader.fetch_all(_SETTINGS)
    processes += await count_serving(reader, own_ms)
    needed = processes * (connections + _LISTENING)
    if needed <= allowed - reserved:
        return []
    return [
        f"PostgreSQL allows {allowed - reserved} connections, and the {processes} processes that "
        f"serve it may open {needed}: set its max_connections to {needed + reserved + _FOR_OTHERS} "
        "or more, or set database_connections lower on every node."
    ]
