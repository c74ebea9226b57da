"""The Chromium of the machine, in which tests look at pages."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from playwright.sync_api import Page

from tests.support.browsers import operator_link
from tests.support.stores import Store

T = TypeVar("T")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# One engine: pages are the same on both, and their queries are tested on both elsewhere.
IN_CHROMIUM = [
    pytest.mark.sqlite,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install Debian's chromium"),
]


def aside(work: Callable[[], T]) -> T:
    """In another thread: this one has the event loop of the browser."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def sign_in(page: Page, store: Store) -> Page:
    link = aside(lambda: operator_link(store))
    page.goto(f"/operator/enter?link={link}")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/operator")
    return page
