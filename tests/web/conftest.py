"""What the tests of pages share."""

from collections.abc import Iterator

import pytest

from tests.support.browsers import Browser, operator_link
from tests.support.gateway import Gateway
from tests.support.stores import Store


@pytest.fixture
def browser(gateway: Gateway) -> Iterator[Browser]:
    opened = Browser(gateway)
    yield opened
    opened.client.close()


@pytest.fixture
def operator(store: Store, browser: Browser) -> Browser:
    """The browser of an operator who signed in by a link."""
    browser.open(f"/operator/enter?link={operator_link(store)}")
    assert "Overview" in browser.send("/operator/enter").text
    return browser
