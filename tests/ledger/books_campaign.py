"""Running many examples of the books' machine."""

import asyncio
import tempfile
from functools import partial
from pathlib import Path

from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.ledger.books_gateway import Tamper
from tests.ledger.books_machine import BooksMachine
from tests.ledger.books_template import make_template

STEPS = 30
# In memory, where there is such a place: a crash is simulated, and needs no disk.
_MEMORY = Path("/dev/shm")


def run_campaign(examples: int, tamper: Tamper | None = None) -> None:
    """Fails if any example finds the books other than they should be."""
    with (
        tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder,
        asyncio.Runner() as runner,
    ):
        template = make_template(Path(folder))
        machine = partial(BooksMachine, runner, template, tamper or (lambda database: database))
        run_state_machine_as_test(machine, settings=_settings(examples, is_control=bool(tamper)))


def _settings(examples: int, *, is_control: bool) -> settings:
    common = settings(max_examples=examples, stateful_step_count=STEPS, deadline=None)
    if not is_control:
        return common
    # A control need not find the shortest way to a failure, but must find one every time.
    return settings(common, phases=[Phase.generate], derandomize=True, database=None)
