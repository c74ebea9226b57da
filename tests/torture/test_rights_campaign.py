"""Callers of three nodes while what they may do is taken away and given back, 600 times: notified
of changes, and not; and of two workers on one SQLite file. About five minutes each.

Each answer after an end is a trial: the figures say how many there were. `SEED=… make torture`
repeats the same changes and calls, though not the same scheduling.
"""

from contextlib import ExitStack
from datetime import date
from pathlib import Path

import pytest

from tests.rights.campaign import NEVER_S, SETTINGS, UNNOTIFIED, Campaign, world_of_rights
from tests.support.gateway import Gateway
from tests.support.stores import Store

pytestmark = pytest.mark.torture

NODES, WORKERS, DOORS = 3, 2, 12
ACCOUNTS, STEPS = 4, 150
NUMBERS = 200_000
# A node knows of a change within a second; it and the database may be held up by the others.
KNOWN_AFTER_S = 5.0


@pytest.mark.postgresql
@pytest.mark.parametrize("known_after_s", [KNOWN_AFTER_S, NEVER_S], ids=["notified", "not"])
def test_what_has_ended_is_refused_by_every_node(
    tmp_path: Path,
    today: date,
    seed: int,
    known_after_s: float,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = world_of_rights(Store(tmp_path / "tollway.db"), today, NUMBERS)
    if known_after_s == NEVER_S:
        store.run(UNNOTIFIED)
    with ExitStack() as serving:
        nodes = [serving.enter_context(Gateway(store, workers=1, **SETTINGS)) for _ in range(NODES)]
        campaign = Campaign(store, nodes, today, seed, known_after_s=known_after_s)
        _run(campaign, capsys)


@pytest.mark.sqlite
def test_what_has_ended_is_refused_by_every_worker(
    tmp_path: Path, today: date, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    store = world_of_rights(Store(tmp_path / "tollway.db"), today, NUMBERS)
    with Gateway(store, workers=WORKERS, **SETTINGS) as node:
        campaign = Campaign(store, [node], today, seed, known_after_s=0.0, doors_each=DOORS)
        _run(campaign, capsys)


def _run(campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    campaign.run(ACCOUNTS, STEPS)
    with capsys.disabled():
        print(f"\n{campaign.figures()}")  # noqa: T201
    assert not campaign.faults
