"""What the campaigns share."""

import os
import random

import asyncpg
import pytest

from tests.support.known_types import ask


@pytest.fixture
def seed() -> int:
    """Chosen at random, or set by `SEED=… make torture`."""
    return int(os.environ.get("SEED") or random.SystemRandom().randrange(10**9))


@pytest.fixture(autouse=True)
def asked_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Campaigns have time for all that a connection asks: each question may meet a fault."""
    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", ask)
