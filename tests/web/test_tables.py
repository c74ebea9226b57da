"""How tables, fields and charts keep what belongs together, in Chromium."""

from collections.abc import Callable

from playwright.sync_api import Page

from tests.support.chromium import IN_CHROMIUM, in_thread, sign_in
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.members import new_member
from tests.support.stores import Store
from tollway.ledger.token_limits import TokenLimits
from tollway.ledger.tokens import issue_token

pytestmark = IN_CHROMIUM
# How many lines an element takes.
_LINES = """each => { const range = document.createRange(); range.selectNodeContents(each);
  return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size; }"""


def _enter(page: Page, store: Store, caller: Caller) -> None:
    member = in_thread(lambda: new_member(store, caller.account_id))
    page.goto(f"/account/enter?link={member.link}")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/account")


def test_a_table_of_many_columns_keeps_words_and_acts_on_one_line(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    caller = in_thread(lambda: new_caller(store))
    limits = TokenLimits(["orders", "waybills"], ["10.0.0.0/8"], calls_per_day=3000)
    lasts = {"label": "erp-1", "lifetime_s": 90_000, "limits": limits}
    in_thread(lambda: store.do(lambda db: issue_token(db, RUNTIME, caller.account_id, **lasts)))
    page = new_page(gateway.base_url, viewport={"width": 1024, "height": 800})
    _enter(page, store, caller)
    page.goto("/account/tokens")
    row = page.locator("tr", has_text="erp-1")
    assert row.get_by_text("never").evaluate(_LINES) == 1
    # Days are the longest that is said of a time, and are not broken at their hyphens.
    long_ago = "UPDATE token SET issued_at_s = 1, last_used_at_s = 1 WHERE account_id = "
    in_thread(lambda: store.run(f"{long_ago}'{caller.account_id}'"))
    page.reload()
    for width in (1024, 1001):
        page.set_viewport_size({"width": width, "height": 800})
        for time in row.locator("td.time [title]").all():
            assert time.evaluate(_LINES) == 1
        wide = "card => card.scrollWidth - card.clientWidth"
        assert page.locator(".card").first.evaluate(wide) <= 0, width
    for act in row.locator("td[data-label='']").all():
        assert act.evaluate(_LINES) == 1
    # The acts leave the width to what is said of the token.
    page.set_viewport_size({"width": 1440, "height": 800})
    widths = row.locator("td").evaluate_all("all => all.map(each => each.offsetWidth)")
    assert max(widths[-2:]) < 100
    # A value that is not there is marked, but an act that is not offered is not.
    marks = page.locator("tbody td:empty").evaluate_all(
        "all => all.map(each => [!!each.dataset.label, getComputedStyle(each, '::before').content])"
    )
    assert marks and all(is_value == ("–" in content) for is_value, content in marks)


def test_what_a_list_also_leads_to_takes_no_space_of_its_filter_on_a_phone(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    page = new_page(gateway.base_url, viewport={"width": 375, "height": 700})
    _enter(page, store, in_thread(lambda: new_caller(store)))
    page.goto("/account/ledger")
    button = page.get_by_role("button", name="Show").bounding_box()
    link = page.get_by_role("link", name="CSV").bounding_box()
    assert button and link and link["y"] >= button["y"] + button["height"]


def test_an_address_is_typed_into_a_field_that_shows_its_example(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    page = new_page(gateway.base_url, viewport={"width": 1280, "height": 800})
    _enter(page, store, in_thread(lambda: new_caller(store)))
    page.goto("/account/webhooks")
    field = page.get_by_label("Address")
    field.fill("https://orders.shop.example/tollway/events/of/the/north")
    assert field.evaluate("each => each.scrollWidth - each.clientWidth") <= 0


def test_on_paper_the_axes_of_charts_can_be_read(
    gateway: Gateway, store: Store, new_page: Callable[..., Page], question: dict[str, str]
) -> None:
    page = sign_in(new_page(gateway.base_url), gateway)
    _enter(page, store, in_thread(lambda: new_caller(store)))
    day = question["query_date"]
    page.goto(f"/account/analysis?product={question['product_id']}&day={day}&data=sandbox")
    page.set_viewport_size({"width": 718, "height": 1000})
    page.emulate_media(media="print")
    heights = page.locator(".chart.page text").evaluate_all(
        "all => all.filter(each => each.checkVisibility({checkVisibilityCSS: true}))"
        ".map(each => each.getBoundingClientRect().height)"
    )
    assert heights and min(heights) >= 8
