"""`make growth`: what a call costs against what grows, as curves of docs/performance.md.

Measures processor time of the gateway per call, which neighbours on the machine change much less
than rates; only the curve of workers is about rates. The points of a curve take turns in slices,
and each is the first one times the median of its ratios to it.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from bench.cost_databases import DURABLE
from bench.growth_curves import CURVES_FILE, Curve, Growth
from bench.growth_orders import order_curves
from bench.load import full
from bench.page import write_results
from bench.results import MAIN, Measured, by_rate, machine, medians, now_text, ratio_of, take_rounds
from bench.scenarios import SCENARIOS, Amounts, Scenario, analysis, product_days
from bench.servers import Steal, cpu_s, free_port, missing, start, stop
from bench.world import Size, World, make_world
from tests.support.postgresql import Server, run_on
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_format import mint, token_hash
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.store.cache_versions import directory_changed
from tollway.store.database import Database, Transaction
from tollway.store.open import open_database
from tollway.store.schema.ledger import account, balance, permission, token
from tollway.telemetry.metrics import Metrics

_SIZE = Size(2000, 365, 8, 40, 200, 1)
_BY_NAME = {each.name: each for each in SCENARIOS}
_CALLERS, _AT_ONCE = 2000, 5000
# More than a gateway keeps in memory.
_ROTATED = 25_000
# Long enough that each of the callers has called.
_WARM_UP_S = 2.0
_RUNTIME = Runtime()


class Length(NamedTuple):
    """How far each curve goes, and how long and often a point is measured."""

    orders: tuple[int, ...]
    accounts: tuple[int, ...]
    connections: tuple[int, ...]
    workers: tuple[int, ...]
    slice_s: float
    rounds: int


LENGTHS = {
    "quick": Length((10**4, 10**5, 10**6), (10, 10**3, 10**5), (1, 64, 2000), (1, 2), 0.5, 3),
    "full": Length(
        (10**4, 10**5, 10**6, 10**7),
        (10, 10**2, 10**3, 10**4, 10**5, 10**6),
        (1, 4, 16, 64, 256, 1000, 2000),
        tuple(sorted({1, 2, os.cpu_count() or 1})),
        0.7,
        5,
    ),
}


def points(
    measure: Callable[[int], Measured],
    counts: Sequence[int],
    length: Length,
    value: Callable[[Measured], float],
) -> list[float]:
    """The value at each count, in turns."""
    by_name = {str(count): count for count in counts}
    for count in counts:
        # Warms up.
        measure(count)
    first, *others = by_name
    rounds = take_rounds(
        first, others, lambda name: measure(by_name[name]), length.rounds, length.rounds // 2
    )
    base = value(medians(rounds)[first])
    ratios = [ratio_of(rounds, name, first, value) for name in by_name]
    return [base * each.median for each in ratios if each]


def cost_us(measured: Measured) -> float:
    return measured.cpu_us


class Served:
    """A gateway on a small world, with as many workers as wanted, on any core."""

    def __init__(self, folder: Path, url: str, world: World, workers: int = 1) -> None:
        self._folder, self._world = folder, world
        self.port = free_port()
        self._sent = 0
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
        log = folder / f"gateway-{self.port}.log"
        self._process = start(command, self.port, folder, log, environment, cores)

    def measure(
        self, requests: Sequence[bytes], seconds: float, connections: int = MAIN
    ) -> Measured:
        file = self._folder / "requests"
        file.write_bytes(b"\0".join(requests))
        before_s = cpu_s(self._process.pid)
        found = full(self.port, file, seconds, connections, self._sent)
        spent_s = cpu_s(self._process.pid) - before_s
        self._sent += found.calls + connections
        if found.refused:
            sys.exit(f"{found.refused} of {found.calls} calls were refused.")
        # A busy machine may answer nothing in a short slice.
        if not found.calls:
            return self.measure(requests, 2 * seconds, connections)
        return Measured(found.rate, found.p50_ms, found.p99_ms, spent_s / found.calls * 1e6)

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
    """A file for each number of accounts: a copy of the one before, with more."""
    made = folder / "accounts"
    made.mkdir()
    world = make_world(f"sqlite:///{made}/tollway.db", str(folder / "keys"), _SIZE)
    product_id, day = product_days(world)[0]
    tokens: list[str] = []
    few: dict[int, list[bytes]] = {}
    every: dict[int, list[bytes]] = {}
    served: dict[int, Served] = {}
    for count in length.accounts:
        new = asyncio.run(
            _with_database(f"sqlite:///{made}/tollway.db", count - len(tokens), len(tokens))
        )
        tokens += new
        shutil.copytree(made, folder / f"accounts-{count}")
        url = f"sqlite:///{folder}/accounts-{count}/tollway.db"
        served[count] = Served(folder, url, world)
        chosen = Random(7).sample(tokens, min(len(tokens), _ROTATED))
        every[count] = [analysis(each, product_id, day) for each in chosen]
        few[count] = every[count][:_CALLERS]
    try:
        for count, each in served.items():
            each.measure(few[count], _WARM_UP_S)
        series = {
            name: points(
                lambda count, asked=asked: served[count].measure(asked[count], length.slice_s),
                length.accounts,
                length,
                cost_us,
            )
            for name, asked in (
                (f"{_CALLERS:,} of them call", few),
                (f"all of them call in rotation, at most {_ROTATED:,}", every),
            )
        }
    finally:
        for each in served.values():
            each.stop()
    return Curve(
        "accounts",
        "Accounts and tokens stored",
        "accounts",
        f"What the gateway knows of the last 20,000 tokens that called is in memory; {_CALLERS:,} "
        "callers are as many as make 20,000 calls a second at the common limit. With more callers "
        "than that in rotation, each call looks its token up in the database. With ten accounts, "
        "the calls that share a commit are of few accounts, and fewer balances change.",
        list(map(float, length.accounts)),
        series,
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
    asked = {title: served.requests(_BY_NAME[name]) for title, name in names.items()}
    try:
        series = {
            title: points(
                lambda count, title=title: served.measure(asked[title], length.slice_s, count),
                length.connections,
                length,
                cost_us,
            )
            for title in names
        }
    finally:
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
        (folder / "workers").mkdir()
        series = {
            f"page of 20 orders, {engine}": _rates(folder, make, length)
            for engine, make in {
                "SQLite": lambda count: f"sqlite:///{folder}/workers/{count}.db",
                "PostgreSQL": lambda count: _new_database(server, f"workers_{count}"),
            }.items()
        }
    finally:
        server.remove()
    return Curve(
        "workers",
        "Workers",
        "workers",
        f"The load and the database run on the same {os.cpu_count()} cores. The goal is 1.5 times "
        "with two workers on two cores, on SQLite.",
        list(map(float, length.workers)),
        series,
        unit="calls a second",
    )


def _rates(folder: Path, make: Callable[[int], str], length: Length) -> list[float]:
    """A database for each number of workers, since all of them run at once."""
    served = {}
    try:
        for count in length.workers:
            url = make(count)
            world = make_world(url, str(folder / "keys"), _SIZE)
            served[count] = Served(folder, url, world, count)

        def measure(count: int) -> Measured:
            each = served[count]
            return each.measure(each.requests(_BY_NAME["orders"]), length.slice_s)

        return points(measure, length.workers, length, by_rate)
    finally:
        for each in served.values():
            each.stop()


def _new_database(server: Server, name: str) -> str:
    run_on(server.url, f"CREATE DATABASE {name}")
    return server.url.removesuffix("/postgres") + f"/{name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("length", choices=LENGTHS, nargs="?", default="full")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="where to write the page")
    options = parser.parse_args()
    if needed := missing({"wrk": "wrk", "taskset": "util-linux", "setarch": "util-linux"}):
        sys.exit(f"The curves need {', '.join(needed)}.")
    # Now, and not after the run, whose results would be lost.
    options.docs.mkdir(parents=True, exist_ok=True)
    length, its_machine, steal, curves = LENGTHS[options.length], machine(), Steal(), []
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        for make in (accounts_curve, connections_curve, workers_curve):
            curves.append(make(Path(name), length))
            print(f"{curves[-1].title}: {curves[-1].sentence}", flush=True)
    for each in asyncio.run(order_curves(length.orders)):
        curves.append(each)
        print(f"{each.title}: {each.sentence}", flush=True)
    its_machine["stolen by the host during the run"] = f"{steal.share:.0%}"
    found = Growth(now_text(), options.length, its_machine, curves)
    write_results(options.docs, CURVES_FILE, found)


if __name__ == "__main__":
    main()
