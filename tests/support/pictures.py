"""Takes the pictures of the README (`make pictures`): a demo world, some calls, four pages."""

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from playwright.sync_api import BrowserContext, Page, sync_playwright

from tests.support.chromium import CHROMIUM
from tests.support.gateway import ANALYSIS
from tests.support.ports import free_port

_PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
_CALLS = 24
# Usage is summed every five seconds.
_SUMMED_AFTER_S = 8


def _call(world: dict[str, Any], address: str) -> str:
    """Makes calls, most of them good; returns the id of a charged one."""
    request_id = ""
    headers = {"Authorization": f"Bearer {world['token']}"}
    good = {"product_id": world["product_id"], "query_date": world["query_date"]}
    with httpx.Client(base_url=address, headers=headers) as client:
        for number in range(_CALLS):
            query = {"product_id": "1"} if number % 6 == 5 else good
            answer = client.get(ANALYSIS, params=query)
            if answer.json()["code"] == 0:
                request_id = answer.headers["x-request-id"]
            time.sleep(0.15)
    return request_id


def _take(page: Page, path: str, name: str) -> None:
    page.goto(path)
    page.screenshot(path=_PICTURES / f"{name}.png")


def _sign_in(context: BrowserContext, started: dict[str, Any]) -> Page:
    page = context.new_page()
    page.goto(started["operator_link"])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/operator")
    page.goto("/account")
    page.get_by_label("Login").fill(started["demo"]["member_login"])
    page.get_by_label("Password").fill(started["demo"]["member_password"])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/account")
    return page


def _take_all(started: dict[str, Any]) -> None:
    address = started["address"]
    request_id = _call(started["demo"], address)
    time.sleep(_SUMMED_AFTER_S)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        size = {"width": 1200, "height": 760}
        context = browser.new_context(base_url=address, viewport=size, locale="en-GB")
        page = _sign_in(context, started)
        _take(page, "/operator", "overview")
        _take(page, f"/operator/request?id={request_id}", "receipt")
        state = context.storage_state()
        dark = browser.new_context(
            base_url=address,
            viewport=size,
            locale="en-GB",
            color_scheme="dark",
            storage_state=state,
        )
        _take(dark.new_page(), "/account", "account_dark")
        phone = browser.new_context(
            base_url=address,
            viewport={"width": 390, "height": 844},
            locale="zh-CN",
            storage_state=state,
        )
        _take(phone.new_page(), "/account", "account_phone_zh")
        browser.close()


def main() -> None:
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tollway", "serve", "--demo", "--json"]
        options = ["--database", f"sqlite:///{folder}/demo.db", "--port", str(free_port())]
        with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as gateway:
            assert gateway.stdout is not None
            try:
                _take_all(json.loads(gateway.stdout.readline()))
            finally:
                gateway.terminate()


if __name__ == "__main__":
    main()
