"""The operator's pages: signing in by link, and the first account from opening to its receipt."""

import html
import re
import time
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.support.browsers import Browser, operator_link, shown_secret
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.identity.people import Role
from tollway.identity.sign_in_links import invite
from tollway.ledger.accounts import open_account
from tollway.ledger.refused_calls import RefusedCall, RefusedCallLog
from tollway.ledger.request_log import first_id, time_of
from tollway.ledger.usage import roll_up, usage_of_account
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.store.database import Database
from tollway.telemetry.metrics import Metrics
from tollway.web.area import PAGE_ROWS


def test_a_link_signs_in_once_and_only_when_its_form_is_sent(
    store: Store, browser: Browser
) -> None:
    link = operator_link(store)
    for _ in range(2):  # Programs that preview links do this.
        assert "Welcome" in browser.open(f"/operator/enter?link={link}").text
    assert "Sign in" in browser.open("/operator").text
    browser.open(f"/operator/enter?link={link}")
    assert browser.send("/operator/enter").url.path == "/operator"
    assert browser.open(f"/operator/enter?link={link}").status_code == 410
    browser.send("/operator/sign-out")
    assert "Password" in browser.open("/operator/accounts").text


def test_a_new_link_ends_the_earlier_ones(
    store: Store, operator: Browser, gateway: Gateway
) -> None:
    made = store.do(
        lambda database: invite(
            database, RUNTIME, role=Role.OPERATOR, name="Mo", login=f"mo{time.time_ns()}"
        )
    )
    links, other = [f"/operator/enter?link={made.link}"], Browser(gateway)
    for _ in range(2):
        operator.open("/operator/operators")
        page = operator.send("/operator/operators/link", person=made.person.id, sure="yes").text
        links.append(shown_secret(page))
    assert [other.open(link).status_code for link in links] == [410, 410, 200]
    other.client.close()


def test_an_unknown_address_of_an_area_is_a_page(operator: Browser) -> None:
    for path in ("/operator/nothing", "/account/nothing"):
        shown = operator.open(path)
        assert shown.status_code == 404 and "There is no such page" in shown.text


def test_a_password_that_was_chosen_behind_a_link_signs_in(store: Store, browser: Browser) -> None:
    made = store.do(
        lambda database: invite(
            database, RUNTIME, role=Role.OPERATOR, name="Li", login=f"li{time.time_ns()}"
        )
    )
    browser.open(f"/operator/enter?link={made.link}")
    assert browser.send("/operator/enter", password="short").status_code == 400
    browser.open(f"/operator/enter?link={made.link}")
    browser.send("/operator/enter", password="a long password")
    browser.send("/operator/sign-out")
    browser.open("/operator/accounts?q=x")
    wrong = browser.send("/operator/sign-in", login=made.person.login, password="another one")
    assert wrong.status_code == 403
    page = browser.send("/operator/sign-in", login=made.person.login, password="a long password")
    assert str(page.url).endswith("/operator/accounts?q=x")


def test_an_account_is_opened_topped_up_and_called_and_its_receipt_found(
    operator: Browser, gateway: Gateway, question: dict[str, str]
) -> None:
    operator.open("/operator/accounts")
    name = f"Acme <b>&amp; {time.time_ns()}"
    page = operator.send("/operator/accounts/open", name=name)
    account = page.url.params["id"]
    of = {"account": account}
    unit = "calls:product_analysis"
    sure = operator.send("/operator/account/top-up", **of, unit=unit, amount="5", note="paid")
    assert "has 0 calls. After this it has 5 calls." in sure.text
    assert "Done" in operator.send("/operator/account/top-up").text
    operator.send("/operator/account/permission", **of, operation="*", state="may")
    token = shown_secret(operator.send("/operator/account/token", **of, label="erp").text)
    reply = gateway.get(token=token, query=question)
    assert reply.code == 0
    request_id = reply.headers["x-request-id"]
    assert operator.open(f"/operator/search?q={request_id}").url.path == "/operator/request"
    assert "1 call: 5 → 4" in operator.page and "erp · tok_" in operator.page
    log = operator.open(f"/operator/requests?account={account}").text
    assert request_id in log and html.escape(name) in log
    assert request_id in operator.open("/operator/requests?reason=SUCCESS").text
    ledger = operator.open(f"/operator/account/ledger?id={account}&unit={unit}").text
    assert "paid" in ledger and request_id in ledger
    assert 'data-label="What for">Product analysis<' in ledger


def test_accounts_are_listed_by_name_page_by_page(operator: Browser, store: Store) -> None:
    prefix = f"many {time.time_ns()} "
    names = [f"{prefix}{number:03}" for number in range(PAGE_ROWS + 1)]

    async def work(database: Database) -> None:
        for name in names:
            await open_account(database, RUNTIME, name)

    store.do(work)
    first = operator.open(f"/operator/accounts?q={prefix}").text
    older = re.search(r'href="([^"]+)" rel="next">Next page<', first)
    assert older is not None and "First page" not in first
    second = operator.open(html.unescape(older[1])).text
    assert ">First page<" in second and "Next page" not in second
    assert re.findall(rf">({prefix}\d+)<", first + second) == names


def test_an_unknown_account_is_said_without_a_command(operator: Browser) -> None:
    for path in ("/operator/account?id=acc_none", "/operator/requests?account=acc_none"):
        shown = operator.open(path)
        assert shown.status_code == 404 and "look it up under Accounts" in shown.text
        assert "tollway account" not in shown.text


def test_a_filter_that_cannot_be_read_is_said_at_its_field(operator: Browser) -> None:
    shown = operator.open("/operator/requests?code=abc&since=x&amount=1,000").text
    for name, problem in (("code", "This is no whole number"), ("since", "This is no time")):
        assert f'aria-invalid="true" aria-describedby="f-filter-{name}-problem"' in shown
        assert f'id="f-filter-{name}-problem">{problem}' in shown
    assert shown.count("aria-invalid") == 2
    good = "/operator/requests?code=100&since=2026-01-31T08:00"
    assert "aria-invalid" not in operator.open(good).text


async def _refuse_by_minutes(database: Database, account_id: str, minutes: int) -> None:
    log = RefusedCallLog(database, Metrics())
    for number in range(minutes, 0, -1):
        at_ms = RUNTIME.at_ms() - number * 60_000
        call = (account_id, f"{first_id(at_ms)}00000000", at_ms, PRODUCT_ANALYSIS.name)
        log.add(RefusedCall(*call, 100, "PARAMETER_MISSING", None))
    await log.finish()


def test_refused_calls_are_found_by_reason_and_page_by_page(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    caller = new_caller(store, rate_limit=1000)
    for _ in range(60):
        assert gateway.get(token=caller.token, query={"product_id": "x"}).code == 100
    # Of each kind and minute few have a row.
    store.do(lambda database: _refuse_by_minutes(database, caller.account_id, 50))
    deadline_s = time.monotonic() + 20
    seen: set[str] = set()
    while len(seen) < 60:
        assert time.monotonic() < deadline_s
        seen = set()
        path = f"/operator/requests?account={caller.account_id}&reason=parameter_missing"
        while path:
            page = operator.open(path).text
            seen |= set(re.findall(r"/operator/request\?id=([0-9a-f]+)", page))
            older = re.search(r'href="([^"]+)" rel="next"', page)
            path = html.unescape(older[1]) if older else ""
    assert operator.open(f"/operator/request?id={max(seen)}").text.count("not reached") > 2
    assert time_of(max(seen)) == pytest.approx(time.time() * 1000, abs=600_000)
    more = ""
    while not more:
        assert time.monotonic() < deadline_s
        newest = operator.open(f"/operator/requests?account={caller.account_id}").text
        more = "".join(re.findall(r"PARAMETER_<wbr>MISSING and (?:\d+) more like this", newest))
    tomorrow = time.strftime("%Y-%m-%dT00:00", time.gmtime(time.time() + 2 * 86_400))
    later = operator.open(f"/operator/requests?account={caller.account_id}&since={tomorrow}").text
    assert "No call matches" in later


def test_a_closed_account_says_so_of_its_tokens_and_has_no_pace(
    operator: Browser, gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    gateway.get(token=caller.token, query=question)
    of = f"?id={caller.account_id}"
    assert "active" in operator.open(f"/operator/account/tokens{of}").text
    operator.send("/operator/account/close", account=caller.account_id, sure="yes")
    for tab in ("", "/tokens", "/operations", "/members", "/clients", "/ledger"):
        page = operator.open(f"/operator/account{tab}{of}").text
        assert "active" not in page and "may call" not in page and "at this pace" not in page
        # Nothing of it can be changed any more.
        assert "/operator/account" not in re.findall(r'method="post" action="([^"]+)"', page), tab


def test_an_account_is_suspended_and_resumed_on_its_page(
    operator: Browser, gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    asked = operator.send("/operator/account/suspend", account=caller.account_id)
    assert "Are you sure?" in asked.text
    done = operator.send("/operator/account/suspend", account=caller.account_id, sure="yes")
    assert "its next call is refused" in done.text and ">suspended<" in done.text
    assert "Suspend the account" not in done.text and "Top up" in done.text
    assert gateway.get(token=caller.token, query=question).code == 204
    assert caller.account_id in operator.open("/operator/accounts?state=suspended").text
    assert caller.account_id not in operator.open("/operator/accounts?state=open").text
    done = operator.send("/operator/account/resume", account=caller.account_id)
    assert "its next call is answered" in done.text and ">suspended<" not in done.text
    assert gateway.get(token=caller.token, query=question).code == 0


def test_an_id_without_a_receipt_is_not_taken_for_an_account(operator: Browser) -> None:
    found = operator.open(f"/operator/search?q={'6' * 26}")
    assert found.url.path == "/operator/request" and "There is no receipt" in found.text


def test_usage_is_what_the_entries_took_and_is_counted_once(
    store: Store, gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    for _ in range(3):
        assert gateway.get(token=caller.token, query=question).code == 0
    zone = ZoneInfo("Asia/Shanghai")

    async def used(database):  # type: ignore[no-untyped-def]
        while await roll_up(database, zone, int(time.time())):
            pass
        today, day = datetime.now(zone).date(), timedelta(days=1)
        return await usage_of_account(database, caller.account_id, today - day, today, zone)

    for _ in range(2):
        found = store.do(used)
        assert sum(each.calls for each in found) == sum(each.amount for each in found) == 3


def test_a_receipt_says_what_to_do_and_prices_are_shown_with_whose_they_are(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    caller = new_caller(store, granted=False)
    refused = gateway.get(token=caller.token, query={"product_id": "x"})
    request_id = refused.headers["x-request-id"]
    page = eventually(
        lambda: operator.open(f"/operator/request?id={request_id}").text,
        lambda page: "PERMISSION_MISSING" in page,
    )
    # The message tells the caller to have it enabled: the operator can.
    assert "have it enabled" not in page
    found = re.search(r'href="([^"]+)">Enable the operation<', page)
    assert found is not None
    assert ">not enabled<" in operator.open(html.unescape(found[1])).text
    poor = new_caller(store, calls=0)
    request_id = gateway.get(token=poor.token, query={"product_id": "x"}).headers["x-request-id"]
    eventually(
        lambda: operator.open(f"/operator/request?id={request_id}").text,
        lambda page: "Top up the calls of this operation." in page,
    )
    own = new_caller(store, rate_limit=7)
    page = operator.open(f"/operator/account/operations?id={own.account_id}").text
    assert "1 call (list price)" in page and ">7</td>" in page.replace("\n", "").replace(" ", "")


def test_acts_and_prices_are_in_the_language_of_their_reader(
    operator: Browser, caller: Caller
) -> None:
    operator.open(f"/operator/account?id={caller.account_id}")
    operator.send("/operator/account/token", account=caller.account_id, kind="live", label="a")
    operator.client.headers["Accept-Language"] = "zh-CN"
    page = operator.open(f"/operator/trail?of=account+{caller.account_id}").text
    assert "签发令牌" in page and "账户 caller " in page
    assert "备注名：a" in page and "类型：正式" in page
    assert f"账户：{caller.account_id}" not in page
    page = operator.open(f"/operator/account/operations?id={caller.account_id}").text
    assert "1 次（标准价）" in page
