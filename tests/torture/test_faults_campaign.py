"""Faults of the disk at every call of 1,000 random batches to it, about an hour; and connections to
PostgreSQL that break at every round trip of 200 batches, about three quarters of an hour.

A batch has some 130 calls to the disk. Zero failures in 130,000 faults mean at most 0.0023 % at
95 %. It has some 40 round trips, those of new connections included; zero in 8,000 mean at most
0.04 %.
`SEED=… make torture` chooses the same batches and the same faults, though not the same moments.
"""

from datetime import date

import pytest

from tests.faults.campaign import run_random
from tests.support.fake_carrier import FakeCarrier

pytestmark = pytest.mark.torture

BATCHES, BATCHES_SHARED = 1_000, 200
AUDIT_EVERY = 50


@pytest.mark.sqlite
def test_every_call_to_the_disk_of_1000_batches(
    today: date, carrier: FakeCarrier, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    _try(BATCHES, today, carrier, seed, capsys)


@pytest.mark.postgresql
def test_every_round_trip_of_200_batches(
    today: date, carrier: FakeCarrier, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    _try(BATCHES_SHARED, today, carrier, seed, capsys)


def _try(
    batches: int,
    today: date,
    carrier: FakeCarrier,
    seed: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcome = run_random(batches, today, carrier, seed, AUDIT_EVERY)
    assert not outcome.wrong, f"seed {seed}: {outcome}"
    with capsys.disabled():
        print(f"\nseed {seed}: {outcome}")  # noqa: T201
