"""100,000 answers of a gateway compared with the model, on each engine, and more sabotages.

Zero mismatches in 100,000 mean at most 0.003 % at 95 %. `SEED=… make torture` repeats what is sent
in the quiet parts; what happens at once is scheduled differently each time.
"""

from pathlib import Path
from time import monotonic

import pytest

from tests.model.campaign import open_campaign
from tests.model.comparing import MismatchError
from tests.model.sabotage import SABOTAGES
from tests.model.world import World

pytestmark = pytest.mark.torture

ANSWERS = 100_000
QUIET_STEPS = 400
BUSY_ANSWERS = 1_600
# The ledgers are exported, compared and audited after so many rounds.
ROUNDS_TO_A_CHECK = 5


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, engine: str) -> World:
    return World(tmp_path_factory.mktemp("world"), accounts=4)


def test_100000_answers_are_those_of_the_model(
    world: World, tmp_path: Path, seed: int, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    began_s = monotonic()

    def say() -> None:
        with capsys.disabled():
            figures = f"{campaign.figures()}, {rounds} restarts, {monotonic() - began_s:,.0f} s"
            print(f"\nseed {seed}, {engine}: {figures}")  # noqa: T201

    with open_campaign(world, tmp_path, seed) as campaign:
        rounds = 0
        while campaign.answers < ANSWERS:
            campaign.be_quiet(QUIET_STEPS)
            campaign.be_busy(BUSY_ANSWERS)
            campaign.restart()
            rounds += 1
            if rounds % ROUNDS_TO_A_CHECK == 0:
                campaign.check()
                say()
        campaign.close_an_account()
        campaign.check()
        say()


@pytest.mark.parametrize("what", SABOTAGES)
def test_whatever_is_wrong_in_the_database_is_found(
    world: World, tmp_path: Path, seed: int, what: str
) -> None:
    with (
        open_campaign(world, tmp_path, seed) as campaign,
        pytest.raises(MismatchError),
    ):
        campaign.store.run(SABOTAGES[what])
        campaign.be_quiet(500)
        campaign.check()
