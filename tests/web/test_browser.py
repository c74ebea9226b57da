"""Journeys in a real browser: the Chromium of the machine, skipped where there is none."""

import html
import json
import time
from collections.abc import Callable
from datetime import date
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
from playwright.sync_api import Page, Route

from tests.support.browsers import operator_link
from tests.support.chromium import IN_CHROMIUM, in_thread, sign_in
from tests.support.consent import PASSWORD, ask, new_asker, new_person
from tests.support.figures import store_with_figures
from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import RUNTIME, new_caller
from tests.support.members import new_member
from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.operations.catalogue import ALL_OPERATIONS, OPERATIONS
from tollway.store.last_runs import AUDIT, note_run
from tollway.web.jobs import JOB_PREFIX, Job

pytestmark = IN_CHROMIUM


@pytest.fixture
def own_store(tmp_path: Path, today: date) -> Store:
    return in_thread(lambda: store_with_figures(tmp_path / "tollway.db", today))


def test_from_the_printed_link_to_the_receipt(
    own_store: Store, new_page: Callable[..., Page], question: dict[str, str]
) -> None:
    gateway = in_thread(lambda: Gateway(own_store))
    page = new_page(gateway.base_url)
    printed = next(line for line in gateway.process.stdout if "enter?link=" in line)
    page.goto(printed.strip())
    page.get_by_role("button", name="Sign in").click()
    # Each empty list says what fills it; numbers cannot be loaded for no carrier.
    page.get_by_role("navigation").get_by_role("link", name="Shops").click()
    page.get_by_text("No shop or user is known yet: add one above.").wait_for()
    page.get_by_role("navigation").get_by_role("link", name="Carriers").click()
    page.get_by_text("No carrier is known yet: add one below.").wait_for()
    assert page.get_by_text("Load numbers").count() == 0
    page.get_by_role("navigation").get_by_role("link", name="Accounts").click()
    page.get_by_label("Name", exact=True).fill("Acme")
    page.get_by_role("button", name="Open account").click()
    top_up = page.locator("form[action$='top-up']")
    top_up.get_by_label("What").select_option(label="calls: Product analysis")
    top_up.get_by_label("Amount").fill("10")
    top_up.get_by_label("Reason").fill("first")
    top_up.get_by_role("button", name="Top up").click()
    page.get_by_role("button", name="Add 10 calls").click()
    page.get_by_role("link", name="Operations").click()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="Tokens").click()
    page.get_by_role("button", name="Issue token").click()
    token = page.locator(".secret code").inner_text()
    headers = {"Authorization": f"Bearer {token}"}
    answer = gateway.client.get(ANALYSIS, params=question, headers=headers)
    assert answer.json()["code"] == 0
    page.keyboard.press("/")
    page.keyboard.type(answer.headers["x-request-id"])
    page.keyboard.press("Enter")
    page.wait_for_url("**/operator/request?**")
    assert "1 call: 10 → 9" in page.locator(".stages").inner_text()
    assert in_thread(gateway.stop) == 0


def _tab_to(page: Page, text: str) -> None:
    """Moves the focus with the tabulator until it is on what has this text."""
    for _ in range(80):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "() => [document.activeElement.innerText, document.activeElement.getAttribute("
            "'aria-label'), document.activeElement.labels?.[0]?.innerText].join('\\n')"
        )
        if text in focused.split("\n"):
            return
    raise AssertionError(f"the focus never reaches {text}")


def test_an_account_is_opened_with_the_keyboard_alone(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    page = new_page(gateway.base_url)
    page.goto(f"/operator/enter?link={in_thread(lambda: operator_link(store))}")
    _tab_to(page, "Sign in")
    page.keyboard.press("Enter")
    page.wait_for_url("**/operator")
    _tab_to(page, "Accounts")
    page.keyboard.press("Enter")
    page.wait_for_url("**/operator/accounts")
    _tab_to(page, "Name")
    page.keyboard.type(f"Keys {time.time_ns()}")
    page.keyboard.press("Enter")
    page.wait_for_url("**/operator/account?**")
    _tab_to(page, "Tokens")
    page.keyboard.press("Enter")
    page.wait_for_url("**/operator/account/tokens?**")
    _tab_to(page, "Issue token")
    page.keyboard.press("Enter")
    page.locator(".secret code").wait_for()


def test_a_filter_is_chosen_with_the_keyboard(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    page = sign_in(new_page(gateway.base_url), gateway)
    page.goto("/operator/accounts")
    order = page.get_by_label("Sorted by")
    order.focus()
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    assert order.input_value() == "credits" and urlsplit(page.url).query == ""
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/operator/accounts?**order=credits")
    # With the pointer it is applied at once, as soon as it is chosen.
    page.get_by_label("Sorted by").click()
    page.get_by_label("Sorted by").select_option("newest")
    page.wait_for_url("**/operator/accounts?**order=newest")


def test_a_form_whose_button_is_pressed_twice_is_sent_once(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    """Or else the token that was made first would never be shown."""
    caller = in_thread(lambda: new_caller(store))
    page = sign_in(new_page(gateway.base_url), gateway)
    sent: list[Route] = []
    # The answer takes until the button was pressed again.
    page.route("**/account/token", lambda route: sent.append(route))  # noqa: PLW0108
    for times in (1, 2):
        page.goto(f"/operator/account/tokens?id={caller.account_id}")
        button = page.get_by_role("button", name="Issue token")
        button.scroll_into_view_if_needed()
        box = button.bounding_box()
        assert box is not None
        with page.expect_request("**/account/token"):
            page.mouse.click(box["x"] + 5, box["y"] + 5)
        page.mouse.click(box["x"] + 5, box["y"] + 5)
        assert len(sent) == times
        sent[-1].continue_()
        page.locator(".secret code").wait_for()
    count = f"SELECT count(*) FROM token WHERE account_id = '{caller.account_id}'"
    assert in_thread(lambda: store.run(count))[0][0] == 3


def test_a_form_without_an_answer_and_a_download_can_be_sent_again(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    caller = in_thread(lambda: new_caller(store))
    page = sign_in(new_page(gateway.base_url), gateway)
    page.clock.install()
    sent: list[str] = []
    page.on("request", lambda request: request.method == "POST" and sent.append(request.url))
    file = {"Content-Disposition": 'attachment; filename="copy.db"'}
    page.route("**/backup/download", lambda route: route.fulfill(body="copy", headers=file))
    # The page stays, as when the reader has stopped loading.
    page.route("**/account/token", lambda route: route.fulfill(status=204))
    for path, name, target, release_ms in (
        ("/operator/backup", "Make and download a backup", "**/backup/download", 5_000),
        (
            f"/operator/account/tokens?id={caller.account_id}",
            "Issue token",
            "**/account/token",
            60_000,
        ),
    ):
        page.goto(path)
        button = page.get_by_role("button", name=name)
        sent.clear()
        for _ in range(2):
            with page.expect_request(target):
                button.click()
            page.clock.fast_forward(release_ms // 2)
            button.click()
            assert button.get_attribute("aria-busy") == "true"
            page.clock.fast_forward(release_ms // 2)
            assert button.get_attribute("aria-busy") is None
        assert len(sent) == 2


def test_what_was_typed_is_not_lost_until_it_has_arrived(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    caller = in_thread(lambda: new_caller(store))
    page = sign_in(new_page(gateway.base_url), gateway)
    top_up = page.locator("form[action$='top-up']")

    def typed() -> list[str]:
        return [top_up.get_by_label(each).input_value() for each in ("What", "Amount", "Reason")]

    page.goto(f"/operator/account?id={caller.account_id}")
    before = typed()
    top_up.get_by_label("What").select_option("credits")
    top_up.get_by_label("Amount").fill("12")
    top_up.get_by_label("Reason").fill("order 7")
    session = page.context.cookies()
    page.context.clear_cookies()
    # A refusal is an error on the console, which no other page may have.
    page.route("**/top-up", lambda route: route.fulfill(response=route.fetch(), status=200))
    top_up.get_by_role("button", name="Top up").click()
    page.get_by_text("You were signed out meanwhile").wait_for()
    page.unroute("**/top-up")
    page.context.add_cookies(session)
    page.goto(f"/operator/account?id={caller.account_id}")
    assert typed() == ["credits", "12", "order 7"]
    top_up.get_by_role("button", name="Top up").click()
    page.get_by_role("link", name="Go back").click()
    page.wait_for_url("**/operator/account?**")
    assert typed() == ["credits", "12", "order 7"]
    top_up.get_by_role("button", name="Top up").click()
    page.get_by_role("button", name="Add 12 credits").click()
    page.get_by_text("Done. The account's next call sees it.").wait_for()
    assert typed() == before


def test_what_one_person_typed_is_not_shown_to_the_next_one_in_the_tab(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    page = new_page(gateway.base_url)
    add = page.locator("form[action$='webhooks/add']")

    def is_now(name: str) -> None:
        """Another account's member."""
        page.context.clear_cookies()
        caller = in_thread(lambda: new_caller(store))
        made = in_thread(lambda: new_member(store, caller.account_id, name=name))
        page.goto(f"/account/enter?link={made.link}")
        page.get_by_role("button", name="Sign in").click()
        page.goto("/account/webhooks")

    def is_refused() -> None:
        add.get_by_label("Address").fill("https://127.0.0.1/?key=of-an")
        page.route("**/add", lambda route: route.fulfill(response=route.fetch(), status=200))
        add.get_by_role("button", name="Add").click()

    is_now("An")
    page.context.clear_cookies()
    is_refused()
    page.get_by_text("You were signed out meanwhile").wait_for()
    is_now("Bo")
    assert add.get_by_label("Address").input_value() == ""
    is_refused()
    page.get_by_text("This address cannot be used").wait_for()
    assert add.get_by_label("Address").input_value() != ""
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("/")
    is_now("Bo")
    assert add.get_by_label("Address").input_value() == ""


def test_an_id_is_copied_however_often_its_button_is_pressed(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    caller = in_thread(lambda: new_caller(store))
    page = sign_in(
        new_page(gateway.base_url, permissions=["clipboard-read", "clipboard-write"]), gateway
    )
    page.clock.install()
    page.goto(f"/operator/account?id={caller.account_id}")
    button = page.get_by_role("button", name="Copy: Id")
    button.click()
    page.clock.run_for(1000)
    button.click()
    assert button.inner_text() == "Copied"
    assert page.evaluate("navigator.clipboard.readText()") == caller.account_id
    page.clock.run_for(3000)
    assert button.inner_text() == "Copy"


def test_hostile_names_are_shown_as_text(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    name = f"<img src=x onerror=alert(1)>{{{{7*7}}}}\"' {time.time_ns()}"
    account = in_thread(lambda: store.do(lambda database: open_account(database, RUNTIME, name)))
    page = sign_in(new_page(gateway.base_url), gateway)
    page.goto(f"/operator/account?id={account.id}")
    assert page.locator("h1").inner_text() == name
    page.goto("/operator/accounts?q=onerror")
    assert page.get_by_role("link", name=name).is_visible()
    assert html.escape(name, quote=False).split("{")[0] in page.content()


def test_the_first_page_is_small_and_does_not_move(
    gateway: Gateway, new_page: Callable[..., Page]
) -> None:
    page = new_page(gateway.base_url)
    sizes: list[int] = []
    page.on("response", lambda answer: sizes.append(len(answer.body())))
    page.goto("/", wait_until="networkidle")
    assert len(sizes) >= 3 and sum(sizes) < 100_000
    shifts = page.evaluate(
        "() => new Promise(done => new PerformanceObserver(list => done("
        "list.getEntries().reduce((sum, each) => sum + each.value, 0)))"
        ".observe({type: 'layout-shift', buffered: true}) || setTimeout(() => done(0), 500))"
    )
    assert shifts == 0


def test_language_and_colours_are_chosen_on_the_pages_of_every_area(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    """By a visitor with scripts, and by an operator without: no script has a part in it. That
    either can do so everywhere is tested in `test_front.py`."""
    visitor = new_page(gateway.base_url)
    operator = sign_in(new_page(gateway.base_url, java_script_enabled=False), gateway)
    for page, areas in (
        (visitor, ("/", "/account")),
        (operator, ("/docs", "/operator", "/owner")),
    ):
        others = cycle((("中文", "zh-CN"), ("English", "en")))
        for path, (name, language) in zip(areas, others, strict=False):
            page.goto(path)
            page.get_by_role("button", name=name).click()
            page.locator(f"html[lang='{language}']").wait_for()
            page.locator("button[name='theme'][value='light']").click()
            page.locator("html[data-theme='light']").wait_for()
            assert urlsplit(page.url).path == path
            page.context.clear_cookies(name="tollway_theme")


def test_work_that_ends_shows_its_result_by_itself(
    own_store: Store, new_page: Callable[..., Page]
) -> None:
    def note(*, is_running: bool) -> None:
        job = Job(int(time.time()), 1, 4, is_running=is_running)
        result = msgspec.json.encode(job).decode()
        own_store.do(
            lambda database: note_run(
                database, JOB_PREFIX + AUDIT, job.at_s, is_good=True, result=result
            )
        )

    gateway = in_thread(lambda: Gateway(own_store))
    page = sign_in(new_page(gateway.base_url), gateway)
    in_thread(lambda: note(is_running=True))
    page.goto("/operator/audit")
    page.get_by_text("The audit runs: 1 of 4 checks.").wait_for()
    in_thread(lambda: note(is_running=False))
    page.get_by_role("button", name="Run the audit").wait_for()
    assert in_thread(gateway.stop) == 0


def test_what_was_unfolded_stays_so_when_the_page_refreshes_itself(
    gateway: Gateway, store: Store, new_page: Callable[..., Page], question: dict[str, str]
) -> None:
    caller = in_thread(lambda: new_caller(store))
    assert in_thread(lambda: gateway.get(ANALYSIS, token=caller.token, query=question)).code == 0
    page = sign_in(new_page(gateway.base_url), gateway)
    page.goto("/operator")
    page.get_by_text("As a table").click()
    # The focus would keep the part as it is.
    page.get_by_role("heading", name="Overview").click()
    for _ in range(2):
        with page.expect_response("**/operator") as answered:
            pass
        assert answered.value.request.headers["x-live"] == "1"
    assert page.locator("details[open]").get_by_role("table").is_visible()


def test_pages_work_without_script(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    page = new_page(gateway.base_url, java_script_enabled=False)
    page.goto(f"/operator/enter?link={in_thread(lambda: operator_link(store))}")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/operator")
    page.goto("/operator/accounts")
    page.get_by_label("Name", exact=True).fill(f"Plain {time.time_ns()}")
    page.get_by_role("button", name="Open account").click()
    page.get_by_role("link", name="Tokens").click()
    page.get_by_role("button", name="Issue token").click()
    assert page.locator(".secret code").inner_text().startswith("tw_live_")


def test_a_long_filter_is_folded_on_a_phone_without_script(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    page = sign_in(new_page(gateway.base_url, java_script_enabled=False), gateway)
    page.goto("/operator/requests?operation=orders")
    assert page.get_by_label("Operation").is_visible()
    assert not page.get_by_text("Filter (1 set)").is_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    assert not page.get_by_label("Operation").is_visible()
    page.get_by_text("Filter (1 set)").click()
    page.get_by_label("Result code").fill("202")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**code=202**")


def test_the_menu_of_a_low_window_scrolls_and_covers_the_page_for_the_keyboard_too(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    page = sign_in(new_page(gateway.base_url), gateway)
    page.set_viewport_size({"width": 390, "height": 600})
    page.goto("/operator/requests")
    menu = page.get_by_role("link", name="Menu")
    menu.click()
    last = page.get_by_role("navigation").get_by_role("link").last
    last.focus()
    box = last.bounding_box()
    assert box is not None and box["y"] + box["height"] <= 600
    page.keyboard.press("Tab")
    assert not page.evaluate("() => !!document.activeElement.closest('main, header')")
    last.focus()
    page.keyboard.press("Escape")
    assert not last.is_visible()
    assert menu.evaluate("found => found === document.activeElement")
    assert page.get_by_role("heading", name="Requests").is_visible()


def test_an_operation_is_tried_without_script_and_its_receipt_is_found(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    caller = in_thread(lambda: new_caller(store))
    member = in_thread(lambda: new_member(store, caller.account_id))
    page = new_page(gateway.base_url, java_script_enabled=False)
    page.goto(f"/account/enter?link={member.link}")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("main").get_by_role("link", name="Try an operation").click()
    page.get_by_label("Operation").select_option(label="Product analysis")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("button", name="Send").click()
    page.get_by_text("It succeeded in the sandbox").wait_for()
    page.get_by_label("Data").select_option(label="live, paid")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("button", name="Go back").click()
    page.wait_for_url("**/account/try?operation=product_analysis")
    assert page.get_by_label("Data").input_value() == "live"
    page.get_by_role("button", name="Send").click()
    page.get_by_role("button", name="Send for 1 call").click()
    page.get_by_role("link", name="Receipt").click()
    page.wait_for_url("**/account/request?**")
    page.get_by_text("The stages of this call").wait_for()


def test_an_owner_approves_and_revokes_in_chinese(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    asker, person = in_thread(lambda: new_asker(store)), in_thread(lambda: new_person(store))
    refused = ask(gateway, asker, person.id)
    assert refused.code == 302
    page = new_page(gateway.base_url, locale="zh-CN")
    page.goto(refused.data["authorize_url"])
    page.get_by_label("登录名").fill(person.login)
    page.get_by_label("密码").fill(PASSWORD)
    page.get_by_role("button", name="登录").click()
    page.get_by_role("button", name="同意授权").click()
    page.get_by_text("已授权。").wait_for()
    assert ask(gateway, asker, person.id).code == 0
    page.get_by_role("button", name="撤销").click()
    page.get_by_text("下一次调用即被拒绝").wait_for()
    page.get_by_role("button", name="撤销").click()
    page.get_by_text("已撤销，").wait_for()
    assert ask(gateway, asker, person.id).code == 302


def test_every_operation_is_tried_from_the_reference_alone(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    """As a new user: with a test token, and what the pages show."""
    tester = in_thread(
        lambda: new_caller(store, operations=OPERATIONS, kind="test", rate_limit=1000)
    )
    page = new_page(gateway.base_url)
    page.goto("/docs")
    names = [each.name for each in ALL_OPERATIONS if not each.is_file]
    # The first is come to by its link; the links of the others are looked at here.
    assert all(page.locator(f"a[href='/docs/{name}']").first.is_visible() for name in names)
    page.locator(f"a[href='/docs/{names[0]}']").first.click()
    for name in names:
        page.goto(f"/docs/{name}")
        page.get_by_label("Test token").fill(tester.token)
        page.get_by_role("button", name="Send").click()
        answer = page.locator("#try-answer")
        answer.filter(has_text='"code"').wait_for()
        assert json.loads(answer.inner_text())["code"] == 0, (name, answer.inner_text())
        if name == "orders_export":
            export_id = json.loads(answer.inner_text())["data"]["export_id"]
    page.goto("/docs/orders_export_file")
    page.get_by_label("Test token").fill(tester.token)
    page.get_by_label("export_id").fill(export_id)
    page.get_by_role("button", name="Send").click()
    page.locator("#try-answer").filter(has_text='"order_sn"').wait_for()
    page.get_by_label("X-Tollway-Outcome").fill("FILES_TOO_MANY")
    page.get_by_role("button", name="Send").click()
    page.locator("#try-answer").filter(has_text='"code": 202').wait_for()
    page.goto("/docs/account_balance")
    page.get_by_label("Live token").fill(in_thread(lambda: new_caller(store, credits_=77)).token)
    page.get_by_role("button", name="Send").click()
    page.locator("#try-answer").filter(has_text='"amount": 77').wait_for()
    page.goto("/docs/orders")
    page.get_by_label("Test token").fill(tester.token)
    # What is wrong is said by the gateway, or by the page.
    page.locator("input[data-json], #try-owner_id").first.fill("")
    page.get_by_role("button", name="Send").click()
    page.locator("#try-answer").filter(has_text="100").wait_for()
    page.goto("/docs/orders_by_number")
    page.get_by_label("Test token").fill(tester.token)
    page.get_by_label("order_sn").fill("[not JSON")
    page.get_by_role("button", name="Send").click()
    page.locator("#try-answer").filter(has_text="SyntaxError").wait_for()
    assert page.get_by_role("heading", name="Codes").count() == 1
    chinese = new_page(gateway.base_url, locale="zh-CN")
    chinese.goto("/docs/orders")
    chinese.get_by_role("heading", name="在沙箱中试用").wait_for()
