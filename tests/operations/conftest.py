"""What several files share: a user who has given a grant, and a remote carrier that can be made to
misbehave, with a gateway that asks it."""

from collections.abc import Iterator
from datetime import date

import pytest

from tests.support.all_operations import small_world
from tests.support.consent import Person, allow, new_asker, new_person
from tests.support.fake_carrier import FakeCarrier
from tests.support.gateway import Gateway
from tests.support.ledger import Caller
from tests.support.remote import HASTY, PATIENT, connected_carrier
from tests.support.stores import Store


@pytest.fixture
def person(store: Store) -> Person:
    return new_person(store)


@pytest.fixture
def asker(store: Store, person: Person) -> Caller:
    """An account that has a grant of that person."""
    made = new_asker(store)
    allow(store, made, person)
    return made


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, today: date, engine: str) -> Store:
    """A small world of all operations."""
    return small_world(Store(tmp_path_factory.mktemp("world") / "tollway.db"), today)


@pytest.fixture(scope="module")
def remote_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("remote") / "tollway.db")


@pytest.fixture(scope="module")
def running_carrier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeCarrier]:
    started = FakeCarrier(tmp_path_factory.mktemp("carrier"))
    yield started
    assert started.stop() == 0


@pytest.fixture
def carrier(running_carrier: FakeCarrier) -> Iterator[FakeCarrier]:
    """The carrier, which behaves until a test tells it otherwise."""
    yield running_carrier
    running_carrier.misbehave("none")


@pytest.fixture(scope="module")
def served(remote_store: Store) -> Iterator[Gateway]:
    with Gateway(remote_store, reconcile_interval_s=1) as started:
        yield started


@pytest.fixture
def wp_code(remote_store: Store, carrier: FakeCarrier) -> str:
    """A connected carrier of its own for each test, so that breakers do not carry over."""
    return connected_carrier(remote_store, carrier, **PATIENT)


@pytest.fixture
def hasty(remote_store: Store, carrier: FakeCarrier) -> str:
    """The same, with a deadline that a test can wait for."""
    return connected_carrier(remote_store, carrier, **HASTY)
