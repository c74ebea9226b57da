"""What the tests of pages share."""

from collections.abc import Iterator

import pytest

from tests.support.browsers import Browser
from tests.support.gateway import Gateway


@pytest.fixture
def browser(gateway: Gateway) -> Iterator[Browser]:
    opened = Browser(gateway)
    yield opened
    opened.client.close()
