"""What does a paid call cost the database, and how much does it store there?

A real gateway, first on SQLite and then on a PostgreSQL with durable commits, serves calls
of a thousand accounts in turn, so that hardly two calls of one commit are of one balance.
More connections make larger commits. Bytes and counts are the same on a busy machine; processor
times are somewhat higher there, and the rate says little. Needs the tools of the tests, and wrk.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from bench.cost_databases import Counts, PostgresqlBench, Spent, SqliteBench, prepare, spent_by
from bench.servers import LOAD_CORE, free_port, start

DATABASES = {"sqlite": SqliteBench, "postgresql": PostgresqlBench}
_SCRIPT = Path(__file__).parent / "many.lua"
_COLUMNS = "calls/s,calls/commit,statements,fsyncs,full pages,log B,gateway µs,database µs"


class Moment(NamedTuple):
    """All that was counted until now."""

    database: Counts
    commits: int
    gateway: Spent


class Bench:
    """A gateway on one database."""

    def __init__(self, database: SqliteBench | PostgresqlBench, folder: Path) -> None:
        self._database = database
        self._round = 0
        self._port = free_port()
        serve = [sys.executable, "-m", "tollway", "serve", "--port", str(self._port)]
        # A refused call must not pass for a paid one.
        settings = {**database.settings, "TOLLWAY_HTTP_STATUS": "mapped"}
        self._server = start(serve, self._port, folder, folder / "gateway.log", settings)

    def stop(self) -> None:
        self._server.terminate()
        self._server.wait()

    def run_round(self, title: str, seconds: int, connections: int, *, is_cold: bool) -> None:
        """One line of the table; everything in it but the rate is per call."""
        os.environ["TOLLWAY_TEST_COLD"] = "1" if is_cold else "0"
        before = self._now()
        rate = self._load(seconds, connections)
        after = self._now()
        calls = after.database.entries - before.database.entries
        gained = [b - a for a, b in zip(before.database, after.database, strict=True)]
        _, wal, fsyncs, full_pages, cpu_s = gained
        own_cpu_s = after.gateway.cpu_s - before.gateway.cpu_s
        # SQLite's log is written by the gateway, and so are, later, the tables.
        log = wal or after.gateway.written_bytes - before.gateway.written_bytes
        cells = [
            f"{rate:,.0f}",
            f"{calls / (after.commits - before.commits):.1f}",
            self._statements(connections),
            f"{fsyncs / calls:.3f}",
            f"{full_pages / calls:.3f}",
            f"{log / calls:,.0f}",
            f"{own_cpu_s / calls * 1e6:,.0f}",
            f"{cpu_s / calls * 1e6:,.0f}",
        ]
        print(f"{title:32}" + "".join(f"{cell:>14}" for cell in cells), flush=True)

    def _statements(self, connections: int) -> str:
        """Counted in a round of their own, since logging them costs more than they do."""
        before, entries = self._database.statements(), self._database.counts().entries
        self._database.count_statements(is_on=True)
        self._load(1, connections)
        self._database.count_statements(is_on=False)
        calls = self._database.counts().entries - entries
        count = self._database.statements() - before
        return f"{count / calls:.2f}" if count else "-"

    def _load(self, seconds: int, connections: int) -> float:
        self._round += 1
        os.environ["TOLLWAY_TEST_ROUND"] = str(self._round)
        return _load(f"http://127.0.0.1:{self._port}", seconds, connections)

    def _now(self) -> Moment:
        """Read once no call is under way any more."""
        while (found := self._metrics())["calls_under_way"]:
            time.sleep(0.05)
        # Under setarch and taskset, which became it, the process that was started is the gateway.
        spent = spent_by(self._server.pid)
        return Moment(self._database.counts(), round(found["settle_batch_calls_count"]), spent)

    def _metrics(self) -> dict[str, float]:
        url = f"http://127.0.0.1:{self._port}/metrics"
        text = urllib.request.urlopen(url).read().decode()
        found = re.findall(r"^tollway_(\w+) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in found}


def _load(url: str, seconds: int, connections: int) -> float:
    """Requests a second, from wrk on the second core; anything but success ends the run."""
    command = ["taskset", "-c", str(LOAD_CORE), "wrk", "-t1", f"-c{connections}"]
    command += [f"-d{seconds}s", "-s", str(_SCRIPT), url]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        sys.exit(f"The load met errors:\n{output}")
    lines = [line for line in output.splitlines() if line.startswith("Requests/sec:")]
    return float(lines[0].split()[1])


def measure(
    database: SqliteBench | PostgresqlBench, folder: Path, options: argparse.Namespace
) -> None:
    today = datetime.now(UTC).astimezone(ZoneInfo("Asia/Shanghai")).date()
    tokens = prepare(database.settings["TOLLWAY_DATABASE"], options.accounts, today)
    (folder / "tokens").write_text("\n".join(tokens), encoding="utf-8")
    os.environ["TOLLWAY_TEST_TOKENS"] = str(folder / "tokens")
    os.environ["TOLLWAY_TEST_LAST_DAY"] = today.isoformat()
    bench = Bench(database, folder)
    database.tidy()
    try:
        bench.run_round(f"{database.title}, after a checkpoint", 2, 256, is_cold=False)
        sizes, entries = database.sizes(), database.counts().entries
        for connections in options.connections:
            title = f"{database.title}, {connections} connections"
            bench.run_round(title, options.seconds, connections, is_cold=False)
        bench.run_round(f"{database.title}, 256, cold", options.seconds, 256, is_cold=True)
    finally:
        bench.stop()
    count = database.counts().entries - entries
    grown = [b - a for a, b in zip(sizes, database.sizes(), strict=True)]
    print(
        f"An entry takes {grown[0] / count:.0f} bytes in its table and {grown[1] / count:.0f} in "
        f"the indexes ({count:,} entries).\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=5, help="length of one round")
    parser.add_argument("--engine", choices=DATABASES, nargs="*", default=[*DATABASES])
    parser.add_argument("--accounts", type=int, default=1000)
    parser.add_argument("--connections", type=int, nargs="*", default=[1, 16, 64, 256, 800])
    options = parser.parse_args()
    if sys.platform != "linux":
        sys.exit("The bench reads what processes have spent from /proc: run it on Linux.")
    print(" " * 32 + "".join(f"{name:>14}" for name in _COLUMNS.split(",")))
    for engine in options.engine:
        with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
            database = DATABASES[engine](Path(name))
            try:
                measure(database, Path(name), options)
            finally:
                database.remove()


if __name__ == "__main__":
    main()
