"""What the campaigns share: one world."""

import pytest

from tests.model.world import World


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, engine: str) -> World:
    return World(tmp_path_factory.mktemp("world"), accounts=2)
