"""A gateway that has its operations as tools for agents."""

from collections.abc import Iterator
from datetime import date

import pytest

from tests.support.all_operations import small_world
from tests.support.engines import Engine
from tests.support.gateway import Gateway
from tests.support.stores import Store


@pytest.fixture(scope="package")
def agents(
    tmp_path_factory: pytest.TempPathFactory, today: date, engine: Engine
) -> Iterator[Gateway]:
    store = small_world(Store(tmp_path_factory.mktemp("mcp") / "tollway.db"), today)
    with Gateway(store, mcp="on", trusted_proxies="127.0.0.1, 10.0.0.0/8") as gateway:
        yield gateway
