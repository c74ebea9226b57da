"""The operator's pages: signing in by link, and the first account from opening to its receipt."""

import html
import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from tests.support.browsers import Browser, operator_link, shown_secret
from tests.support.consent import PASSWORD
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.orders import OWNER
from tests.support.remote import eventually
from tests.support.stores import Store
from tests.support.waybills import new_carrier
from tollway.account.examples import ALL_EXAMPLES
from tollway.consent.owners import Owner, add_owner
from tollway.identity.people import Role
from tollway.identity.sign_in_links import invite
from tollway.ledger.accounts import open_account
from tollway.ledger.refused_calls import RefusedCall, RefusedCallLog
from tollway.ledger.request_log import first_id, time_of
from tollway.ledger.tokens import issue_token, revoke_token
from tollway.ledger.usage import roll_up, usage_of_account
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.examples import EXAMPLES
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.settings import Settings
from tollway.store.database import Database
from tollway.telemetry.metrics import Metrics
from tollway.web import new_tokens
from tollway.web.area import PAGE_ROWS, Context
from tollway.web.new_tokens import payable_operations
from tollway.web.wording import PLAIN_VIEW


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


def test_revoking_a_token_asks_once_and_acts_on_the_next_call(
    operator: Browser, gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    query = f"account={caller.account_id}&token={caller.token_id}&sure=yes"
    assert "Are you sure" in operator.open(f"/operator/account/token/revoke?{query}").text
    assert gateway.get(token=caller.token, query=question).code == 0
    operator.send(f"/operator/account/token/revoke?{query}")
    # On a shared database too: the process that revoked it answers this call.
    assert gateway.get(token=caller.token, query=question).code == 401


def test_a_new_token_is_shown_with_a_call_to_copy_and_what_the_account_still_needs(
    operator: Browser, store: Store
) -> None:
    bare = new_caller(store, granted=False)
    operator.open(f"/operator/account?id={bare.account_id}")
    of = {"account": bare.account_id}
    page = operator.send("/operator/account/token", **of).text
    assert "A first call with it" not in page and "of this token yet" in page
    operator.send("/operator/account/permission", **of, operation="coupon_claims", state="may")
    page = operator.send("/operator/account/token", **of, only_orders="yes").text
    assert "of this token yet" in page
    operator.send("/operator/account/permission", **of, operation="*", state="may")
    page = operator.send("/operator/account/token", **of, only_orders="yes").text
    assert "A first call with it" not in page and "can be paid yet" in page
    paid = {"unit": "credits", "amount": "5", "note": "first", "sure": "yes"}
    operator.send("/operator/account/top-up", **of, **paid)
    page = html.unescape(operator.send("/operator/account/token", **of, only_orders="yes").text)
    assert f'-H "Authorization: Bearer {shown_secret(page)}"' in page
    assert f'<a href="/operator/requests?account={bare.account_id}">Requests</a>' in page
    assert "/papi/tool/erps/paging-orders" in page and "can be paid yet" not in page
    page = operator.send("/operator/account/token", **of, kind="test", only_account="yes").text
    assert "A first call with it" not in page and "of this token yet" not in page


def test_many_tokens_are_listed_page_by_page_and_those_in_force_first(
    operator: Browser, store: Store
) -> None:
    caller = new_caller(store)

    async def work(database: Database) -> list[str]:
        await revoke_token(database, RUNTIME, caller.token)
        issued = [
            (await issue_token(database, RUNTIME, caller.account_id)).token.id
            for _ in range(PAGE_ROWS + 6)
        ]
        await revoke_token(database, RUNTIME, issued[0])
        return issued

    _, *in_force, first_expired, last_expired = store.do(work)
    expired = f"('{first_expired}', '{last_expired}')"
    store.run(f"UPDATE token SET expires_at_s = issued_at_s WHERE id IN {expired}")
    first = operator.open(f"/operator/account?id={caller.account_id}").text
    listed = re.findall(r"token=(tok_\w+)", first)
    assert len(set(listed)) == PAGE_ROWS
    assert ">revoked</span>" not in first and ">expired</span>" not in first
    older = re.search(r'href="([^"]+)" rel="next"', first)
    assert older is not None
    # The next page begins behind it although it is further back now.
    store.do(lambda database: revoke_token(database, RUNTIME, listed[-1]))
    second = operator.open(html.unescape(older[1])).text
    assert {*listed, *re.findall(r"token=(tok_\w+)", second)} == set(in_force)
    assert re.findall(">(expired|revoked)</span>", second) == ["expired"] * 2 + ["revoked"] * 3
    assert 'rel="next"' not in second
    unknown = operator.open(f"/operator/account?id={caller.account_id}&after=tok_none").text
    assert len(set(re.findall(r"token=(tok_\w+)", unknown))) == PAGE_ROWS


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


def test_the_call_that_a_new_token_offers_is_one_that_the_balance_covers(
    operator: Browser, store: Store
) -> None:
    bare = new_caller(store, granted=False)
    operator.open(f"/operator/account?id={bare.account_id}")
    of = {"account": bare.account_id}

    def has_offer(price: int) -> bool:
        own = {"operation": "orders", "state": "may", "price": str(price)}
        own["sure"] = "yes"
        operator.send("/operator/account/permission", **of, **own)
        page = operator.send("/operator/account/token", **of, only_orders="yes").text
        return "A first call with it" in page

    assert has_offer(0) and not has_offer(3)
    paid = {"unit": "credits", "amount": "3", "note": "first", "sure": "yes"}
    operator.send("/operator/account/top-up", **of, **paid)
    assert has_offer(3) and not has_offer(4)


def _offered(store: Store, kind: str = "live") -> str:
    """What is shown with a new token of an account that can pay everything."""
    paying = new_caller(store, operations=OPERATIONS, credits_=100)
    context = SimpleNamespace(
        say=PLAIN_VIEW.say,
        web=SimpleNamespace(now=lambda: datetime.now(ZoneInfo("Asia/Shanghai"))),
        services=SimpleNamespace(settings=Settings()),
        person=SimpleNamespace(account_id=""),
    )

    async def shown(database: Database) -> str:
        context.database = database
        issued = await issue_token(database, RUNTIME, paying.account_id, kind=kind)
        # So the page does not say to an operator that it cannot be paid.
        assert await payable_operations(cast(Context, context), issued.token)
        return str(await new_tokens.new_token(cast(Context, context), issued))

    return store.do(shown)


def test_the_call_that_a_new_token_offers_names_nothing_that_is_not_there(
    own_store: Store,
) -> None:
    said = "Put a value of your own in place of PRODUCT_ID."
    assert "product_id=PRODUCT_ID&" in (offered := _offered(own_store)) and said in offered
    # Each account has demo data in its sandbox, and the demo world has it outside too.
    product_id = EXAMPLES[PRODUCT_ANALYSIS.name].answer.itemId  # type: ignore[attr-defined]
    assert f"product_id={product_id}&" in (offered := _offered(own_store, "test"))
    assert said not in offered
    known = Owner("shop", OWNER, "One", "QH7K2M", "one", 0)
    own_store.do(lambda database: add_owner(database, RUNTIME, known, PASSWORD))
    assert f"product_id={product_id}&" in (offered := _offered(own_store)) and said not in offered


def test_a_call_is_offered_of_the_first_operation_that_has_an_example(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "goods-analysis" in _offered(store)
    examples = {name: each for name, each in ALL_EXAMPLES.items() if name != "product_analysis"}
    monkeypatch.setattr(new_tokens, "ALL_EXAMPLES", examples)
    assert "partner_couponList" in _offered(store)
    monkeypatch.setattr(new_tokens, "ALL_EXAMPLES", {})
    assert "A first call with it" not in _offered(store)


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
        more = "".join(re.findall(r"PARAMETER_MISSING and (?:\d+) more like this", newest))
    tomorrow = time.strftime("%Y-%m-%dT00:00", time.gmtime(time.time() + 2 * 86_400))
    later = operator.open(f"/operator/requests?account={caller.account_id}&since={tomorrow}").text
    assert "No call matches" in later


def test_pages_without_a_session_or_with_a_forged_form_change_nothing(
    browser: Browser, operator: Browser, store: Store
) -> None:
    account = store.do(lambda db: open_account(db, RUNTIME, f"safe {time.time_ns()}"))
    forged = {"account": account.id, "sure": "yes", "form_token": "0" * 64}
    assert operator.client.post("/operator/account/close", data=forged).status_code == 403
    operator.open(f"/operator/account?id={account.id}")
    fields = operator.hidden()
    operator.client.cookies.clear()
    operator.client.post("/operator/account/close", data={**fields, "sure": "yes"})
    row = store.run(f"SELECT closed_at_s FROM account WHERE id = '{account.id}'")
    assert row[0][0] is None


def test_a_closed_account_says_so_of_its_tokens_and_has_no_pace(
    operator: Browser, gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    gateway.get(token=caller.token, query=question)
    path = f"/operator/account?id={caller.account_id}"
    assert "active" in operator.open(path).text
    operator.send("/operator/account/close", account=caller.account_id, sure="yes")
    page = operator.open(path).text
    assert "active" not in page and "may call" not in page and "at this pace" not in page


def test_an_id_without_a_receipt_is_not_taken_for_an_account(operator: Browser) -> None:
    found = operator.open(f"/operator/search?q={'6' * 26}")
    assert found.url.path == "/operator/request" and "There is no receipt" in found.text


@pytest.mark.parametrize("days", ["0", "-1", "36501", "9999999"])
def test_a_token_is_valid_for_a_time_that_a_calendar_has(
    operator: Browser, caller: Caller, days: str
) -> None:
    path = f"/operator/account?id={caller.account_id}"
    operator.open(path)
    refused = operator.send("/operator/account/token", account=caller.account_id, days=days)
    assert refused.status_code == 409 and "1 to 36,500 days" in refused.text
    assert len(re.findall(">active</span>", operator.open(path).text)) == 1


def test_a_token_that_is_valid_beyond_all_calendars_is_listed(
    operator: Browser, store: Store, caller: Caller
) -> None:
    store.run(f"UPDATE token SET expires_at_s = 864000000000 WHERE id = '{caller.token_id}'")
    page = operator.open(f"/operator/account?id={caller.account_id}")
    assert page.status_code == 200 and "9999-12-30" in page.text


def test_a_cap_of_a_day_is_not_negative(operator: Browser, caller: Caller) -> None:
    operator.open(f"/operator/account?id={caller.account_id}")
    of = {"account": caller.account_id}
    refused = operator.send("/operator/account/token", **of, calls_per_day="-1")
    assert refused.status_code == 409 and "A cap of a day" in refused.text


def test_a_top_up_that_is_confirmed_twice_is_entered_once(
    operator: Browser, store: Store, caller: Caller
) -> None:
    operator.open(f"/operator/account?id={caller.account_id}")
    fields = {"account": caller.account_id, "unit": "credits", "amount": "7", "note": "invoice"}
    operator.send("/operator/account/top-up", **fields)
    confirmed = operator.hidden()
    with ThreadPoolExecutor(4) as threads:
        answers = list(
            threads.map(
                lambda _: operator.client.post("/operator/account/top-up", data=confirmed).text,
                range(4),
            )
        )
    assert sum("This was entered already" in each for each in answers) == 3
    amounts = store.run(
        "SELECT amount FROM entry WHERE unit = 'credits' AND kind = 'top_up' "
        f"AND account_id = '{caller.account_id}' AND note = 'invoice'"
    )
    assert [row[0] for row in amounts] == [7]


def test_a_form_that_is_sent_after_the_session_ended_says_that_nothing_was_done(
    operator: Browser, caller: Caller
) -> None:
    path = f"/operator/account?id={caller.account_id}"
    operator.open(path)
    fields = operator.hidden()
    operator.client.cookies.clear()
    answer = operator.client.post("/operator/account/invite", data=fields)
    assert answer.status_code == 403 and "nothing was done" in answer.text
    # Signing in leads back to the page of the form.
    assert f'name="link" value="{path}"' in answer.text


def test_an_answer_to_a_form_has_no_switches_that_would_lose_it(
    operator: Browser, caller: Caller
) -> None:
    path = f"/operator/account?id={caller.account_id}"
    assert 'name="language"' in operator.open(path).text
    made = operator.send("/operator/account/token", account=caller.account_id)
    assert "The new token" in made.text and 'name="language"' not in made.text


def test_what_is_sent_from_the_page_of_a_new_shop_comes_back_to_it(operator: Browser) -> None:
    shop = str(time.time_ns())
    operator.open("/operator/shops")
    operator.send(
        "/operator/shop/add", kind="shop", id=shop, name="New", login=f"new{shop}", shop_code=""
    )
    refused = operator.send("/operator/shop/consent", account="none-has-this", scope="orders")
    assert refused.status_code >= 400
    assert 'value="none-has-this"' in refused.text and shop in refused.text


def test_numbers_are_loaded_only_for_a_shop_that_exists(operator: Browser, store: Store) -> None:
    carrier = new_carrier(store, 0)
    operator.open("/operator/carriers")
    refused = operator.send(
        "/operator/carriers/numbers", carrier=carrier, shop="7", numbers="YT0000000000001"
    )
    assert refused.status_code == 409 and "YT0000000000001" in refused.text


def test_a_long_record_in_chinese_can_be_sent(operator: Browser) -> None:
    operator.open("/operator/data")
    answer = operator.send("/operator/data/mend", id="none", record="汉" * 12_000)
    assert answer.status_code != 413


def test_only_a_question_about_what_is_taken_away_is_a_warning(
    operator: Browser, caller: Caller
) -> None:
    unit = PRODUCT_ANALYSIS.balance_unit
    fields = {"account": caller.account_id, "unit": unit, "note": "invoice 7"}
    operator.open(f"/operator/account?id={caller.account_id}")
    page = operator.send("/operator/account/top-up", amount="5", **fields).text
    assert "Please confirm" in page and "Reason: invoice 7" in page
    operator.open(f"/operator/account?id={caller.account_id}")
    page = operator.send("/operator/account/top-up", amount="-5", **fields).text
    assert "Are you sure?" in page


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
    eventually(
        lambda: operator.open(f"/operator/request?id={request_id}").text,
        lambda page: "have it enabled" in page,
    )
    poor = new_caller(store, calls=0)
    request_id = gateway.get(token=poor.token, query={"product_id": "x"}).headers["x-request-id"]
    eventually(
        lambda: operator.open(f"/operator/request?id={request_id}").text,
        lambda page: "Top up the calls of this operation." in page,
    )
    own = new_caller(store, rate_limit=7)
    page = operator.open(f"/operator/account?id={own.account_id}").text
    assert "1 call (common)" in page and ">7</td>" in page.replace("\n", "").replace(" ", "")


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
    page = operator.open(f"/operator/account?id={caller.account_id}").text
    assert "1 次（通用）" in page
