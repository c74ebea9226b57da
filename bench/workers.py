"""Are several workers faster than one, on the same cores as the load?

A gateway for each number of workers, each on a copy of the same data, in turns; neither the
gateways nor the load are kept to a core. Prints for each operation the calls a second, compared
with the first number of workers, p99, the processor time of the gateway and of PostgreSQL for a
call, and how many calls share a commit. `--engine postgresql --waits 0 5` compares what it gains
that a batch of charges waits for more calls.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import urllib.request
from itertools import product, starmap
from pathlib import Path
from statistics import median
from subprocess import Popen
from typing import NamedTuple

from bench.cost_databases import DURABLE, main_process, open_accounts
from bench.load import full
from bench.scenarios import PAGE, SCENARIOS, Amounts, Scenario, analysis, product_days
from bench.servers import cpu_s, free_port, missing, start, stop
from bench.world import Size, World, make_world
from tests.support.postgresql import Server, run_on
from tollway.store.open import open_database
from tollway.telemetry.metrics import Metrics

SIZE = Size(20_000, 365, 24, 230, 1000, 400_000)
# Three in five orders are of the shop that is read.
AMOUNTS = Amounts(SIZE.orders_a_year * 3 // 5 // PAGE, 20)
_ROUND_REQUESTS = 1_000_000
_ACCOUNTS = 300


class Round(NamedTuple):
    """What one round found."""

    calls_a_s: float
    p99_ms: float
    cpu_us: float
    calls_a_commit: float


class Kind(NamedTuple):
    """How a gateway is served."""

    workers: int
    wait_ms: int


class Databases:
    """Files, or the databases of one PostgreSQL with durable commits: one, and copies of it."""

    def __init__(self, folder: Path, engine: str) -> None:
        self._folder = folder
        self._server = Server(**DURABLE) if engine == "postgresql" else None
        self._main = [] if self._server is None else [main_process(self._server.url)]
        (folder / "made").mkdir()

    def settings(self, name: str) -> dict[str, str]:
        if self._server is None:
            return {"TOLLWAY_DATABASE": f"sqlite:///{self._folder}/{name}/tollway.db"}
        files = {
            f"TOLLWAY_{each}_FILE": f"{self._folder}/made/{each}" for each in ("KEY", "SECRET")
        }
        return {"TOLLWAY_DATABASE": self._server.url.removesuffix("postgres") + name, **files}

    def make(self) -> tuple[World, Scenario]:
        """The world, and calls of many accounts: those of one wait for each other's row locks."""
        if self._server is not None:
            run_on(self._server.url, "CREATE DATABASE made")
        settings = self.settings("made")
        url = settings["TOLLWAY_DATABASE"]
        world = make_world(url, settings.get("TOLLWAY_KEY_FILE", ""), SIZE)

        async def work() -> list[str]:
            database = open_database(url, Metrics())
            tokens = await open_accounts(database, _ACCOUNTS)
            await database.close()
            return tokens

        calls = [analysis(token, *product_days(world)[0]) for token in asyncio.run(work())]
        title = f"product analysis, {_ACCOUNTS} accounts"
        return world, Scenario("accounts", title, 200, lambda *_: calls)

    def copy(self, name: str) -> dict[str, str]:
        if self._server is None:
            shutil.copytree(self._folder / "made", self._folder / name)
        else:
            run_on(self._server.url, f"CREATE DATABASE {name} TEMPLATE made")
        return self.settings(name)

    def cpu_s(self) -> float:
        return cpu_s(*self._main)

    def remove(self) -> None:
        if self._server is not None:
            self._server.remove()


class Served:
    """A gateway of one kind, on a database of its own."""

    def __init__(self, folder: Path, kind: Kind, databases: Databases) -> None:
        self.port = free_port()
        self._databases = databases
        cores = ",".join(map(str, range(os.cpu_count() or 1)))
        command = [sys.executable, "-m", "tollway", "serve", "--port", str(self.port)]
        name = f"of_{kind.workers}_{kind.wait_ms}"
        self.process: Popen[bytes] = start(
            [*command, "--workers", str(kind.workers)],
            self.port,
            folder,
            folder / f"{name}.log",
            {**databases.copy(name), "TOLLWAY_CHARGE_WAIT_MS": str(kind.wait_ms)},
            cores=cores,
        )

    def _batches(self) -> tuple[float, float]:
        """Calls that were settled so far, and in how many batches."""
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics").read().decode()
        lines = [line.rpartition(" ") for line in text.splitlines()]
        sums = [
            sum(float(value) for name, _, value in lines if name.startswith(f"{_BATCHES}_{kind}"))
            for kind in ("sum", "count")
        ]
        return sums[0], sums[1]

    def measure(self, requests: Path, options: argparse.Namespace, first: int) -> Round:
        before_s, (calls_before, batches_before) = self._cpu_s(), self._batches()
        load = full(self.port, requests, options.seconds, options.connections, first)
        if load.refused:
            sys.exit(f"{load.refused} of {load.calls} calls were refused")
        calls, batches = self._batches()
        spent_us = (self._cpu_s() - before_s) / load.calls * 1e6
        a_commit = (calls - calls_before) / max(1, batches - batches_before)
        return Round(load.rate, load.p99_ms, spent_us, a_commit)

    def _cpu_s(self) -> float:
        return cpu_s(self.process.pid) + self._databases.cpu_s()


_BATCHES = "tollway_settle_batch_calls"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, os.cpu_count() or 2])
    parser.add_argument("--engine", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--waits", type=int, nargs="+", default=[5], help="charge_wait_ms")
    parser.add_argument("--only", nargs="+", help="names of scenarios, as in: orders claims")
    parser.add_argument("--seconds", type=int, default=2, help="length of one round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each")
    parser.add_argument("--connections", type=int, default=64)
    options = parser.parse_args()
    if lacking := missing({"wrk": "wrk"}):
        sys.exit(f"Install {', '.join(lacking)}.")
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        databases = Databases(Path(name), options.engine)
        try:
            run(Path(name), databases, options)
        finally:
            databases.remove()


def run(folder: Path, databases: Databases, options: argparse.Namespace) -> None:
    world, many = databases.make()
    served: dict[Kind, Served] = {}
    title = f"{options.engine}, {options.connections} connections"
    print(
        f"{title:32}{'workers':>8}{'wait ms':>8}{'calls/s':>9}{'of first':>9}{'p99 ms':>8}", end=""
    )
    print(f"{'µs a call':>10}{'a commit':>9}")
    try:
        for kind in starmap(Kind, product(options.workers, options.waits)):
            served[kind] = Served(folder, kind, databases)
        for scenario in (many, *SCENARIOS):
            if scenario.status == 200 and (not options.only or scenario.name in options.only):
                report(scenario, compare(scenario, served, world, folder, options))
    finally:
        for gateway in served.values():
            stop(gateway.process)


def compare(
    scenario: Scenario,
    served: dict[Kind, Served],
    world: World,
    folder: Path,
    options: argparse.Namespace,
) -> dict[Kind, Round]:
    requests = folder / "requests"
    requests.write_bytes(b"\0".join(scenario.requests(world, AMOUNTS)))
    found: dict[Kind, list[Round]] = {kind: [] for kind in served}
    # The first round only warms everything up.
    for number in range(options.rounds + 1):
        for kind, gateway in served.items():
            one = gateway.measure(requests, options, number * _ROUND_REQUESTS)
            found[kind] += [one] if number else []
    return {
        kind: Round(*(median(values) for values in zip(*rounds, strict=True)))
        for kind, rounds in found.items()
    }


def report(scenario: Scenario, found: dict[Kind, Round]) -> None:
    first = next(iter(found.values())).calls_a_s
    for kind, each in found.items():
        print(
            f"{scenario.title:32}{kind.workers:8}{kind.wait_ms:8}{each.calls_a_s:9,.0f}"
            f"{each.calls_a_s / first:9.2f}{each.p99_ms:8.1f}{each.cpu_us:10.0f}"
            f"{each.calls_a_commit:9.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
