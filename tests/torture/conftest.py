"""What the campaigns share."""

import os
import random

import pytest


@pytest.fixture
def seed() -> int:
    """Chosen at random, or set by `SEED=… make torture`."""
    return int(os.environ.get("SEED") or random.SystemRandom().randrange(10**9))
