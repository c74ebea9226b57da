"""A gateway that is killed with -9 under load: at every boundary, and at random moments.

A few of them, in every run of the tests; `tests/torture` has the campaign of hundreds. Each life
takes up what the one before it left: callers ask again for all they are not sure of.
"""

from datetime import date
from pathlib import Path

import pytest

from tests.killing.boundaries import COMMITS, MESSAGES
from tests.killing.campaign import (
    Campaign,
    kill_after_answers,
    kill_at_every_boundary,
    kill_at_moments,
    open_campaign,
    random_moments_s,
)

SEED = 20
RANDOM_KILLS = 3
# Of a client between two calls: the campaign has none, and keeps all processors busy.
PAUSE_S = 0.05
# Of each life: enough for every kind of call to be made several times. The first breach ends them;
# it is looked for when the next one begins.
ANSWERS = [40, 40, 80, 160, 320, 1]


def test_killed_at_every_boundary_nothing_is_lost_or_done_twice(
    tmp_path: Path, today: date
) -> None:
    with open_campaign(tmp_path, today, SEED) as campaign:
        assert kill_at_every_boundary(campaign) == 2 * len((*COMMITS, *MESSAGES))


def test_killed_at_random_moments_nothing_is_lost_or_done_twice(
    tmp_path: Path, today: date
) -> None:
    with open_campaign(tmp_path, today, SEED) as campaign:
        kill_at_moments(campaign, random_moments_s(RANDOM_KILLS, SEED), PAUSE_S)
        assert_callers_were_under_way(campaign, RANDOM_KILLS)


def test_of_two_workers_one_or_all_are_killed_and_nothing_is_lost_or_done_twice(
    tmp_path: Path, today: date
) -> None:
    with open_campaign(tmp_path, today, SEED, workers=2) as campaign:
        kill_at_moments(campaign, random_moments_s(RANDOM_KILLS, SEED), PAUSE_S)
        assert_callers_were_under_way(campaign, 2 * RANDOM_KILLS)


def assert_callers_were_under_way(campaign: Campaign, kills: int) -> None:
    """Otherwise this would have tried nothing."""
    assert campaign.notes.broken.total() >= kills
    assert sum(answer.is_success for answer in campaign.notes.answers) >= kills


@pytest.mark.parametrize(
    ("sabotage", "breach"),
    # A batch with a hold may have other acts in it, which are lost with it.
    [("charges are lost", "lost: "), ("holds are lost", "issued twice: |lost: ")],
)
def test_the_same_with_commits_that_are_none_turns_red(
    tmp_path: Path, today: date, sabotage: str, breach: str
) -> None:
    with (
        open_campaign(tmp_path, today, SEED, sabotage) as campaign,
        pytest.raises(AssertionError, match=breach),
    ):
        kill_after_answers(campaign, ANSWERS, PAUSE_S)
