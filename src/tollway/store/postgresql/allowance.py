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
# reserved_connections is known only from PostgreSQL 16 on.
_ALLOWED = Query(
    select(
        text(
            "current_setting('max_connections')::integer"
            " - current_setting('superuser_reserved_connections')::integer"
            " - coalesce(current_setting('reserved_connections', true)::integer, 0)"
        ),
        text("(SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user)"),
        text(
            "(SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database())"
        ),
    )
)


async def crowding(reader: Reader, processes: int, connections: int, own_ms: int) -> list[str]:
    """A sentence if the server may run out of connections once these processes serve as well, each
    with a pool of so many; those that serve already are taken to have as many."""
    if not reader.is_shared:
        return []
    ((by_server, by_role, by_database),) = await reader.fetch_all(_ALLOWED)
    allowed = min(limit for limit in (by_server, by_role, by_database) if limit is not None)
    processes += await count_serving(reader, own_ms)
    needed = processes * (connections + _LISTENING)
    if needed <= allowed:
        return []
    return [
        f"PostgreSQL allows {allowed} connections here, and the {processes} processes that serve "
        f"may open {needed}: let it allow {needed + _FOR_OTHERS} (max_connections, and CONNECTION "
        "LIMIT of the role and the database), or set database_connections lower on every node."
    ]
