"""The power goes: what was acknowledged exists afterwards, and the ledger adds up.

A killed process proves nothing about this, since what it wrote is still with the system.
"""

import random
from datetime import date
from pathlib import Path

import pytest

from tests.power.trials import Trial

pytestmark = pytest.mark.sqlite

STATES = 100
CALLS_EACH = 12


def test_what_was_acknowledged_is_there(tmp_path: Path, today: date) -> None:
    trial = Trial(tmp_path, today, calls_each=CALLS_EACH)
    seed = random.SystemRandom().randrange(10**9)
    found = list(trial.breaches(STATES, random.Random(seed), audit_every=10))
    assert not found, f"seed {seed}"


@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_the_control_that_does_not_wait_for_the_disk_loses_something(
    tmp_path: Path, today: date, synchronous: str
) -> None:
    trial = Trial(tmp_path, today, calls_each=CALLS_EACH, synchronous=synchronous)
    assert any(trial.breaches(STATES, random.Random(1), audit_every=STATES))
