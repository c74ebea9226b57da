"""1,000 webhooks, a receiver that fails at random, a gateway that is killed 20 times."""

from pathlib import Path

import pytest

from tests.webhooks.killing import campaign


@pytest.mark.torture
def test_every_webhook_arrives_in_order(tmp_path: Path) -> None:
    campaign(tmp_path, events=1000, kills=20, seed=2)
