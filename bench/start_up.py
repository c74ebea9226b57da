"""How long does `tollway serve` take until it is ready, and how much memory does it have then?

Beside `python -c pass` in the same run, alternating; the medians of the rounds. The database is
made by a first start that does not count. Memory is that of all its processes: what each has
resident, and with what they share counted once. Modules are compiled before, as installing does.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.servers import cpu_s, free_port, tree

LIMIT_S = 60


class Start(NamedTuple):
    """What one start took."""

    ready_s: float
    cpu_s: float
    resident_mb: float
    shared_once_mb: float


def bare_start_s() -> float:
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - began_s


def wait_until_ready(url: str) -> None:
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        with suppress(OSError), urllib.request.urlopen(url) as answer:
            if answer.status == 200:
                return
        time.sleep(0.002)
    raise SystemExit(f"{url} was not ready within {LIMIT_S} s")


def memory_mb(process_id: int, kind: str) -> float:
    lines = Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{kind}:")) / 1024


def one_start(folder: str) -> Start:
    port = free_port()
    command = [sys.executable, "-m", "tollway", "serve", "--port", str(port)]
    began_s = time.perf_counter()
    with subprocess.Popen(
        [*command, "--database", f"sqlite:///{folder}/tollway.db"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
    ) as server:
        wait_until_ready(f"http://127.0.0.1:{port}/readyz")
        ready_s = time.perf_counter() - began_s
        all_of_it = list(tree(server.pid))
        start = Start(
            ready_s,
            cpu_s(server.pid),
            sum(memory_mb(each, "Rss") for each in all_of_it),
            sum(memory_mb(each, "Pss") for each in all_of_it),
        )
        server.send_signal(signal.SIGTERM)
    return start


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    rounds = options.parse_args().rounds
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    starts, bare_s = [], []
    with tempfile.TemporaryDirectory() as folder:
        one_start(folder)
        for _ in range(rounds):
            bare_s.append(bare_start_s())
            starts.append(one_start(folder))
    found = Start(*(median(values) for values in zip(*starts, strict=True)))
    print(f"python -c pass       {median(bare_s):6.3f} s")
    print(f"tollway serve ready  {found.ready_s:6.3f} s   {found.cpu_s:.2f} s of processor time")
    print(f"memory               {found.resident_mb:6.0f} MB  of all processes")
    print(f"                     {found.shared_once_mb:6.0f} MB  with what they share counted once")


if __name__ == "__main__":
    main()
