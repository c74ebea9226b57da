"""What does a short read of PostgreSQL cost the gateway, compared with a bare connection?

The same statement, over and over: on a bare connection of the driver, on the driver's pool, and on
the store's. Processor time of this process only, alternating; the median of the rounds. Needs
the tools of the tests.
"""

import asyncio
from collections.abc import Awaitable, Callable
from statistics import median
from time import process_time

import asyncpg
import uvloop
from sqlalchemy import select

from tests.support.postgresql import new_database
from tollway.store.postgresql.database import PostgresqlDatabase
from tollway.store.query import Query
from tollway.store.schema.database import version
from tollway.telemetry.metrics import Metrics

ROUNDS = 7
READS = 2000
CALL_TIMEOUT_S = 5.0
QUERY = Query(select(version.c.figures))

Read = Callable[[], Awaitable[object]]


async def one_round(read: Read) -> float:
    """Microseconds per read."""
    began_s = process_time()
    for _ in range(READS):
        await read()
    return (process_time() - began_s) / READS * 1e6


async def measure(url: str) -> dict[str, float]:
    text = QUERY.postgresql.text
    bare = await asyncpg.connect(url, command_timeout=CALL_TIMEOUT_S)
    pool = await asyncpg.create_pool(url, min_size=1, command_timeout=CALL_TIMEOUT_S)
    database = PostgresqlDatabase(url, CALL_TIMEOUT_S, Metrics())
    readers: dict[str, Read] = {
        "bare connection": lambda: bare.fetch(text),
        "the driver's pool": lambda: pool.fetch(text),
        "the store": lambda: database.fetch_all(QUERY),
    }
    taken: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(ROUNDS):
        for name, read in readers.items():
            taken[name].append(await one_round(read))
    await asyncio.gather(bare.close(), pool.close(), database.close())
    return {name: median(times) for name, times in taken.items()}


def main() -> None:
    found = uvloop.run(measure(new_database()))
    print(f"{'':20}{'µs a read':>12}{'of bare':>10}")
    for name, each_us in found.items():
        print(f"{name:20}{each_us:12.1f}{each_us / found['bare connection']:10.2f}")


if __name__ == "__main__":
    main()
