"""What `make bench` found: the types of its JSON file, the rounds that it is measured in, and the
machine that it ran on.

In a round servers take turns in slices of time, on a machine whose speed changes from minute to
minute: only slices next to each other show how one server compares with another.
"""

import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import apsw
import msgspec

from requirements.choose_python import is_optimised

# A round in which the rate of the first server changed by more is repeated.
CHANGE_MAX = 0.25
# The connections at which operations are compared.
MAIN = 64


class Measured(msgspec.Struct):
    """One kind of call, one server, one number of connections: a slice of time, or the median of
    several."""

    calls_a_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    database_cpu_us: float = 0.0

    @property
    def all_cpu_us(self) -> float:
        return self.cpu_us + self.database_cpu_us


class Paced(msgspec.Struct):
    """The same at a fixed rate, 70 % of the highest: a try, or the medians of several."""

    calls_a_s: float
    p50_ms: float
    p99_ms: float
    # p99 divided by p50.
    spread: float
    # False if the answers came more slowly than the calls: then the server was at its limit.
    is_held: bool
    # How much of the time the client had a core.
    client_share: float = 1.0


class Row(msgspec.Struct):
    """All that was measured of one kind of call on one server."""

    scenario: str
    contestant: str
    by_connections: dict[int, Measured]
    paced: Paced | None = None


class Round(msgspec.Struct):
    """One turn of the servers, a slice of time each; the first server's is the mean of the slices
    before and after the others."""

    measured: dict[str, Measured]
    # How much the first server's rate changed meanwhile: 0.25 is by a quarter.
    change: float
    is_kept: bool = True


class Ratio(NamedTuple):
    """The median of the rounds' ratios, and their quartiles."""

    low: float
    median: float
    high: float


class Results(msgspec.Struct):
    """One run."""

    made_at: str
    length: str
    machine: dict[str, str]
    orders: int
    scenarios: dict[str, str]
    contestants: dict[str, str]
    rows: list[Row]
    rounds: dict[str, list[Round]]
    memory_mib: dict[str, float]
    missing: list[str]

    def find(self, scenario: str, contestant: str) -> Row | None:
        for row in self.rows:
            if (row.scenario, row.contestant) == (scenario, contestant):
                return row
        return None

    def rate(self, scenario: str, contestant: str, connections: int = MAIN) -> float | None:
        row = self.find(scenario, contestant)
        found = row.by_connections.get(connections) if row else None
        return found.calls_a_s if found else None

    def ratio(
        self, scenario: str, name: str, other: str, value: Callable[[Measured], float]
    ) -> Ratio | None:
        """One server divided by another, round by round: both had the same moment's machine."""
        return ratio_of(self.rounds.get(scenario, ()), name, other, value)


def ratio_of(
    rounds: Iterable[Round], name: str, other: str, value: Callable[[Measured], float]
) -> Ratio | None:
    found = [
        value(each.measured[name]) / value(each.measured[other])
        for each in rounds
        if each.is_kept and {name, other} <= each.measured.keys()
    ]
    if len(found) < 2:
        return Ratio(*found * 3) if found else None
    return Ratio(*statistics.quantiles(found, n=4, method="inclusive"))


def by_rate(measured: Measured) -> float:
    return measured.calls_a_s


def by_cpu(measured: Measured) -> float:
    """Calls for a second of processor time, that of the database included."""
    return 1e6 / measured.all_cpu_us


def by_own_cpu(measured: Measured) -> float:
    """Calls for a second of processor time, with the database on another machine."""
    return 1e6 / measured.cpu_us


def median_of(measured: Sequence[Measured]) -> Measured:
    columns = [[getattr(each, name) for each in measured] for name in Measured.__struct_fields__]
    return Measured(*map(statistics.median, columns))


def take_rounds(
    first: str, others: Sequence[str], measure: Callable[[str], Measured], count: int, repeats: int
) -> list[Round]:
    """Rounds that the first server begins and ends, until enough are steady or too many were
    repeated. The steadiest are marked as kept, without a look at the others' figures."""
    found: list[Round] = []
    steady = 0
    before = measure(first)
    while steady < count and len(found) < count + repeats:
        # To and fro, so that a steady drift of the machine favours no server.
        turns = others if len(found) % 2 == 0 else others[::-1]
        measured = {name: measure(name) for name in turns}
        after = measure(first)
        slower, faster = sorted((before.calls_a_s, after.calls_a_s))
        found.append(Round({first: median_of([before, after]), **measured}, faster / slower - 1))
        steady += found[-1].change <= CHANGE_MAX
        before = after
    for each in sorted(found, key=lambda each: each.change)[count:]:
        each.is_kept = False
    return found


def medians(rounds: Sequence[Round]) -> dict[str, Measured]:
    """Of each server, over the rounds that are kept."""
    kept = [each.measured for each in rounds if each.is_kept]
    return {name: median_of([each[name] for each in kept]) for name in kept[0]}


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def machine() -> dict[str, str]:
    """What the figures depend on."""
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    found = {
        "processor": f"{os.cpu_count()} × {_processor()}",
        "memory": f"{memory_kib / 2**20:.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": f"{platform.python_version()} {'' if is_optimised() else 'not '}optimised",
        "SQLite": apsw.sqlite_lib_version(),
        # Far above 0, others were using the machine, and only the costs per call are of use.
        "load before the run": f"{os.getloadavg()[0]:.1f}",
    }
    for name, command in {
        "nginx": ["nginx", "-v"],
        "Redis": ["redis-server", "--version"],
        "wrk": ["wrk", "-v"],
    }.items():
        found[name] = _version(command)
    return {name: value for name, value in found.items() if value}


def _processor() -> str:
    shown = subprocess.run(["lscpu"], check=False, capture_output=True, text=True).stdout
    names = [line.partition(":")[2].strip() for line in shown.splitlines() if "Model name" in line]
    return names[0] if names else platform.machine()


def _version(command: list[str]) -> str:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    words = (done.stdout + done.stderr).replace("v=", " ").replace("/", " ").split()
    numbers = [word for word in words if word[0].isdigit()]
    return numbers[0] if numbers else ""
