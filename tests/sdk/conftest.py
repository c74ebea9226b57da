"""One gateway with a small world, for all tests of the SDKs."""

from collections.abc import Iterator
from datetime import date

import pytest

from tests.support.all_operations import small_world
from tests.support.engines import Engine
from tests.support.gateway import Gateway
from tests.support.stores import Store


@pytest.fixture(scope="session")
def world(
    tmp_path_factory: pytest.TempPathFactory, today: date, engine: Engine
) -> Iterator[Gateway]:
    store = Store(tmp_path_factory.mktemp("sdk") / "tollway.db")
    small_world(store, today)
    gateway = Gateway(store)
    yield gateway
    assert gateway.stop() == 0
