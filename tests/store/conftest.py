"""An empty database of each test's own, and a server that it may stop."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgresql import Server
from tests.support.stores import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "tollway.db")


@pytest.fixture
def server() -> Iterator[Server]:
    """A server for one test alone, which may stop it."""
    made = Server()
    yield made
    made.remove()
