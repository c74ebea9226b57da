"""Whatever call to the disk fails: calls fail with it, and the ledger does not.

The same trials find what is wrong when a part of the writer is switched off.
"""

import random
from collections.abc import Callable
from datetime import date
from unittest.mock import patch

import pytest

from tests.faults.batches import Batch, Kinds
from tests.faults.campaign import Outcome, run, run_random
from tests.faults.disk import AFTER, BUSY, IOERR, Fault
from tests.support.fake_carrier import FakeCarrier
from tollway.store.sqlite.writer import SqliteTransaction, Writer

pytestmark = pytest.mark.sqlite

BATCHES = 1
ATTEMPTS = 5
NEVER = 10**9


def test_any_call_to_the_disk_may_fail(today: date, carrier: FakeCarrier) -> None:
    seed = random.SystemRandom().randrange(10**9)
    outcome = run_random(BATCHES, today, carrier, seed, audit_every=20)
    assert not outcome.wrong, f"seed {seed}"
    assert outcome.figures["faults"] > BATCHES and outcome.figures["acknowledged"]


def waybill(kinds: Kinds) -> Batch:
    return Batch([kinds.pool(random.Random(1))])


def sync_of_commit(attempt: int) -> Fault:
    """The first sync is of the log's header, if the log is empty: the second attempt has one."""
    return Fault(1 if attempt <= 2 else NEVER, IOERR, name="xSync")


def several(kinds: Kinds) -> Batch:
    """The waybill has a key, and so is done alone: an error of its own leaves the others."""
    return Batch([kinds.plain(random.Random(1)), kinds.pool_with_key(random.Random(1))])


@pytest.mark.parametrize(
    ("of", "what", "instead", "batch", "fault_at"),
    [
        pytest.param(
            *(SqliteTransaction, "check", lambda _: None, several, lambda at: Fault(at, IOERR)),
            id="a batch goes on without its transaction",
        ),
        pytest.param(
            *(Writer, "_discard_failed_commit", lambda _: True),
            *(waybill, sync_of_commit),
            id="a failed commit stays in the log",
        ),
        pytest.param(
            *(Writer, "_disconnect", lambda _: None, several, lambda at: Fault(at, BUSY, AFTER, 2)),
            id="a connection that failed is used again",
        ),
    ],
)
def test_the_controls_are_found(
    today: date,
    carrier: FakeCarrier,
    of: type,
    what: str,
    instead: object,
    batch: Callable[[Kinds], Batch],
    fault_at: Callable[[int], Fault],
) -> None:
    outcome = Outcome()
    with patch.object(of, what, instead):
        # Until it is found: on a busy machine the calls of a batch may each have their own commit.
        run([batch] * ATTEMPTS, fault_at, today, carrier, 1, outcome)
    assert outcome.wrong
