"""Whatever a gateway answers is what the model says: a short campaign, and its sabotage control."""

from pathlib import Path

import pytest

from tests.model.campaign import open_campaign
from tests.model.comparing import MismatchError
from tests.model.sabotage import SABOTAGES
from tests.model.world import World

SEED = 20_260_115


def test_every_answer_is_that_of_the_model(world: World, tmp_path: Path) -> None:
    with open_campaign(world, tmp_path, SEED) as campaign:
        campaign.be_quiet(100)
        campaign.restart()
        campaign.be_busy(200)
        campaign.close_an_account()
        campaign.check()


def test_a_count_that_is_wrong_by_one_is_found(world: World, tmp_path: Path) -> None:
    with (
        open_campaign(world, tmp_path, SEED) as campaign,
        pytest.raises(MismatchError, match="totalElements is"),
    ):
        campaign.store.run(SABOTAGES["a count of orders"])
        campaign.be_quiet(500)
