"""Are several workers faster than one, on the same cores as the load?

A gateway for each number of workers, each on a copy of the same data, in turns of a second; neither
the gateways nor the load are kept to a core. Prints for each operation the calls a second, p99, the
processor time of the gateway and of PostgreSQL for a call, how many calls share a commit, and the
ratio to the first number of workers: the median of the rounds' ratios, with their quartiles. The
goal is 1.5 with two workers on two cores. `--engine postgresql --waits 0 5` compares what it gains
that a batch of charges waits for more calls.
"""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from itertools import product, starmap
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

from bench.cost_databases import DURABLE, main_process, open_accounts
from bench.load import NUMBERS_APART, full
from bench.report import ratio_text
from bench.results import MAIN, Measured, Round, by_rate, medians, ratio_of, take_rounds
from bench.scenarios import PAGE, SCENARIOS, Amounts, Scenario, analysis, product_days
from bench.servers import cpu_s, free_port, missing, start, stop
from bench.world import Size, World, make_world
from tests.support.postgresql import Server, run_on
from tollway.store.open import open_database
from tollway.telemetry.metrics import Metrics

SIZE = Size(20_000, 365, 24, 230, 1000, 400_000)
# Three in five orders are of the shop that is read.
AMOUNTS = Amounts(SIZE.orders_a_year * 3 // 5 // PAGE, 20)
_ACCOUNTS = 300


class Kind(NamedTuple):
    """How a gateway is served."""

    workers: int
    wait_ms: int

    @property
    def name(self) -> str:
        return f"of_{self.workers}_{self.wait_ms}"


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
        self.kind, self._databases = kind, databases
        self._sent = 0
        self._calls_before = self._batches_before = 0.0
        cores = ",".join(map(str, range(os.cpu_count() or 1)))
        command = [sys.executable, "-m", "tollway", "serve", "--port", str(self.port)]
        self.process: Popen[bytes] = start(
            [*command, "--workers", str(kind.workers)],
            self.port,
            folder,
            folder / f"{kind.name}.log",
            {**databases.copy(kind.name), "TOLLWAY_CHARGE_WAIT_MS": str(kind.wait_ms)},
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

    def measure(self, requests: Path, seconds: float, connections: int = MAIN) -> Measured:
        self._calls_before, self._batches_before = self._batches()
        before_s = self._cpu_s()
        load = full(self.port, requests, seconds, connections, self._sent)
        self._sent += load.calls + NUMBERS_APART
        if load.refused:
            sys.exit(f"{load.refused} of {load.calls} calls were refused")
        # A busy machine may answer nothing in a short slice.
        if not load.calls:
            return self.measure(requests, 2 * seconds, connections)
        spent_us = (self._cpu_s() - before_s) / load.calls * 1e6
        return Measured(load.rate, load.p50_ms, load.p99_ms, spent_us)

    def calls_a_commit(self) -> float:
        """In the last slice."""
        calls, batches = self._batches()
        return (calls - self._calls_before) / max(1, batches - self._batches_before)

    def _cpu_s(self) -> float:
        return cpu_s(self.process.pid) + self._databases.cpu_s()


_BATCHES = "tollway_settle_batch_calls"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, os.cpu_count() or 2])
    parser.add_argument("--engine", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--waits", type=int, nargs="+", default=[5], help="charge_wait_ms")
    parser.add_argument("--only", nargs="+", help="names of scenarios, as in: orders claims")
    parser.add_argument("--seconds", type=float, default=1, help="length of one slice")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each")
    parser.add_argument("--connections", type=int, default=MAIN)
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
    served: dict[str, Served] = {}
    title = f"{options.engine}, {options.connections} connections"
    print(f"{title:32}{'workers':>8}{'wait ms':>8}{'calls/s':>9}{'p99 ms':>8}", end="")
    print(f"{'µs a call':>10}{'a commit':>9}  of first")
    try:
        for kind in starmap(Kind, product(options.workers, options.waits)):
            served[kind.name] = Served(folder, kind, databases)
        for scenario in (many, *SCENARIOS):
            if scenario.status == 200 and (not options.only or scenario.name in options.only):
                requests = folder / "requests"
                requests.write_bytes(b"\0".join(scenario.requests(world, AMOUNTS)))
                rounds = compare(served, requests, options)
                report(scenario, served, rounds)
    finally:
        for gateway in served.values():
            stop(gateway.process)


def compare(
    served: Mapping[str, Served], requests: Path, options: argparse.Namespace
) -> list[Round]:
    def measure(name: str) -> Measured:
        return served[name].measure(requests, options.seconds, options.connections)

    first, *others = served
    # The first slices only warm everything up.
    for name in served:
        measure(name)
    return take_rounds(first, others, measure, options.rounds, options.rounds // 2)


def report(scenario: Scenario, served: Mapping[str, Served], rounds: Sequence[Round]) -> None:
    found, first = medians(rounds), next(iter(served))
    for name, gateway in served.items():
        each, kind = found[name], gateway.kind
        print(
            f"{scenario.title:32}{kind.workers:8}{kind.wait_ms:8}{each.calls_a_s:9,.0f}"
            f"{each.p99_ms:8.1f}{each.cpu_us:10.0f}{gateway.calls_a_commit():9.1f}  "
            f"{ratio_text(ratio_of(rounds, name, first, by_rate))}",
            flush=True,
        )


if __name__ == "__main__":
    main()
