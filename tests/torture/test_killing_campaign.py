"""Killed with -9 under load: 200 random moments, every boundary five times, and 100 lives of two
workers, of which one is killed before all are.

Zero failures in 200 random kills mean at most 1.5 % at 95 %. `SEED=… make torture` repeats a run:
the same moments and the same faults, though not the same scheduling.
"""

from datetime import date
from pathlib import Path

import pytest

from tests.killing.campaign import (
    Campaign,
    kill_at_every_boundary,
    kill_at_moments,
    open_campaign,
    random_moments_s,
)

pytestmark = pytest.mark.torture

# Of the pool: more than the calls of a whole campaign take.
NUMBERS = 100_000
# Everything is settled and checked whole after each of these, to tell where a breach began.
LIVES_AT_ONCE = 25
# The first, the second …: also when other such work is under way already.
OCCURRENCES = (1, 2, 3, 5, 8)


@pytest.mark.parametrize(("workers", "lives"), [(1, 200), (2, 100)])
def test_random_moments(
    tmp_path: Path,
    today: date,
    seed: int,
    workers: int,
    lives: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    moments_s = random_moments_s(lives, seed)
    with open_campaign(tmp_path, today, seed, numbers=NUMBERS, workers=workers) as campaign:
        for start in range(0, lives, LIVES_AT_ONCE):
            kill_at_moments(campaign, moments_s[start : start + LIVES_AT_ONCE])
        with capsys.disabled():
            print(_figures(campaign, lives * workers))  # noqa: T201


def test_every_boundary_five_times(
    tmp_path: Path, today: date, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_campaign(tmp_path, today, seed, numbers=NUMBERS) as campaign:
        kills = sum(kill_at_every_boundary(campaign, nth) for nth in OCCURRENCES)
        with capsys.disabled():
            print(_figures(campaign, kills))  # noqa: T201


def _figures(campaign: Campaign, kills: int) -> str:
    answers, broken = campaign.notes.answers, campaign.notes.broken
    succeeded = sum(each.is_success for each in answers)
    return (
        f"\nseed {campaign.seed}: {kills} kills, {len(answers):,} answers, {succeeded:,} of them "
        f"successes, {broken.total():,} calls broken off"
    )
