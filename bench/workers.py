"""Are several workers on one SQLite file faster than one, on the same cores as the load?

A gateway for each number of workers, each on a copy of the same data, in turns; neither the
gateways nor the load are kept to a core. Prints for each operation the calls a second, compared
with the first number of workers, p99, the processor time of the gateway for a call, and how many
calls share a commit.
"""

import argparse
import os
import shutil
import sys
import tempfile
import urllib.request
from pathlib import Path
from statistics import median
from subprocess import Popen
from typing import NamedTuple

from bench.load import full
from bench.scenarios import PAGE, SCENARIOS, Amounts, Scenario
from bench.servers import cpu_s, free_port, missing, start, stop
from bench.world import Size, World, make_world

SIZE = Size(20_000, 365, 24, 230, 1000, 400_000)
# Three in five orders are of the shop that is read.
AMOUNTS = Amounts(SIZE.orders_a_year * 3 // 5 // PAGE, 20)
_ROUND_REQUESTS = 1_000_000


class Round(NamedTuple):
    """What one round found."""

    calls_a_s: float
    p99_ms: float
    cpu_us: float
    calls_a_commit: float


class Served:
    """A gateway with some workers, on a database of its own."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.port = free_port()
        cores = ",".join(map(str, range(os.cpu_count() or 1)))
        command = [sys.executable, "-m", "tollway", "serve", "--port", str(self.port)]
        self.process: Popen[bytes] = start(
            [*command, "--workers", str(workers)], self.port, folder, folder / "log", cores=cores
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
        before_s, (calls_before, batches_before) = cpu_s(self.process.pid), self._batches()
        load = full(self.port, requests, options.seconds, options.connections, first)
        if load.refused:
            sys.exit(f"{load.refused} of {load.calls} calls were refused")
        calls, batches = self._batches()
        spent_us = (cpu_s(self.process.pid) - before_s) / load.calls * 1e6
        a_commit = (calls - calls_before) / max(1, batches - batches_before)
        return Round(load.rate, load.p99_ms, spent_us, a_commit)


_BATCHES = "tollway_settle_batch_calls"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, os.cpu_count() or 2])
    parser.add_argument("--seconds", type=int, default=2, help="length of one round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each")
    parser.add_argument("--connections", type=int, default=64)
    options = parser.parse_args()
    if lacking := missing({"wrk": "wrk"}):
        sys.exit(f"Install {', '.join(lacking)}.")
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        run(Path(name), options)


def run(folder: Path, options: argparse.Namespace) -> None:
    made = folder / "made"
    made.mkdir()
    world = make_world(f"sqlite:///{made}/tollway.db", "", SIZE)
    served: dict[int, Served] = {}
    title = f"{options.connections} connections"
    print(f"{title:32}{'workers':>8}{'calls/s':>9}{'of first':>9}{'p99 ms':>8}", end="")
    print(f"{'µs a call':>10}{'a commit':>9}")
    try:
        for workers in options.workers:
            served[workers] = Served(Path(shutil.copytree(made, folder / str(workers))), workers)
        for scenario in SCENARIOS:
            if scenario.status == 200:
                report(scenario, compare(scenario, served, world, folder, options))
    finally:
        for gateway in served.values():
            stop(gateway.process)


def compare(
    scenario: Scenario,
    served: dict[int, Served],
    world: World,
    folder: Path,
    options: argparse.Namespace,
) -> dict[int, Round]:
    requests = folder / "requests"
    requests.write_bytes(b"\0".join(scenario.requests(world, AMOUNTS)))
    found: dict[int, list[Round]] = {workers: [] for workers in served}
    # The first round only warms everything up.
    for number in range(options.rounds + 1):
        for workers, gateway in served.items():
            one = gateway.measure(requests, options, number * _ROUND_REQUESTS)
            found[workers] += [one] if number else []
    return {
        workers: Round(*(median(values) for values in zip(*rounds, strict=True)))
        for workers, rounds in found.items()
    }


def report(scenario: Scenario, found: dict[int, Round]) -> None:
    first = next(iter(found.values())).calls_a_s
    for workers, each in found.items():
        print(
            f"{scenario.title:32}{workers:8}{each.calls_a_s:9,.0f}{each.calls_a_s / first:9.2f}"
            f"{each.p99_ms:8.1f}{each.cpu_us:10.0f}{each.calls_a_commit:9.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
