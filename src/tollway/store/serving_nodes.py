"""Which gateways serve a database now, and which schema each of them knows.

Every serving process has a row, refreshed twice a minute and removed when it stops. A killed
process counts as serving until its row is too old, by the clock that all nodes share.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import bindparam, func, or_, select

import tollway
from tollway.store.clock import common_ms
from tollway.store.database import Database, Reader, Transaction
from tollway.store.query import Query, upsert
from tollway.store.schema.database import node

if TYPE_CHECKING:
    from tollway.store.sealing import Sealer

ALIVE_S = 90
_KEPT_S = 24 * 3600


class NodeLoad(NamedTuple):
    """What a process reports of itself: its clients' connections, and how long ago its replica had
    all that the primary had."""

    connections: int | None = None
    lag_ms: int | None = None


class ServingNode(NamedTuple):
    """One process that serves, or did until a day ago."""

    name: str
    version: str
    knows_schema: str
    seen_at_ms: int
    connections: int | None
    lag_ms: int | None

    def is_alive(self, now_ms: int) -> bool:
        return now_ms - self.seen_at_ms < ALIVE_S * 1000


_STORE = upsert(node)
_REMOVE = Query(lambda: node.delete().where(node.c.id == bindparam("its")))
# A row dated in the future comes from a wrong clock, and would count as alive until then.
_SWEEP = Query(
    lambda: node.delete().where(
        or_(
            node.c.seen_at_ms < bindparam("before_ms"),
            node.c.seen_at_ms > bindparam("after_ms"),
        )
    )
)
_OLDER = Query(
    lambda: (
        select(node.c.name)
        .where(
            node.c.seen_at_ms >= bindparam("since_ms"), node.c.knows_schema < bindparam("revision")
        )
        .distinct()
        .order_by(node.c.name)
    )
)
_ALL = Query(
    lambda: select(*(node.c[name] for name in ServingNode._fields)).order_by(
        node.c.name, node.c.seen_at_ms
    )
)
_alive = select(node.c.name).where(node.c.seen_at_ms >= bindparam("since_ms")).distinct()
_WITHOUT_KEY = Query(
    lambda: _alive.where(node.c.knows_key < bindparam("key_id")).order_by(node.c.name)
)
_SEAL_OTHERWISE = Query(
    lambda: _alive.where(node.c.seals_with != bindparam("key_id")).order_by(node.c.name)
)
_SERVING = Query(
    lambda: select(func.count()).select_from(node).where(node.c.seen_at_ms >= bindparam("since_ms"))
)


class Presence:
    """The row of one serving process."""

    def __init__(
        self,
        database: Database,
        node_id: str,
        name: str,
        knows_schema: str,
        sealer: "Sealer",
        load: Callable[[], NodeLoad] = NodeLoad,
    ) -> None:
        self._database = database
        self._sealer = sealer
        self._load = load
        self._id = node_id
        self._name = name
        self._knows_schema = knows_schema

    async def refresh(self, own_ms: int) -> None:
        load = await asyncio.to_thread(self._load)

        async def work(transaction: Transaction) -> None:
            now_ms = await common_ms(transaction, own_ms)
            kept_ms = _KEPT_S * 1000
            await transaction.execute(_SWEEP, before_ms=now_ms - kept_ms, after_ms=now_ms + kept_ms)
            await transaction.execute(
                _STORE,
                id=self._id,
                name=self._name,
                version=tollway.__version__,
                knows_schema=self._knows_schema,
                knows_key=self._sealer.newest,
                seals_with=self._sealer.current,
                seen_at_ms=now_ms,
                connections=load.connections,
                lag_ms=load.lag_ms,
            )

        await self._database.write(work)

    async def end(self) -> None:
        await self._database.write(lambda transaction: transaction.execute(_REMOVE, its=self._id))


async def serving_nodes(reader: Reader, *, older_than: str, own_ms: int) -> list[str]:
    """The names of the gateways that serve now and do not know this revision."""
    since_ms = await common_ms(reader, own_ms) - ALIVE_S * 1000
    rows = await reader.fetch_all(_OLDER, since_ms=since_ms, revision=older_than)
    return [row[0] for row in rows]


async def nodes_without_key(
    reader: Reader, key_id: int, own_ms: int, *, sealing: bool
) -> list[str]:
    """The names of the gateways that serve now and have no such key yet, or do not seal with it."""
    since_ms = await common_ms(reader, own_ms) - ALIVE_S * 1000
    query = _SEAL_OTHERWISE if sealing else _WITHOUT_KEY
    return [row[0] for row in await reader.fetch_all(query, since_ms=since_ms, key_id=key_id)]


async def count_serving(reader: Reader, own_ms: int) -> int:
    """How many processes serve now."""
    since_ms = await common_ms(reader, own_ms) - ALIVE_S * 1000
    ((count,),) = await reader.fetch_all(_SERVING, since_ms=since_ms)
    return int(count)


async def all_nodes(reader: Reader) -> list[ServingNode]:
    """All processes that served within the last day, without those that stopped cleanly."""
    return [ServingNode(*row) for row in await reader.fetch_all(_ALL)]
