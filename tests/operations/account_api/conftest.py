"""A gateway and its caller, who asks for what is its own."""

from collections.abc import Iterator
from datetime import date

import pytest

from tests.support.all_operations import all_operations_caller, small_world
from tests.support.engines import Engine
from tests.support.gateway import Gateway
from tests.support.ledger import Caller
from tests.support.stores import Store
from tollway_client import Client


@pytest.fixture(scope="package")
def world(
    tmp_path_factory: pytest.TempPathFactory, today: date, engine: Engine
) -> Iterator[Gateway]:
    store = small_world(Store(tmp_path_factory.mktemp("account") / "tollway.db"), today)
    with Gateway(store) as gateway:
        yield gateway


@pytest.fixture
def caller(world: Gateway) -> Caller:
    return all_operations_caller(world.store)


@pytest.fixture
def client(world: Gateway, caller: Caller) -> Iterator[Client]:
    with Client(caller.token, world.base_url) as made:
        yield made
