"""`make growth`: what a call costs against what grows, as curves of docs/performance.md.

Measures processor time of the gateway per call, which neighbours on the machine change much less
than rates. Only the last two curves, of workers and connections, are about rates as well.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from bench.cost_databases import DURABLE
from bench.growth_curves import CURVES_FILE, Curve, Growth
from bench.growth_orders import order_curves
from bench.load import full
from bench.page import write_page
from bench.results import machine, now_text
from bench.scenarios import SCENARIOS, Amounts, Scenario, analysis, product_days
from bench.servers import cpu_s, free_port, missing, start, stop
from bench.world import Size, World, make_world
from tests.support.postgresql import Server
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import mint, token_hash
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.store.database import Database, Transaction
from tollway.store.open import open_database
from tollway.store.schema.accounts import account, permission
from tollway.store.schema.ledger import balance, token
from tollway.store.versions import directory_changed
from tollway.telemetry.metrics import Metrics

_SIZE = Size(2000, 365, 8, 40, 200, 1)
_BY_NAME = {each.name: each for each in SCENARIOS}
_CALLERS, _AT_ONCE = 2000, 5000
_CONNECTIONS = 64
_RUNTIME = Runtime()


class Length(NamedTuple):
    """How far each curve goes, and how long a point is measured."""

    orders: tuple[int, ...]
    accounts: tuple[int, ...]
    connections: tuple[int, ...]
    workers: tuple[int, ...]
    seconds: int


LENGTHS = {
    "quick": Length((10**4, 10**5, 10**6), (10, 10**3, 10**5), (1, 64, 2000), (1, 2), 2),
    "full": Length(
        (10**4, 10**5, 10**6, 10**7),
        (10, 10**2, 10**3, 10**4, 10**5, 10**6),
        (1, 4, 16, 64, 256, 1000, 2000),
        (1, 2, 4),
        4,
    ),
}


class Served:
    """A gateway on a small world, with as many workers as wanted, on any core."""

    def __init__(self, folder: Path, url: str, world: World, workers: int = 1) -> None:
        self._folder, self._world = folder, world
        self.port = free_port()
        settings = {
            "DATABASE": url,
            "HTTP_STATUS": "mapped",
            "WORKERS": workers,
            "KEY_FILE": folder / "keys",
            "SECRET_FILE": folder / "secret",
        }
        environment = {f"TOLLWAY_{name}": str(value) for name, value in settings.items()}
        cores = f"0-{(os.cpu_count() or 1) - 1}"
        command = [sys.executable, "-m", "tollway", "serve", "--port", str(self.port)]
        log = folder / "gateway.log"
        self._process = start(command, self.port, folder, log, environment, cores)

    def measure(
        self, requests: Sequence[bytes], seconds: int, connections: int = _CONNECTIONS
    ) -> tuple[float, float]:
        """Microseconds of processor time per call, and calls a second; warmed up before."""
        file = self._folder / "requests"
        file.write_bytes(b"\0".join(requests))
        full(self.port, file, 1, connections, 0)
        before_s = cpu_s(self._process.pid)
        found = full(self.port, file, seconds, connections, 0)
        if found.refused or not found.calls:
            sys.exit(f"{found.refused} of {found.calls} calls were refused.")
        return (cpu_s(self._process.pid) - before_s) / found.calls * 1e6, found.rate

    def requests(self, scenario: Scenario) -> list[bytes]:
        return scenario.requests(self._world, Amounts(60, 5))

    def stop(self) -> None:
        stop(self._process)


async def add_accounts(database: Database, count: int, first: int) -> list[str]:
    """Accounts that may call as fast as they can, with a token each, stored in bulk."""
    tokens: list[str] = []
    now_s, unit = int(time.time()), PRODUCT_ANALYSIS.balance_unit
    for begin in range(first, first + count, _AT_ONCE):
        numbers = range(begin, min(begin + _AT_ONCE, first + count))
        texts = [mint("live", _RUNTIME.pick) for _ in numbers]

        async def work(
            transaction: Transaction, numbers: range = numbers, texts: list[str] = texts
        ) -> None:
            ids = [f"acc_bench{number:09}" for number in numbers]
            rows = {
                account: [{"id": i, "name": i, "opened_at_s": now_s} for i in ids],
                permission: [
                    {"account_id": i, "operation": PRODUCT_ANALYSIS.name, "rate_limit": 10**6}
                    for i in ids
                ],
                balance: [
                    {"account_id": i, "unit": unit, "amount": 10**9, "held": 0, "posted": 0}
                    | {"entries": 0}
                    for i in ids
                ],
                token: [
                    {
                        "hash": token_hash(text),
                        "id": i.replace("acc_", "tok_"),
                        "account_id": i,
                        "kind": "live",
                        "label": "",
                        "start": text[:12],
                        "issued_at_s": now_s,
                    }
                    for i, text in zip(ids, texts, strict=True)
                ],
            }
            for table, made in rows.items():
                columns = [column.name for column in table.c]
                values = [tuple(row.get(name) for name in columns) for row in made]
                await transaction.insert_rows(table, values)
            await directory_changed(transaction)

        await database.write(work)
        tokens += texts
    return tokens


def accounts_curve(folder: Path, length: Length) -> Curve:
    url = f"sqlite:///{folder}/accounts.db"
    world = make_world(url, str(folder / "keys"), _SIZE)
    product_id, day = product_days(world)[0]
    tokens: list[str] = []
    few: list[float] = []
    every: list[float] = []
    for count in length.accounts:
        tokens += asyncio.run(_with_database(url, count - len(tokens), len(tokens)))
        shuffled = Random(7).sample(tokens, len(tokens))
        served = Served(folder, url, world)
        for chosen, found in ((shuffled[:_CALLERS], few), (shuffled, every)):
            requests = [analysis(each, product_id, day) for each in chosen]
            found.append(served.measure(requests, length.seconds)[0])
        served.stop()
    return Curve(
        "accounts",
        "Accounts and tokens stored",
        "accounts",
        f"What the gateway knows of the last 20,000 tokens that called is in memory; {_CALLERS:,} "
        "callers are as many as make 20,000 calls a second at the common limit. With more callers "
        "than that in rotation, each call looks its token up in the database.",
        list(map(float, length.accounts)),
        {f"{_CALLERS:,} of them call": few, "all of them call in rotation": every},
    )


async def _with_database(url: str, count: int, first: int) -> list[str]:
    database = open_database(url, Metrics())
    try:
        return await add_accounts(database, count, first)
    finally:
        await database.close()


def connections_curve(folder: Path, length: Length) -> Curve:
    url = f"sqlite:///{folder}/connections.db"
    world = make_world(url, str(folder / "keys"), _SIZE)
    served = Served(folder, url, world)
    names = {"product analysis, kept ready": "analysis_ready", "page of 20 orders": "orders"}
    series = {
        title: [
            served.measure(served.requests(_BY_NAME[name]), length.seconds, count)[0]
            for count in length.connections
        ]
        for title, name in names.items()
    }
    served.stop()
    return Curve(
        "connections_cost",
        "Connections",
        "connections",
        "Calls that arrive during one commit share the next: a busy gateway is cheaper per call.",
        list(map(float, length.connections)),
        series,
    )


def workers_curve(folder: Path, length: Length) -> Curve:
    """Rates with the load on the same cores: what more workers are for."""
    server = Server(**DURABLE)
    try:
        urls = {"SQLite": f"sqlite:///{folder}/workers.db", "PostgreSQL": server.url}
        series = {}
        for engine, url in urls.items():
            world = make_world(url, str(folder / "keys"), _SIZE)
            try:
                rates = [_rate(folder, url, world, count, length) for count in length.workers]
            except SystemExit as why:
                print(f"{engine} is left out: {why}", file=sys.stderr)
                continue
            series[f"page of 20 orders, {engine}"] = rates
    finally:
        server.remove()
    return Curve(
        "workers",
        "Workers",
        "workers",
        f"The load and the database run on the same {os.cpu_count()} cores.",
        list(map(float, length.workers)),
        series,
        unit="calls a second",
    )


def _rate(folder: Path, url: str, world: World, workers: int, length: Length) -> float:
    served = Served(folder, url, world, workers)
    try:
        return served.measure(served.requests(_BY_NAME["orders"]), length.seconds)[1]
    finally:
        served.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("length", choices=LENGTHS, nargs="?", default="full")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="where to write the page")
    options = parser.parse_args()
    if needed := missing({"wrk": "wrk", "taskset": "util-linux", "setarch": "util-linux"}):
        sys.exit(f"The curves need {', '.join(needed)}.")
    length, its_machine, curves = LENGTHS[options.length], machine(), []
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        for make in (accounts_curve, connections_curve, workers_curve):
            curves.append(make(Path(name), length))
            print(f"{curves[-1].title}: {curves[-1].sentence}", flush=True)
    for each in asyncio.run(order_curves(length.orders)):
        curves.append(each)
        print(f"{each.title}: {each.sentence}", flush=True)
    found = Growth(now_text(), options.length, its_machine, curves)
    file = options.docs / CURVES_FILE
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    write_page(options.docs)


if __name__ == "__main__":
    main()
