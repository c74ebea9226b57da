"""Whatever round trip of a batch to PostgreSQL breaks: calls fail with it, and the ledger does not.

The same trials find what is wrong when a commit in doubt is taken for one that failed.
"""

import random
from datetime import date
from unittest.mock import patch

import pytest

from tests.faults.batches import Batch, Kinds
from tests.faults.campaign import Outcome, run, run_random
from tests.faults.disk import AFTER, Fault
from tests.faults.network import CUT
from tests.support.fake_carrier import FakeCarrier
from tollway.store.database import StoreUnavailableError
from tollway.store.postgresql import database

pytestmark = pytest.mark.postgresql

BATCHES = 1


def test_any_round_trip_may_break(today: date, carrier: FakeCarrier) -> None:
    seed = random.SystemRandom().randrange(10**9)
    outcome = run_random(BATCHES, today, carrier, seed, audit_every=20)
    assert not outcome.wrong, f"seed {seed}"
    assert outcome.figures["faults"] and outcome.figures["acknowledged"]


def test_the_control_is_found(today: date, carrier: FakeCarrier) -> None:
    def several(kinds: Kinds) -> Batch:
        return Batch([kinds.plain(random.Random(1)), kinds.pool(random.Random(1))])

    outcome = Outcome()
    with patch.object(database, "CommitUnknownError", StoreUnavailableError):
        # Several: which round trip is the commit is not quite the same each time.
        run([several] * 5, lambda at: Fault(at, CUT, AFTER), today, carrier, 20, outcome)
    assert outcome.wrong
