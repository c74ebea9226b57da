"""`make bench`: every operation of the gateway beside its peers, in one run.

All servers run on the first core and the load on the second. For each kind of call the servers take
turns in slices of half a second, and each round of them gives one ratio; the bare server begins and
ends a round, and a round in which it changed by a quarter is repeated. Prints a table, and
writes docs/performance.md with its charts and the JSON file that they are made from.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import NamedTuple

from bench.contestants import Contestant, Field
from bench.load import NUMBERS_APART, Load, full, paced
from bench.page import RESULTS_FILE, write_results
from bench.report import printed
from bench.results import (
    MAIN,
    Measured,
    Paced,
    Results,
    Round,
    Row,
    machine,
    median_of,
    medians,
    now_text,
    take_rounds,
)
from bench.scenarios import SCENARIOS, Scenario
from bench.servers import LOAD_CORE, Steal, cpu_s, memory_mib, missing
from bench.world import Size

_PEAK_SHARE = 0.7
# A rate counts as held if so much of it was answered in its time, and a try as undisturbed if its
# client had a core for so much of it.
_HELD_SHARE, _CLIENT_SHARE = 0.95, 0.95
_IDLE_LOOK_S, _IDLE_TIMEOUT_S = 0.05, 15.0


class Length(NamedTuple):
    """How long a run is."""

    size: Size
    # Before the first round, each server is loaded for so long: with less, the first three rounds
    # of answers from rows showed pages that were read for the first time.
    warm_s: float
    slice_s: float
    rounds: int
    # Rounds that are repeated at most, of each kind of call.
    repeats: int
    connections: tuple[int, ...]
    # Slices at each of the other numbers of connections.
    turns: int
    paced_s: float
    paced_tries: int
    # Of a slow server, one load says enough; it warms up as long.
    slow_s: float


LENGTHS = {
    "full": Length(
        Size(200_000, 365, 24, 365, 1000, 300_000), 2.0, 0.5, 7, 4, (1, 16, 400), 2, 0.7, 3, 1.5
    ),
    "quick": Length(Size(20_000, 365, 24, 230, 1000, 60_000), 0.4, 0.4, 3, 2, (), 0, 0.4, 2, 0.7),
}


class Bench:
    """One run over everything that takes part."""

    def __init__(self, folder: Path, field: Field, length: Length) -> None:
        self._folder, self._field, self._length = folder, field, length
        self._sent: Counter[str] = Counter()
        self._waybills: Counter[str] = Counter()
        self.memory: dict[str, float] = defaultdict(float)

    def measure(self, scenario: Scenario) -> tuple[list[Row], list[Round]]:
        for each in self._field.contestants:
            self._requests_file(each).write_bytes(b"\0".join(each.requests(scenario)))
        bare, *others = (each for each in self._field.contestants if not each.is_slow)
        turns = {each.name: each for each in (bare, *others)}
        for each in turns.values():
            self._slice(scenario, each, seconds=self._length.warm_s)
        rounds = take_rounds(
            bare.name,
            [each.name for each in others],
            lambda name: self._slice(scenario, turns[name]),
            self._length.rounds,
            self._length.repeats,
        )
        rows = {
            name: Row(scenario.name, name, {MAIN: found}) for name, found in medians(rounds).items()
        }
        self._by_connections(scenario, others, rows)
        for each in self._field.contestants:
            if each.is_slow:
                rows[each.name] = self._slow(scenario, each)
            # The bare server's rate is more than the client can pace, and of no use to a caller.
            elif each is not bare:
                rows[each.name].paced = self._paced(scenario, each)
            used = memory_mib(*each.pids, *each.database_pids)
            self.memory[each.name] = max(self.memory[each.name], used)
        self._check_numbers()
        return list(rows.values()), rounds

    def _by_connections(
        self, scenario: Scenario, others: Sequence[Contestant], rows: dict[str, Row]
    ) -> None:
        for count in self._length.connections:
            found: dict[str, list[Measured]] = defaultdict(list)
            for _ in range(self._length.turns):
                for each in others:
                    found[each.name].append(self._slice(scenario, each, count))
            for name, slices in found.items():
                rows[name].by_connections[count] = median_of(slices)

    def _slow(self, scenario: Scenario, each: Contestant) -> Row:
        self._slice(scenario, each, seconds=self._length.slow_s)
        found = self._slice(scenario, each, seconds=self._length.slow_s)
        at_peak_share = self._paced_once(scenario, each, found.calls_a_s)
        return Row(scenario.name, each.name, {MAIN: found}, at_peak_share)

    def _paced(self, scenario: Scenario, each: Contestant) -> Paced:
        """Each try at the share of the rate just before it, whatever the machine is like then. If
        it became slower meanwhile, or others took the client's core, there is another."""
        tries: list[Paced] = []
        held: list[Paced] = []
        count = self._length.paced_tries
        while len(tries) < 2 * count and (
            len(held) < count or held[count - 1].client_share < _CLIENT_SHARE
        ):
            peak = self._slice(scenario, each).calls_a_s
            tries.append(self._paced_once(scenario, each, peak))
            held = sorted(
                (one for one in tries if one.is_held), key=attrgetter("client_share"), reverse=True
            )
        chosen = held[:count] or tries
        names = ("calls_a_s", "p50_ms", "p99_ms", "spread", "client_share")
        columns = {name: median(getattr(one, name) for one in chosen) for name in names}
        return Paced(**columns, is_held=bool(held))

    def _paced_once(self, scenario: Scenario, each: Contestant, peak: float) -> Paced:
        requests, seconds, rate = each.requests(scenario), self._length.paced_s, peak * _PEAK_SHARE
        self._settle()
        found = paced(each.port, requests, rate, seconds, MAIN, self._sent[each.name])
        self._count(scenario, each, found)
        spread, is_held = found.p99_ms / found.p50_ms, found.rate >= _HELD_SHARE * rate
        return Paced(found.rate, found.p50_ms, found.p99_ms, spread, is_held, found.client_share)

    def _slice(
        self, scenario: Scenario, each: Contestant, connections: int = MAIN, seconds: float = 0.0
    ) -> Measured:
        self._settle()
        seconds = seconds or self._length.slice_s
        before_s, database_before_s = cpu_s(*each.pids), cpu_s(*each.database_pids)
        file, first = self._requests_file(each), self._sent[each.name]
        found = full(each.port, file, seconds, connections, first)
        spent_s = cpu_s(*each.pids) - before_s
        database_spent_s = cpu_s(*each.database_pids) - database_before_s
        self._count(scenario, each, found)
        # A busy machine may answer nothing in a short slice.
        if not found.calls:
            return self._slice(scenario, each, connections, 2 * seconds)
        return Measured(
            found.rate,
            found.p50_ms,
            found.p99_ms,
            spent_s / found.calls * 1e6,
            database_spent_s / found.calls * 1e6,
        )

    def _requests_file(self, each: Contestant) -> Path:
        return self._folder / f"{each.name}.requests"

    def _settle(self) -> None:
        """Waits until no server works on what it was sent before: all of them share a core."""
        wait_until_idle(self._field.contestants)

    def _count(self, scenario: Scenario, each: Contestant, found: Load) -> None:
        """Every call had the answer that is measured; within a limit, a few may succeed."""
        wrong = found.refused if scenario.status == 200 else found.calls - found.refused
        # A peer counts in whole seconds, and the last answers may come late.
        allowed = 10 * (found.seconds + 3) if scenario.status == 429 else 0
        if wrong > allowed:
            sys.exit(f"{scenario.title}, {each.title}: {wrong} of {found.calls} answers are wrong.")
        self._sent[each.name] += found.calls + NUMBERS_APART
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
    length, its_machine, steal = LENGTHS[name], machine(), Steal()
    began_s = monotonic()
    field = Field(folder, length.size)
    try:
        bench, rows, rounds = Bench(folder, field, length), [], {}
        for scenario in SCENARIOS:
            print(f"{monotonic() - began_s:4.0f} s  {scenario.title}", file=sys.stderr, flush=True)
            found, rounds[scenario.name] = bench.measure(scenario)
            rows += found
        return Results(
            made_at=now_text(),
            length=name,
            machine={**its_machine, "stolen by the host during the run": f"{steal.share:.0%}"},
            orders=field.orders,
            scenarios={each.name: each.title for each in SCENARIOS},
            contestants={each.name: each.title for each in field.contestants},
            rows=rows,
            rounds=rounds,
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
    # Now, and not after the run, whose results would be lost.
    options.docs.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, {LOAD_CORE})
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        found = run(Path(name), options.length)
    print(printed(found))
    write_results(options.docs, RESULTS_FILE, found)


if __name__ == "__main__":
    main()
