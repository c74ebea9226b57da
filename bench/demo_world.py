"""How long does the demo world take beside a bare insert of the same rows?

Runs `tollway demo` on a new file, then copies all its rows into another new file with the same
tables, one prepared INSERT for each table and one transaction: the least that SQLite needs. With a
PostgreSQL URL it loads a world there too, which should take at most three times as long as the
file. With `--run` it also times `make run` in a fresh clone of this repository, from the command to
the printed call: what it takes to install, and the demo world. Times are CPU seconds of the process
and its children, and seconds on the clock.
"""

import argparse
import compileall
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import apsw

from bench.servers import free_port

PRAGMAS = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -65536"
SCHEMA = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type <> 'table', rowid"
TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


def cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def load(url: str, folder: Path) -> tuple[float, float]:
    """What `tollway demo` takes: CPU seconds, without those of a server, and seconds."""
    command = [sys.executable, "-m", "tollway", "demo", "--database", url]
    files = {"TOLLWAY_KEY_FILE": f"{folder}/keys", "TOLLWAY_SECRET_FILE": f"{folder}/secret"}
    began, cpu = time.perf_counter(), cpu_s()
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **files}, capture_output=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr.decode())
    return cpu_s() - cpu, time.perf_counter() - began


def bare(source: Path, target: Path) -> tuple[float, float, int]:
    """A bare insert of the rows of a file, in the order of their keys, and how many they are."""
    with closing(apsw.Connection(str(source))) as old, closing(apsw.Connection(str(target))) as new:
        new.execute(PRAGMAS).fetchall()
        for (statement,) in old.execute(SCHEMA):
            new.execute(statement)
        rows = {
            name: old.execute(f"SELECT * FROM {name}").fetchall() for (name,) in old.execute(TABLES)
        }
        began, cpu = time.perf_counter(), cpu_s()
        new.execute("BEGIN")
        for name, its_rows in rows.items():
            if its_rows:
                marks = ", ".join("?" * len(its_rows[0]))
                new.executemany(f"INSERT INTO {name} VALUES ({marks})", its_rows)
        new.execute("COMMIT")
        return cpu_s() - cpu, time.perf_counter() - began, sum(map(len, rows.values()))


def first_run(folder: Path) -> float:
    """Seconds from `make run` in a fresh clone to the call that it prints."""
    project = Path(__file__).parents[1]
    subprocess.run(["git", "clone", "--quiet", project, folder / "clone"], check=True)
    began = time.perf_counter()
    with subprocess.Popen(
        ["make", "--silent", "run"],
        cwd=folder / "clone",
        env={**os.environ, "TOLLWAY_PORT": str(free_port())},
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        assert process.stdout is not None
        printed = any("curl -H" in line for line in process.stdout)
        taken = time.perf_counter() - began
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
    if not printed:
        sys.exit("`make run` printed no call to try.")
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", help="the URL of an empty database", default="")
    parser.add_argument("--run", help="time `make run` in a fresh clone too", action="store_true")
    chosen = parser.parse_args()
    # As `make run` does; otherwise the process would spend most of a second on it.
    compileall.compile_dir(Path(__file__).parents[1] / "src", quiet=1)
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        folder = Path(name)
        cpu, taken = load(f"sqlite:///{folder}/demo.db", folder)
        bare_cpu, bare_taken, rows = bare(folder / "demo.db", folder / "bare.db")
        print(f"{rows:,} rows")
        print(f"bare insert:  {bare_cpu:5.1f} s of CPU, {bare_taken:5.1f} s")
        print(
            f"tollway demo: {cpu:5.1f} s of CPU, {taken:5.1f} s: "
            f"{cpu / bare_cpu:.1f} times the CPU, {taken / bare_taken:.1f} times as long"
        )
        if chosen.postgresql:
            cpu, shared = load(chosen.postgresql, folder)
            print(
                f"PostgreSQL:   {cpu:5.1f} s of CPU here, {shared:5.1f} s: "
                f"{shared / taken:.1f} times the file"
            )
        if chosen.run:
            print(f"make run:     {first_run(folder):5.1f} s in a fresh clone, with its packages")


if __name__ == "__main__":
    main()
