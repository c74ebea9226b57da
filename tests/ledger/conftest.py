"""One migrated database for all tests of the ledger: each test uses accounts of its own."""

from collections.abc import Callable
from itertools import count

import pytest

from tests.support.stores import Store


@pytest.fixture(scope="package")
def store(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    return Store(tmp_path_factory.mktemp("ledger") / "ledger.db")


@pytest.fixture(scope="package")
def new_name() -> Callable[[], str]:
    """A name that no other test uses."""
    numbers = count()
    return lambda: f"account {next(numbers)}"
