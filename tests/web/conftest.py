"""What the tests of pages share."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, sync_playwright

from tests.support.browsers import Browser, operator_link
from tests.support.chromium import CHROMIUM
from tests.support.consent import Person, new_asker, new_person
from tests.support.gateway import Gateway
from tests.support.ledger import Caller
from tests.support.members import entered
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
    browser.enter("/operator")
    return browser


@pytest.fixture
def member(store: Store, browser: Browser, caller: Caller) -> Browser:
    """The browser of a member of the caller's account."""
    return entered(store, browser, caller)


@pytest.fixture
def person(store: Store) -> Person:
    return new_person(store)


@pytest.fixture
def asker(store: Store) -> Caller:
    return new_asker(store)


@pytest.fixture(scope="module")
def chromium(gateway: Gateway) -> Iterator[Chromium]:
    """As long as it runs, fixtures cannot run an event loop: the shared ones are made before."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def new_page(chromium: Chromium) -> Iterator[Callable[..., Page]]:
    """Opens pages; at the end none had an error or asked another host for anything."""
    contexts, problems = [], []

    def checked(page: Page, base_url: str) -> Page:
        host = urlsplit(base_url).netloc
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console", lambda said: problems.append(said.text) if said.type == "error" else None
        )
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on(
            "request",
            lambda sent: problems.append(sent.url) if urlsplit(sent.url).netloc != host else None,
        )
        return page

    def open_page(base_url: str, **options: Any) -> Page:
        context = chromium.new_context(base_url=base_url, **{"locale": "en-GB", **options})
        contexts.append(context)
        return checked(context.new_page(), base_url)

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []
