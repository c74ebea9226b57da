"""Are several workers on one SQLite file faster than one, on the same cores as the load?

A gateway for each number of workers, each on a copy of the same demo world, measured in turns;
neither the gateways nor the load are kept to a core. `warm` asks for a few answers again and again,
`cold` for another product and day each time. Prints calls a second, compared with the first number
of workers, the processor time of the gateway for a call, and how many calls share a commit.
"""

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

from bench.paid_call import HERE, charged, free_port, prepare
from bench.start_up import cpu_s, processes_of, wait_until_ready


class Round(NamedTuple):
    """What one round found."""

    calls_per_s: float
    cpu_us: float
    calls_per_commit: float


class Served:
    """A gateway with some workers, on a database of its own."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder = folder
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "tollway", "serve", "--port", str(port)]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--workers", str(workers)], cwd=folder, stdout=log, stderr=log
            )
        wait_until_ready(f"{self.url}/readyz")

    def counts(self) -> tuple[float, float, float]:
        """Processor time so far, calls charged, and commits of charges."""
        text = urllib.request.urlopen(f"{self.url}/metrics").read().decode()
        values = dict.fromkeys(("sum", "count"), 0.0)
        for line in text.splitlines():
            for kind in values:
                if line.startswith(f"tollway_settle_batch_calls_{kind}"):
                    values[kind] += float(line.split()[-1])
        taken_s = sum(map(cpu_s, processes_of(self.process.pid)))
        return taken_s, values["sum"], values["count"]

    def load(self, token: str, script: Path, options: argparse.Namespace) -> Round:
        before = self.counts()
        command = ["wrk", "-t1", f"-c{options.connections}", f"-d{options.seconds}s"]
        command += ["-s", str(script), "-H", f"Authorization: Bearer {token}", self.url]
        began_s = time.perf_counter()
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        lasted_s = time.perf_counter() - began_s
        if "Non-2xx" in output or "Socket errors" in output:
            sys.exit(f"The load met errors:\n{output}")
        taken_s, calls, commits = (
            after - earlier for after, earlier in zip(self.counts(), before, strict=True)
        )
        return Round(calls / lasted_s, taken_s / calls * 1e6, calls / commits)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, os.cpu_count() or 2])
    parser.add_argument("--seconds", type=int, default=2, help="length of one round")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each")
    parser.add_argument("--connections", type=int, default=64)
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("The bench needs wrk: install Debian's package wrk.")
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        run(Path(name), options)


def run(folder: Path, options: argparse.Namespace) -> None:
    made = folder / "made"
    made.mkdir()
    world = prepare(made)
    os.environ["TOLLWAY_TEST_LAST_DAY"] = world["query_date"]
    served: dict[int, Served] = {}
    found: dict[tuple[str, int], list[Round]] = {}
    try:
        for workers in options.workers:
            served[workers] = Served(Path(shutil.copytree(made, folder / str(workers))), workers)
        for round_ in range(options.rounds + 1):
            for script in ("warm", "cold"):
                for workers, gateway in served.items():
                    one = gateway.load(world["token"], HERE / f"{script}.lua", options)
                    # The first round only warms everything up.
                    if round_:
                        found.setdefault((script, workers), []).append(one)
    finally:
        for gateway in served.values():
            gateway.stop()
    for gateway in served.values():
        assert charged(gateway.folder) > 0
    report(found, options)


def report(found: dict[tuple[str, int], list[Round]], options: argparse.Namespace) -> None:
    print(f"{options.rounds} rounds of {options.seconds} s each, {options.connections} connections")
    print(f"{'':6}{'workers':>8}{'calls/s':>10}{'of first':>10}{'µs a call':>11}{'a commit':>10}")
    for (script, workers), rounds in sorted(found.items(), reverse=True):
        middle = Round(*(statistics.median(each) for each in zip(*rounds, strict=True)))
        first = statistics.median(each.calls_per_s for each in found[script, options.workers[0]])
        print(
            f"{script:6}{workers:8}{middle.calls_per_s:10,.0f}{middle.calls_per_s / first:10.2f}"
            f"{middle.cpu_us:11.0f}{middle.calls_per_commit:10.1f}"
        )


if __name__ == "__main__":
    main()
