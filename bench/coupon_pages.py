"""Does a page far back cost more than the first?

Loads claims of one week under one sid, then asks the handler for the first page, one in the middle
and the last, with a window of whole hours and with one that cuts hours at both ends. Each is read
many times, alternating, and the median is compared with that of the first page.

`--database postgresql://…` measures on PostgreSQL instead; the database must be a new one, and
keeps the claims.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from random import Random
from zoneinfo import ZoneInfo

from tests.support.handlers import result_of
from tollway.contract.operation import CallInfo
from tollway.operations.coupon_claims.handler import CouponClaimsHandler
from tollway.operations.coupon_claims.operation import WINDOW_MAX_S, CouponClaimsRequest
from tollway.operations.coupon_claims.records import ClaimRow
from tollway.operations.coupon_claims.storage import ClaimLoader
from tollway.store.database import Database
from tollway.store.migrate import migrate
from tollway.store.open import open_database
from tollway.telemetry.metrics import Metrics

START_S = 1_768_449_600
CHUNK = 2000
LIMIT = 100


def claims(count: int) -> Iterator[ClaimRow]:
    """Claims in the order of their time, as a source would send them."""
    chance = Random(7)
    for n in range(count):
        at_s = START_S + n * WINDOW_MAX_S // count
        code = f"{chance.randrange(10**16):016}"
        known = ("sid", 4, -at_s, code, "红包", "WAIMAI_COUPON", 500, 2000, at_s, at_s + 86_400)
        yield ClaimRow(*known, "key", at_s * 1000)


async def fill(database: Database, count: int) -> float:
    """Claims a second."""
    loader, stream = ClaimLoader(), claims(count)
    began_s = time.perf_counter()
    while chunk := list(islice(stream, CHUNK)):
        await database.write(lambda tx, chunk=chunk: loader.store(tx, chunk))
    return count / (time.perf_counter() - began_s)


async def measure(handler: CouponClaimsHandler, cut_s: int, rounds: int) -> None:
    caller = CallInfo("bench", 1)

    def request(page: int) -> CouponClaimsRequest:
        start_s, end_s = START_S + cut_s, START_S + WINDOW_MAX_S - cut_s
        return CouponClaimsRequest(start_s, end_s, page, LIMIT, "sid", 4)

    total = json.loads(await result_of(handler(request(1), caller)))["total"]
    last = total // LIMIT
    times_ms: dict[int, list[float]] = {page: [] for page in (1, last // 2, last)}
    for _ in range(rounds):
        for page, found in times_ms.items():
            began_s = time.perf_counter()
            await result_of(handler(request(page), caller))
            found.append((time.perf_counter() - began_s) * 1000)
    base = statistics.median(times_ms[1])
    print(f"\nwindow {'that cuts hours' if cut_s else 'of whole hours'}, {total:,} claims in it")
    for page, found in times_ms.items():
        middle = statistics.median(found)
        print(f"  page {page:>7,}  {middle:7.3f} ms  {middle / base:5.2f} of the first")


async def run(url: str, count: int, rounds: int) -> None:
    database = open_database(url, Metrics())
    await migrate(database)
    rate = await fill(database, count)
    print(f"{count:,} claims stored, {rate:,.0f} a second")
    handler = CouponClaimsHandler(database, ZoneInfo("Asia/Shanghai"))
    for cut_s in (0, 1800):
        await measure(handler, cut_s, rounds)
    await database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", default="", help="a temporary file by default")
    parser.add_argument("--claims", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        url = options.database or f"sqlite:///{name}/bench.db"
        asyncio.run(run(url, options.claims, options.rounds))


if __name__ == "__main__":
    main()
