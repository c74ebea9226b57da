"""What the tests of faults share."""

from collections.abc import Iterator

import pytest

from tests.support.fake_carrier import FakeCarrier


@pytest.fixture(scope="package")
def carrier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeCarrier]:
    started = FakeCarrier(tmp_path_factory.mktemp("carrier"))
    yield started
    assert started.stop() == 0
