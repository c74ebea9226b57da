"""The Chromium of the machine, in which tests look at pages."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from playwright.sync_api import Page

from tests.support.browsers import Browser, operator_link
from tests.support.gateway import Gateway

T = TypeVar("T")
# The first has no window to draw, and takes half the processor time of the others.
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))),
    None,
)

# One engine: pages are the same on both, and their queries are tested on both elsewhere.
IN_CHROMIUM = [
    pytest.mark.sqlite,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium: install Debian's chromium-headless-shell"
    ),
]


def in_thread(work: Callable[[], T]) -> T:
    """In another thread: this one has the event loop of the browser."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def sign_in(page: Page, gateway: Gateway) -> Page:
    """The page of an operator, who signed in by a link: without Chromium, which takes longer to
    load the three pages than most tests need for the rest. `test_browser.py` signs in with it."""
    browser = Browser(gateway)
    browser.open(f"/operator/enter?link={in_thread(lambda: operator_link(gateway.store))}")
    browser.enter("/operator")
    page.context.add_cookies(
        [
            {"name": each.name, "value": each.value or "", "url": gateway.base_url}
            for each in browser.client.cookies.jar
        ]
    )
    browser.client.close()
    return page
