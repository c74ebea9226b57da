"""`make bench`: every operation of the gateway beside its peers, in one run.

All servers run on the first core and the load on the second. For each kind of call the servers take
turns, round by round, so that a change of the machine's speed affects all of them. Prints a table,
and writes docs/performance.md with its charts and the JSON file that they are made from.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

import msgspec

from bench.contestants import Contestant, Field
from bench.load import Load, full, paced
from bench.page import RESULTS_FILE, write_page
from bench.report import printed
from bench.results import MAIN, Measured, Paced, Results, Row, machine, median_of, now_text
from bench.scenarios import SCENARIOS, Scenario
from bench.servers import LOAD_CORE, cpu_s, memory_mib, missing
from bench.world import Size

_PEAK_SHARE = 0.7
# Requests are numbered, and those of a round begin here after those of the last.
_ROUND_REQUESTS = 1_000_000
# Before each measurement, so that it is of a server with warm caches and open connections.
_WARM_UP_S = 1
# Of a server this slow, one longer round says more than several.
_SLOW_CALLS_A_S, _SLOW_S = 500, 3
_IDLE_LOOK_S, _IDLE_TIMEOUT_S = 0.2, 15.0


class Length(NamedTuple):
    """How long a run is, in rounds and seconds."""

    size: Size
    rounds: int
    round_s: int
    connections: tuple[int, ...]
    paced_s: float


LENGTHS = {
    "full": Length(Size(200_000, 365, 24, 365, 1000, 300_000), 3, 2, (1, 16, 400), 3.0),
    "quick": Length(Size(20_000, 365, 24, 230, 1000, 60_000), 1, 1, (), 0.5),
}


class Bench:
    """One run over everything that takes part."""

    def __init__(self, folder: Path, field: Field, length: Length) -> None:
        self._folder, self._field, self._length = folder, field, length
        self._rounds = 0
        self._waybills: Counter[str] = Counter()
        self._slow: set[str] = set()
        self.memory: dict[str, float] = defaultdict(float)

    def measure(self, scenario: Scenario) -> list[Row]:
        rounds: dict[str, dict[int, list[Measured]]] = defaultdict(lambda: defaultdict(list))
        plan = [(MAIN, self._length.round_s)] * self._length.rounds
        plan += [(connections, 1) for connections in self._length.connections]
        for connections, seconds in plan:
            for each in self._field.contestants:
                found = rounds[each.name][connections]
                if each.name in self._slow and found:
                    continue
                lasts_s = max(seconds, _SLOW_S) if each.name in self._slow else seconds
                found.append(self._round(scenario, each, connections, lasts_s))
        rows = []
        for each in self._field.contestants:
            by_connections = {
                count: median_of(found) for count, found in sorted(rounds[each.name].items())
            }
            rows.append(Row(scenario.name, each.name, by_connections))
            peak = by_connections[MAIN].calls_a_s
            # The bare server's rate is more than the client can pace, and of no use to a caller.
            if each.name != "bare" and peak:
                rows[-1].paced = self._paced(scenario, each, peak * _PEAK_SHARE)
            used = memory_mib(*each.pids, *each.database_pids)
            self.memory[each.name] = max(self.memory[each.name], used)
        self._check_numbers()
        return rows

    def _round(
        self, scenario: Scenario, each: Contestant, connections: int, seconds: int
    ) -> Measured:
        file = self._folder / f"{each.name}.requests"
        file.write_bytes(b"\0".join(each.requests(scenario)))
        self._settle()
        self._check(scenario, each, full(each.port, file, _WARM_UP_S, connections, self._first()))
        before_s, database_before_s = cpu_s(*each.pids), cpu_s(*each.database_pids)
        found = full(each.port, file, seconds, connections, self._first())
        calls = max(1, found.calls)
        self._check(scenario, each, found)
        if connections == MAIN:
            is_slow = found.rate < _SLOW_CALLS_A_S
            (self._slow.add if is_slow else self._slow.discard)(each.name)
        return Measured(
            found.rate,
            found.p50_ms,
            found.p99_ms,
            (cpu_s(*each.pids) - before_s) / calls * 1e6,
            (cpu_s(*each.database_pids) - database_before_s) / calls * 1e6,
        )

    def _paced(self, scenario: Scenario, each: Contestant, rate: float) -> Paced:
        requests, seconds = each.requests(scenario), self._length.paced_s
        self._settle()
        found = paced(each.port, requests, rate, seconds, MAIN, self._first())
        self._check(scenario, each, found)
        return Paced(found.rate, found.p50_ms, found.p99_ms)

    def _settle(self) -> None:
        """Waits until no server works on what it was sent before: all of them share a core."""
        wait_until_idle(self._field.contestants)

    def _first(self) -> int:
        self._rounds += 1
        return self._rounds * _ROUND_REQUESTS

    def _check(self, scenario: Scenario, each: Contestant, found: Load) -> None:
        """Every call had the answer that is measured; within a limit, a few may succeed."""
        wrong = found.refused if scenario.status == 200 else found.calls - found.refused
        # A peer counts in whole seconds, and the last answers may come late.
        allowed = 10 * (found.seconds + 3) if scenario.status == 429 else 0
        if wrong > allowed:
            sys.exit(f"{scenario.title}, {each.title}: {wrong} of {found.calls} answers are wrong.")
        if scenario.name == "waybills":
            self._waybills[each.name] += found.calls

    def _check_numbers(self) -> None:
        for name, calls in self._waybills.items():
            if name != "bare" and calls > self._length.size.numbers:
                sys.exit(f"{name} ran out of waybill numbers: let bench/performance.py make more.")


def wait_until_idle(contestants: Sequence[Contestant]) -> None:
    """A slow server still works on calls whose connections have ended, and its database too."""
    pids = {pid for each in contestants for pid in (*each.pids, *each.database_pids)}
    deadline_s = monotonic() + _IDLE_TIMEOUT_S
    while monotonic() < deadline_s:
        before_s = cpu_s(*pids)
        sleep(_IDLE_LOOK_S)
        if cpu_s(*pids) - before_s < _IDLE_LOOK_S / 10:
            return


def run(folder: Path, name: str) -> Results:
    length, its_machine = LENGTHS[name], machine()
    field = Field(folder, length.size)
    try:
        bench, rows = Bench(folder, field, length), []
        for scenario in SCENARIOS:
            print(f"… {scenario.title}", file=sys.stderr, flush=True)
            rows += bench.measure(scenario)
        return Results(
            made_at=now_text(),
            length=name,
            machine=its_machine,
            orders=field.orders,
            scenarios={each.name: each.title for each in SCENARIOS},
            contestants={each.name: each.title for each in field.contestants},
            rows=rows,
            memory_mib=dict(bench.memory),
            missing=field.missing,
        )
    finally:
        field.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("length", choices=LENGTHS, nargs="?", default="full")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="where to write the page")
    options = parser.parse_args()
    needed = missing({"wrk": "wrk", "taskset": "util-linux", "setarch": "util-linux"})
    if needed:
        sys.exit(f"The bench needs {', '.join(needed)}.")
    if (os.cpu_count() or 1) < 2:
        sys.exit("The bench needs two cores: one for the servers, one for the load.")
    os.sched_setaffinity(0, {LOAD_CORE})
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        found = run(Path(name), options.length)
    print(printed(found))
    file = options.docs / RESULTS_FILE
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    write_page(options.docs)


if __name__ == "__main__":
    main()
