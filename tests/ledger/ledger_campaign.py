"""Running many examples of the ledger's machine."""

import asyncio
import tempfile
from functools import partial
from pathlib import Path

from hypothesis import Phase, Verbosity, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.ledger.ledger_gateway import Tamper
from tests.ledger.ledger_machine import BooksMachine
from tests.ledger.ledger_template import make_template

STEPS = 30
# In memory, where there is such a place: a crash is simulated, and needs no disk.
_MEMORY = Path("/dev/shm")


def run_campaign(examples: int) -> None:
    """Fails if any example finds the ledger other than it should be."""
    how = settings(max_examples=examples, stateful_step_count=STEPS, deadline=None)
    _run(how, lambda database: database)


def run_control(
    examples: int,
    tamper: Tamper = lambda database: database,
    machine: type[BooksMachine] = BooksMachine,
) -> None:
    """The same, the same way every time, and content with any failure instead of the shortest."""
    found = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
    )
    _run(found, tamper, machine)


def _run(how: settings, tamper: Tamper, kind: type[BooksMachine] = BooksMachine) -> None:
    with (
        tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder,
        asyncio.Runner() as runner,
    ):
        machine = partial(kind, runner, make_template(Path(folder)), tamper)
        run_state_machine_as_test(machine, settings=how)
