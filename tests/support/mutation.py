"""`make mutation`: which faults in the code that charges would the tests not notice?

Every mutant (`mutants.py`) is put into a copy of the sources, and the tests of its module run on
that copy until one fails. One that passes them all has survived. It is no tool of others, because
mutmut leaves out the code of a module outside of functions, where the ledger has its SQL, and
cosmic-ray changes the files in place and starts Python again for each mutant.

With `--record FILE` every killed mutant is noted in a file as it is killed, and a later run tries
only the others: a run that was stopped goes on, and after a new test only survivors run again.
"""

import argparse
import compileall
import hashlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import tests.support.fork_server  # noqa: F401 - loads what every run of tests needs
from tests.support.mutants import Mutant, mutants_of
from tests.support.postgresql import Server

ROOT = Path(__file__).parents[2]
_KILLED_MIN = 0.9
# A mutant may wait for ever. Others take as long as the tests without a fault, or longer if the
# machine has become busy.
_UNCHANGED_TIMEOUT_S = 600
_TIMES_UNCHANGED = 3
_TIMEOUT_MIN_S = 60
# The slowest of the tests takes 7 s alone.
_TEST_TIMEOUT_S = 45
# The libraries are loaded before the forks.
_LOADED = "ignore::pytest.PytestAssertRewriteWarning"
_MACHINE = (
    "tests/ledger/test_ledger_machine.py::test_the_ledger_is_as_it_should_be_whatever_happens",
)
_QUEUE = (
    "tests/ledger/test_pending_charge.py",
    "tests/ledger/test_cpu_contention.py",
    "tests/ledger/test_charge_queue.py",
    "tests/ledger/test_charge_queue_timeouts.py",
    "tests/ledger/test_charge_queue_waits.py",
    "tests/ledger/test_shared_windows.py",
)
# Of the modules that charge, without a server.
_POSTING = (
    "tests/ledger/test_charges.py",
    "tests/ledger/test_acts.py",
    "tests/ledger/test_joint_acts.py",
    "tests/ledger/test_charge_transaction.py",
    "tests/ledger/test_shared_windows.py",
)
# Tests of a module, the quickest first.
_TESTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "ledger/charges.py": (_POSTING, _MACHINE),
    "ledger/charging.py": (("tests/ledger/test_charge_batcher.py",),),
    "ledger/charge_queue.py": (_QUEUE,),
    "ledger/charge_transaction.py": (_POSTING, _MACHINE),
    "ledger/joint_acts.py": (_POSTING, _MACHINE),
    "ledger/entries.py": (
        ("tests/ledger/test_top_ups.py", "tests/ledger/test_entries.py"),
        # PostgreSQL adds entries by another statement.
        ("--engine", "postgresql", "tests/ledger/test_entries.py"),
        _MACHINE,
    ),
    "ledger/holds.py": (
        (
            "tests/ledger/test_hold_calls.py",
            "tests/ledger/test_open_holds.py",
            "tests/ledger/test_holds.py",
        ),
        # Only there are rows locked.
        ("--engine", "postgresql", "tests/ledger/test_open_holds.py"),
        _MACHINE,
    ),
    "ledger/idempotency.py": (
        ("tests/ledger/test_kept_answers.py", "tests/pipeline/test_replay.py"),
        ("--engine", "postgresql", "tests/ledger/test_kept_answers.py"),
    ),
    "ledger/token_limits.py": (
        ("tests/ledger/test_token_limits.py", "tests/ledger/test_day_caps.py"),
        # Only there are counts locked.
        ("--engine", "postgresql", "tests/ledger/test_day_caps.py"),
    ),
    "ledger/creation_limits.py": (("tests/ledger/test_creation_limits.py",),),
    "ledger/charge_postgresql.py": (
        ("tests/ledger/test_charge_columns.py", "tests/ledger/test_act_columns.py"),
        (
            "tests/ledger/test_charge_postgresql.py",
            "tests/ledger/test_charge_postgresql_busy.py",
            "tests/ledger/test_shared_limit.py",
            "tests/ledger/test_joint_acts.py",
        ),
    ),
    "ledger/shared_windows.py": (("tests/ledger/test_shared_windows.py",),),
    "ledger/consent_uses.py": (
        ("tests/ledger/test_consent_uses.py",),
        # PostgreSQL adds uses by another statement.
        ("--engine", "postgresql", "tests/ledger/test_consent_uses.py"),
    ),
    "pipeline/settle.py": (
        ("tests/pipeline/test_settle.py", "tests/pipeline/test_settle_limits.py"),
    ),
    "pipeline/replay.py": (("tests/pipeline/test_replay.py",),),
}


class Trial(NamedTuple):
    """A mutant of a module, to be tried."""

    module: str
    mutant: Mutant

    def __str__(self) -> str:
        return f"{self.module}:{self.mutant.line}  {self.mutant.was}  ->  {self.mutant.now}"

    @property
    def digest(self) -> str:
        """Another one once the module has changed."""
        return hashlib.sha256(f"{self.module}\n{self.mutant.source}".encode()).hexdigest()


class Record:
    """The mutants that were killed, in a file or only in this run."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._killed: set[str] = set()
        if path is not None and path.exists():
            self._killed = {line.split(" ", 1)[0] for line in path.read_text().splitlines()}

    def __contains__(self, trial: Trial) -> bool:
        return trial.digest in self._killed

    def add(self, trial: Trial) -> None:
        self._killed.add(trial.digest)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(f"{trial.digest} {trial}\n")


class TestTimeout:
    """Ends the process if one test takes too long: most such mutants wait for what never comes."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        signal.alarm(_TEST_TIMEOUT_S)
        try:
            return (yield)
        finally:
            signal.alarm(0)


class Copy:
    """A copy of the sources in which one mutant after the other is tried."""

    def __init__(self, folder: Path) -> None:
        self._sources = folder / "src"
        self._scratch = folder / "tmp"
        shutil.copytree(ROOT / "src" / "tollway", self._sources / "tollway")
        compileall.compile_dir(self._sources, quiet=1)
        self._pid = 0
        self.began_s = 0.0
        self._deadline_s = 0.0
        self.trial: Trial | None = None

    def begin(self, trial: Trial, server: str, timeout_s: float) -> None:
        self.trial, self.began_s = trial, time.monotonic()
        self._deadline_s = self.began_s + timeout_s
        self._put(trial.mutant.source)
        self._scratch.mkdir()
        if (pid := os.fork()) == 0:
            os.setsid()
            try:
                os._exit(self._run(trial, server))
            finally:
                os._exit(1)
        self._pid = pid

    def ended(self) -> bool | None:
        """Whether the mutant was killed; None as long as its tests run."""
        assert self.trial is not None
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid == 0 and time.monotonic() < self._deadline_s:
            return None
        if pid == 0:
            os.killpg(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        trial = self.trial
        self._put((ROOT / "src" / "tollway" / trial.module).read_text())
        shutil.rmtree(self._scratch, ignore_errors=True)
        self.trial = None
        # On a busy machine this is no proof: it is shown.
        if pid == 0 or status == signal.SIGALRM:
            sys.stdout.write(f"\ntoo slow, and so taken for killed: {trial}\n")
        return pid == 0 or status != 0

    def end(self) -> None:
        if self.trial is not None:
            os.killpg(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)

    def _put(self, source: str) -> None:
        assert self.trial is not None
        path = self._sources / "tollway" / self.trial.module
        path.write_text(source)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def _run(self, trial: Trial, server: str) -> int:
        """Runs the tests in this fork, with the modules of the copy."""
        for name in [each for each in sys.modules if each.split(".")[0] in ("tollway", "tests")]:
            del sys.modules[name]
        sys.path.insert(0, str(self._sources))
        # The runs without a fault leave the bytecode of the tests for those with one, which must
        # leave none: it might be taken for that of the next mutant.
        sys.dont_write_bytecode = bool(trial.mutant.line)
        tempfile.tempdir = None
        os.environ["TMPDIR"] = str(self._scratch)
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1" if trial.mutant.line else ""
        os.environ["TOLLWAY_TEST_DATABASE"] = server
        silence = os.open(os.devnull, os.O_WRONLY)
        for output in (1, 2):
            os.dup2(silence, output)
        options = ["-x", "-q", "-p", "no:cacheprovider", "-W", _LOADED]
        options += ["--engine", _engine(trial.module), "--hypothesis-profile", "any_failure"]
        for chosen in _TESTS[trial.module]:
            if status := pytest.main([*options, *chosen], plugins=[TestTimeout()]):
                return int(status)
        return 0


def _engine(module: str) -> str:
    return "postgresql" if "postgresql" in module else "sqlite"


def survivors(
    trials: list[Trial], processes: int, record: Record, timeout_s: float
) -> Iterator[float]:
    """Tries mutants, so many at once; of those that no test notices, how long the tests took."""
    server = Server()
    with tempfile.TemporaryDirectory(prefix="tollway-mutants-") as folder:
        copies = [Copy(Path(folder) / str(nth)) for nth in range(processes)]
        waiting = list(reversed(trials))
        try:
            while waiting or any(copy.trial for copy in copies):
                for copy in copies:
                    if (trial := copy.trial) is not None and (killed := copy.ended()) is not None:
                        sys.stdout.write("." if killed else f"\nsurvived: {trial}\n")
                        sys.stdout.flush()
                        if killed:
                            record.add(trial)
                        else:
                            yield time.monotonic() - copy.began_s
                    if copy.trial is None and waiting:
                        copy.begin(waiting.pop(), server.url, timeout_s)
                time.sleep(0.05)
        finally:
            for copy in copies:
                copy.end()
            server.stop()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("modules", nargs="*", default=list(_TESTS))
    options.add_argument("--sample", type=int, help="try so many, chosen at random")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--lines", help="only the mutants of these lines, as 10,12")
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--record", type=Path, help="a file that notes the mutants killed")
    given = options.parse_args()
    # So that what was started ends too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    trials = [
        Trial(module, mutant)
        for module in given.modules
        for mutant in mutants_of((ROOT / "src" / "tollway" / module).read_text())
        if given.lines is None or str(mutant.line) in given.lines.split(",")
    ]
    random.Random(given.seed).shuffle(trials)
    trials = trials[: given.sample]
    if not trials:
        sys.exit("No mutant is asked for: see --lines, --sample and the modules.")
    record = Record(given.record)
    # Modules with the same tests need them to pass but once.
    modules = {(_TESTS[module], _engine(module)): module for module in given.modules}
    unchanged = [
        Trial(module, Mutant(0, "", "", (ROOT / "src" / "tollway" / module).read_text()))
        for module in modules.values()
    ]
    took_s = list(survivors(unchanged, given.processes, Record(None), _UNCHANGED_TIMEOUT_S))
    if len(took_s) < len(unchanged):
        sys.exit("The tests fail without any fault.")
    timeout_s = max(_TIMEOUT_MIN_S, _TIMES_UNCHANGED * max(took_s))
    waiting = [trial for trial in trials if trial not in record]
    left = len(list(survivors(waiting, given.processes, record, timeout_s)))
    killed = len(trials) - left
    share = killed / len(trials)
    sys.stdout.write(f"\n{killed} of {len(trials)} mutants killed, {share:.1%}\n")
    return 0 if share >= _KILLED_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
