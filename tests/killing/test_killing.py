"""A gateway that is killed with -9 under load: at every boundary, and at random moments.

A few of them, in every run of the tests; `tests/torture` has the campaign of hundreds. Each life
takes up what the one before it left: callers ask again for all they are not sure of.
"""

import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from tests.killing.boundaries import boundaries
from tests.killing.campaign import Campaign, random_moment_s
from tests.support.gateway import Store

SEED = 20
RANDOM_KILLS = 3


@pytest.fixture
def campaign(tmp_path: Path, today: date) -> Iterator[Campaign]:
    made = Campaign(tmp_path, today, SEED)
    yield made
    made.close()


def assert_audit_is_clean(store: Store) -> None:
    command = [sys.executable, "-m", "tollway", "audit", "--database", store.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_killed_at_every_boundary_nothing_is_lost_or_done_twice(campaign: Campaign) -> None:
    for boundary in boundaries():
        assert campaign.die_at(boundary) == [], boundary
    assert campaign.settle() == []
    assert_audit_is_clean(campaign.database)


def test_killed_at_random_moments_nothing_is_lost_or_done_twice(campaign: Campaign) -> None:
    chance = random.Random(SEED)
    for _ in range(RANDOM_KILLS):
        assert campaign.die_after(random_moment_s(chance)) == []
    assert campaign.settle() == []
    assert_audit_is_clean(campaign.database)
    # The callers were under way each time: otherwise this would have tried nothing.
    assert campaign.notes.broken.total() >= RANDOM_KILLS
    assert sum(told.is_success for told in campaign.notes.told) >= RANDOM_KILLS
