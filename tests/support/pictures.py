"""Takes the pictures of the README (`make pictures`): a demo world, a month of calls, four pages.

The clock of the gateway is in a file: it is a month behind at first, and each call moves it on.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import takewhile
from math import cos, tau
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from playwright.sync_api import BrowserContext, Page, sync_playwright

from tests.support.chromium import CHROMIUM
from tests.support.gateway import ANALYSIS
from tests.support.ports import free_port

_ROOT = Path(__file__).parents[2]
_PICTURES = _ROOT / "docs" / "pictures"
_SAMPLE = json.loads((_ROOT / "docs/samples/waybills/request.json").read_text(encoding="utf-8"))
_HOUR_S, _DAY_S = 3600, 86_400
_MONTH_S = 30 * _DAY_S
_CALLS_AN_HOUR_MIN, _CALLS_AN_HOUR_MAX = 4, 56
_WEEKEND = 0.6
_CALLS_AT_LAST = 4
# The demo world has the data of all days from its last start on.
_LAST_START_S = _HOUR_S
# Usage is summed every five seconds.
_SUMMED_AFTER_S = 8
_LOOKED_AGAIN_MS = 1000
# What the calls of each account are for; in capitals those that are refused. The demo account has
# the consents of its shop; the others, which make fewer calls, look up products and coupons.
_MIX = "aoacaomacoaowacamaoacOaoacmaoaacoAomacoacaaomOcaoa"
_OTHERS = {"Northern Outdoor": ("aaacaaca", 0.3), "Beishan Stationery": ("ccaccacacA", 0.15)}


class _World:
    """A demo world in a folder, and what time it is there."""

    def __init__(self, folder: str) -> None:
        self._database = ("--database", f"sqlite:///{folder}/demo.db")
        self._clock = Path(folder, "clock")
        self._program = (sys.executable, "-m", "tests.support.other_clock", str(self._clock))
        # Calls of hours are made within a second.
        self._environment = os.environ | {"TOLLWAY_RATE_LIMIT": "1000", "TOLLWAY_LOG_CALLS": "none"}

    def set_clock(self, at_s: float) -> None:
        new = self._clock.with_suffix(".new")
        new.write_text(str(at_s - time.time()))
        new.replace(self._clock)

    def run(self, *command: str) -> Any:
        done = subprocess.run(
            [*self._program, *command, "--json", *self._database],
            check=True,
            stdout=subprocess.PIPE,
            env=self._environment,
        )
        return json.loads(done.stdout)

    @contextmanager
    def gateway(self) -> Iterator[dict[str, Any]]:
        """A gateway; gives what it prints when it starts."""
        command = ("serve", "--demo", "--json", *self._database, "--port", str(free_port()))
        with subprocess.Popen(
            [*self._program, *command],
            stdout=subprocess.PIPE,
            env=self._environment,
        ) as gateway:
            assert gateway.stdout is not None
            try:
                yield json.loads(gateway.stdout.readline())
            finally:
                gateway.terminate()

    def open_account(self, name: str) -> str:
        """Opens an account that can pay for all calls that it will make; returns its token."""
        self.run("account", "open", name)
        for operation in ("product_analysis", "coupon_claims"):
            self.run("permission", "add", name, operation)
        self.run("credit", "add", name, "20000")
        self.run("credit", "add", name, "20000", "--calls", "product_analysis")
        return str(self.run("token", "issue", name)["text"])


def _requests(demo: dict[str, Any], number: int) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """A call of each kind: method, path, what is sent."""
    day = {"product_id": demo["product_id"], "query_date": demo["query_date"]}
    window = {"startTime": demo["coupon_start_time"], "endTime": demo["coupon_end_time"]}
    channel = {"sid": demo["sid"], "type": "4", "page": str(number % 9 + 1), "limit": "20"}
    slot = {name: demo[name] for name in ("platform_user_id", "site_id", "adzone_id")}
    waybill = _SAMPLE | {"order_sn": f"SN{number}"}
    orders = "/papi/tool/erps/paging-orders"
    return {
        "a": ("GET", ANALYSIS, {"params": day}),
        "A": ("GET", ANALYSIS, {"params": {"product_id": demo["product_id"]}}),
        "c": ("POST", "/papi/tool/waimai/partner_couponList", {"data": channel | window}),
        "m": ("POST", "/papi/tool/affiliate/promotion", {"json": slot | {"promotion_id": 37104}}),
        "o": ("POST", orders, {"data": {"owner_id": demo["owner_id"], "pageSize": "20"}}),
        "O": ("POST", orders, {"data": {"owner_id": demo["owner_id_unauthorized"]}}),
        "w": ("POST", "/papi/tool/erps/getwaybillfreewn", {"json": waybill}),
    }


def _moments(since_s: float, busy_at_s: float) -> Iterator[tuple[float, Random]]:
    """When calls are made, up to the moment: most at one hour of the day, and on weekends fewer
    than on other days; and what chance decides of each."""
    random, at_s = Random(since_s), since_s
    while at_s < time.time():
        yield at_s, random
        share = (1 + cos((busy_at_s - at_s) / _DAY_S * tau)) / 2
        an_hour = _CALLS_AN_HOUR_MIN + share * (_CALLS_AN_HOUR_MAX - _CALLS_AN_HOUR_MIN)
        is_weekend = datetime.fromtimestamp(at_s, UTC).isoweekday() > 5
        at_s += random.expovariate(an_hour * (_WEEKEND if is_weekend else 1) / _HOUR_S)
    # The last minute has some for certain.
    for _ in range(_CALLS_AT_LAST):
        yield time.time(), random


def _call(
    world: _World, started: dict[str, Any], tokens: dict[str, str], moments: Iterator[Any]
) -> str:
    """Makes the calls of these moments; returns the id of the demo account's last analysis."""
    demo, request_id = started["demo"], ""
    kinds = {demo["token"]: _MIX} | {tokens[name]: mix for name, (mix, _) in _OTHERS.items()}
    shares = [1.0, *(share for _, share in _OTHERS.values())]
    with httpx.Client(base_url=started["address"], timeout=60) as client:
        for at_s, random in moments:
            world.set_clock(at_s)
            ((token, mix),) = random.choices(list(kinds.items()), shares)
            kind = random.choice(mix)
            method, path, sent = _requests(demo, int(at_s * 1000))[kind]
            headers = {"Authorization": f"Bearer {token}"}
            answer = client.request(method, path, headers=headers, **sent)
            assert (answer.json()["code"] == 0) == kind.islower(), answer.text
            if kind == "a" and token == demo["token"]:
                request_id = answer.headers["x-request-id"]
    return request_id


@contextmanager
def _a_month_later(folder: str) -> Iterator[tuple[dict[str, Any], str]]:
    """A gateway after a month of calls; gives what it printed, and the id of a call."""
    world, now_s = _World(folder), time.time()
    last_start_s = now_s - _LAST_START_S
    world.set_clock(now_s - _MONTH_S)
    with world.gateway() as started:
        tokens = {name: world.open_account(name) for name in _OTHERS}
        moments = _moments(now_s - _MONTH_S, now_s)
        _call(world, started, tokens, takewhile(lambda each: each[0] < last_start_s, moments))
    with world.gateway() as started:
        world.run("audit")
        world.run("backup", f"{folder}/backup.db")
        request_id = _call(world, started, tokens, moments)
        world.set_clock(time.time())
        time.sleep(_SUMMED_AFTER_S)
        yield started, request_id


def _take(page: Page, path: str, name: str, width: int, height: int) -> None:
    """Of a height that cuts nothing in two."""
    page.set_viewport_size({"width": width, "height": height})
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


def _wait_for_the_node(page: Page) -> None:
    """Until the gateway has reported by its new clock: before, the overview says that the node has
    not been seen for a while."""
    page.goto("/operator")
    silent = page.get_by_text("has not been seen for a while")
    while silent.count():
        page.wait_for_timeout(_LOOKED_AGAIN_MS)
        page.reload()


def _take_all(started: dict[str, Any], request_id: str) -> None:
    address = started["address"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(base_url=address, locale="en-GB")
        page = _sign_in(context, started)
        _wait_for_the_node(page)
        _take(page, "/operator", "overview", 1200, 1020)
        _take(page, f"/operator/request?id={request_id}", "receipt", 1200, 888)
        page.emulate_media(color_scheme="dark")
        _take(page, "/account", "account_dark", 1200, 876)
        state = context.storage_state()
        phone = browser.new_context(base_url=address, locale="zh-CN", storage_state=state)
        _take(phone.new_page(), "/account", "account_phone_zh", 390, 844)
        browser.close()


def main() -> None:
    with TemporaryDirectory() as folder, _a_month_later(folder) as (started, request_id):
        _take_all(started, request_id)


if __name__ == "__main__":
    main()
