"""A small world of all operations, and a gateway that serves it."""

from collections.abc import Iterator
from datetime import date

import pytest

from tests.support.all_operations import small_world
from tests.support.figures import store_with_figures
from tests.support.gateway import Gateway
from tests.support.in_loop import InLoop
from tests.support.stores import Store
from tests.support.till import OnTill, Till, tills_over


@pytest.fixture(scope="module")
def its_store(tmp_path_factory: pytest.TempPathFactory, today: date, engine: str) -> Store:
    """For the gateway of a file that has settings of its own."""
    return store_with_figures(tmp_path_factory.mktemp("its") / "tollway.db", today)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, today: date, engine: str) -> Store:
    """A small world of all operations."""
    return small_world(Store(tmp_path_factory.mktemp("world") / "tollway.db"), today)


@pytest.fixture(scope="module")
def served(world: Store) -> Iterator[Gateway]:
    with Gateway(world) as gateway:
        yield gateway


@pytest.fixture(scope="package")
def on_till(tmp_path_factory: pytest.TempPathFactory, engine: str) -> OnTill:
    return tills_over(Store(tmp_path_factory.mktemp("till") / "tollway.db"))


@pytest.fixture
def till(on_till: OnTill) -> InLoop[Till]:
    return InLoop(on_till)
