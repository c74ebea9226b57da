"""The operator's alarms of balances that run out soon, through the overview."""

import html
import re
import time
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from tests.support.browsers import Browser, operator_link
from tests.support.gateway import Gateway
from tests.support.ledger import CALLS, CREDITS, RUNTIME, Caller, new_caller
from tests.support.stores import Store
from tollway.ledger.accounts import close_account
from tollway.ledger.balance_pace import ACCOUNTS_MAX
from tollway.ledger.entries import top_up
from tollway.ledger.usage import date_s
from tollway.store.database import Database
from tollway.webhooks.polled_events import set_alert

DAY_S = 86_400
TODAY_S = date_s(datetime.now(ZoneInfo("Asia/Shanghai")).date())


@pytest.fixture
def gateway(own_store: Store) -> Iterator[Gateway]:
    """One that remembers nothing of other tests."""
    started = Gateway(own_store)
    yield started
    assert started.stop() == 0


def _alarms(browser: Browser, language: str = "en") -> dict[str, str]:
    """What the list says, and where each line leads."""
    browser.client.headers["accept-language"] = language
    page = browser.open("/operator").text
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    found = {}
    for row in rows:
        text = html.unescape(re.sub(r"<[^>]*>", " ", row))
        link = re.search(r'href="(/operator/accounts?\?[^"]*)"', row)
        if link and (" left (" in text or "剩余" in text or "are low" in text):
            found[" ".join(text.split())] = html.unescape(link[1])
    return found


def _use(store: Store, caller: Caller, unit: str, amount: int, days_ago: int = 0) -> None:
    start_s = TODAY_S - days_ago * DAY_S
    store.run(
        "INSERT INTO usage (span_s, start_s, account_id, unit, operation, calls, amount) VALUES "
        f"({DAY_S}, {start_s}, '{caller.account_id}', '{unit}', 'orders', {amount}, {amount})"
    )


def _opened_long_ago(store: Store) -> None:
    store.run(f"UPDATE account SET opened_at_s = {int(time.time()) - 40 * DAY_S}")


@pytest.fixture
def operator(own_store: Store, gateway: Gateway) -> Iterator[Browser]:
    browser = Browser(gateway)
    browser.open(f"/operator/enter?link={operator_link(own_store)}")
    browser.enter("/operator")
    yield browser
    browser.client.close()


def test_balances_that_run_out_soon_are_listed_with_the_soonest_first(
    own_store: Store, operator: Browser
) -> None:
    store = own_store
    new_caller(store, calls=5, name="Idle")
    soon = new_caller(store, calls=0, credits_=100, name="Soon <b>")
    _use(store, soon, CREDITS, 400, days_ago=2)
    _use(store, soon, CREDITS, 1)
    empty = new_caller(store, calls=1, name="Empty")
    _use(store, empty, CALLS, 300)
    store.run(f"UPDATE balance SET amount = 0 WHERE account_id = '{empty.account_id}'")
    well = new_caller(store, calls=0, credits_=10_000, name="Well")
    _use(store, well, CREDITS, 10)
    gone = new_caller(store, calls=0, credits_=1, name="Gone")
    _use(store, gone, CREDITS, 500)
    lined = new_caller(store, calls=0, credits_=5000, name="Lined")
    _use(store, lined, CREDITS, 10)
    # What it used in the week before last is no pace.
    slow = new_caller(store, calls=0, credits_=50, name="Slow")
    _use(store, slow, CREDITS, 900, days_ago=9)
    _use(store, slow, CREDITS, 1)
    _opened_long_ago(store)

    async def work(database: Database) -> None:
        await close_account(database, RUNTIME, gone.account_id)
        await set_alert(database, lined.account_id, CREDITS, 6000, 0)
        await set_alert(database, well.account_id, CREDITS, 6000, 0)

    store.do(work)
    lines = _alarms(operator)
    names = [line.partition(":")[0] for line in lines]
    assert names == ["Empty", "Soon <b>", "Lined"]
    first, second, third = lines
    assert "0 left (calls: Product analysis), used up" in first
    assert re.search(
        r"100 left \(credits\), lasts until \d{4}-\d\d-\d\d at this pace Top up$", second
    )
    assert "5,000 left (credits), below the account's own alert of 6,000 Top up" in third
    assert lines[second] == f"/operator/account?id={soon.account_id}"
    # The caller's page shows the same day.
    (day,) = re.findall(r"\d{4}-\d\d-\d\d", second)
    account = operator.open(lines[second]).text
    assert f"lasts until {day} at this pace" in account and "Top up" in account
    assert any(
        "Soon <b>：剩余 100（点数），按当前速度可用至" in line for line in _alarms(operator, "zh")
    )
    store.do(lambda database: top_up(database, RUNTIME, soon.account_id, CREDITS, 100_000))
    assert second not in _alarms(operator)
    assert "accounts with the most calls" not in operator.page


def test_the_busiest_accounts_are_looked_at_and_the_page_says_so(
    own_store: Store, operator: Browser
) -> None:
    store = own_store
    few = new_caller(store, calls=0, credits_=1, name="Few calls")
    _use(store, few, CREDITS, 1)
    rows = ", ".join(
        f"({DAY_S}, {TODAY_S}, 'acc_{each}', 'credits', 'orders', 9, 9)"
        for each in range(ACCOUNTS_MAX)
    )
    everyone, low = range(ACCOUNTS_MAX), range(22)
    for table, values in (
        ("usage (span_s, start_s, account_id, unit, operation, calls, amount)", rows),
        (
            "account (id, name, opened_at_s)",
            ", ".join(f"('acc_{each}', 'Busy {each:03}', 1)" for each in everyone),
        ),
        (
            "balance (account_id, unit, amount, held, posted, entries)",
            ", ".join(f"('acc_{each}', 'credits', 1, 0, 0, 0)" for each in low),
        ),
    ):
        store.run(f"INSERT INTO {table} VALUES {values}")
    lines = _alarms(operator)
    first = [line.partition(":")[0] for line in lines][:20]
    assert first == [f"Busy {each:03}" for each in range(20)]
    ((last, href),) = list(lines.items())[20:]
    assert (last, href) == ("2 more balances are low Accounts", "/operator/accounts?order=credits")
    assert f"the {ACCOUNTS_MAX} accounts with the most calls yesterday" in operator.page
