"""The clock that all nodes of a database use.

A shared database has one: its server's. Times that one node writes and another compares come from
that clock, so that no node's own clock decides for all. An embedded database uses this machine's.
"""

from collections.abc import Callable

from sqlalchemy import BigInteger, cast, extract, func, select

from tollway.store.database import Reader
from tollway.store.query import Query

# The current moment, not the start of the transaction: it may have waited since.
SERVER_MS = cast(extract("epoch", func.clock_timestamp()) * 1000, BigInteger)
_NOW = Query(lambda: select(SERVER_MS))


async def common_ms(reader: Reader, own_ms: int) -> int:
    """The time of all nodes; `own_ms` is what this machine's clock says."""
    if not reader.is_shared:
        return own_ms
    ((its_ms,),) = await reader.fetch_all(_NOW)
    return int(its_ms)


async def common_s(reader: Reader, own_s: float) -> int:
    """The same in whole seconds."""
    return await common_ms(reader, int(own_s * 1000)) // 1000


async def clock_offset_s(reader: Reader, now_s: Callable[[], float]) -> float | None:
    """This machine's clock minus the database's, as exact as a round trip allows; None if the
    database is on this machine."""
    if not reader.is_shared:
        return None
    before_s = now_s()
    its_ms = await common_ms(reader, 0)
    return (before_s + now_s()) / 2 - its_ms / 1000


async def earlier_ms(reader: Reader, own_ms: int) -> int:
    """The earlier time of both clocks, for what cannot be undone: the database's clock may also be
    wrong, or belong to another server since a failover."""
    return min(own_ms, await common_ms(reader, own_ms))
