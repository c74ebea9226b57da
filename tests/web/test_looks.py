"""How pages look in Chromium: readable for all, no wider than their window, whole on paper."""

import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from importlib.resources import files
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.support.chromium import IN_CHROMIUM, in_thread, sign_in
from tests.support.consent import PASSWORD, Person, allow, ask, new_asker, new_person
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.members import new_member
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import note_act
from tollway.store.last_runs import PUSH_PREFIX, note_run
from tollway.store.open import OpenDatabase, open_sealer
from tollway.web.wording import LANGUAGE_COOKIE
from tollway.webhooks.endpoints import add_endpoint

_AXE = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
_VIOLATIONS = """async () => (await axe.run({
  resultTypes: ["violations"], preload: false, rules: {"color-contrast": {enabled: false}}
})).violations"""
_VIOLATIONS_OF_CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
_AT_WIDTHS = (Path(__file__).parent / "at_widths.js").read_text(encoding="utf-8")
_SCRIPT = files("tollway.web").joinpath("pages.js").read_text(encoding="utf-8")
# A page is fetched and shown in one that is loaded, which takes far less than to load it. It is
# then as its script leaves it, but for what the script does again later. What the policy of pages
# forbids would be an error on the console of one that is loaded.
_SHOW = f"""async path => {{
  const page = await fetch(path);
  if (!page.ok) throw new Error(`${{path}}: ${{page.status}}`);
  const root = new DOMParser().parseFromString(await page.text(), "text/html").documentElement;
  const forbidden = [...root.querySelectorAll("*")].filter(each =>
    each.matches("style, [style], script:not([src])")
    || each.getAttributeNames().some(name => name.startsWith("on")));
  if (forbidden.length) throw new Error(`${{path}}: ${{forbidden[0].outerHTML}}`);
  const styles = [...root.querySelectorAll("link[rel=stylesheet]")].map(
    link => new Promise((loaded, failed) => {{ link.onload = loaded; link.onerror = failed; }})
  );
  history.replaceState(null, "", page.url);
  document.replaceChild(document.adoptNode(root), document.documentElement);
  await Promise.all(styles);
  (setInterval => {{ {_SCRIPT} }})(() => 0);
}}"""
# In one message: what passes each of them on takes a quarter of the time.
_SHOW_AND_JUDGE = f"""async ([path, looks]) => {{
  await ({_SHOW})(path);
  return [await ({_VIOLATIONS})(), ...await ({_VIOLATIONS_OF_CONTRAST})(looks)];
}}"""

# Of phones, a tablet, half of a screen, and screens up to a large one; the first is what WCAG asks
# for, the fourth is the first at which tables are no cards, and the fifth the first with the rail.
_WIDTHS = (320, 375, 768, 901, 1001, 1024, 1200, 1366, 1440)
# What is wider than the window, or is scrolled sideways in its card, with all that can be unfolded,
# and as if everything had happened a day ago, which is the longest that a log says of a time,
# and every charge had been large.
_TOO_WIDE = """() => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  const say = (selector, text) => {
    for (const each of document.querySelectorAll(selector))
      if (each.textContent !== text) each.textContent = text;
  };
  say('td.time > [title^="2"]', "12-28 23:59");
  say("table.log td.number:not(:empty)", "1,000,000 credits");
  return [document.documentElement, ...document.querySelectorAll(".card")]
    .filter(each => each.scrollWidth > each.clientWidth + 1)
    .map(each => `${each.tagName} ${each.className} ${each.scrollWidth - each.clientWidth} px`);
}"""

# Texts of charts that are scaled down too far to be read, in px.
_TOO_SMALL = """() => [...document.querySelectorAll("svg.chart text")]
  .filter(each => each.checkVisibility())
  .map(each => parseFloat(getComputedStyle(each).fontSize) * each.getScreenCTM().a)
  .filter(size => size < 9)"""

# Forms whose fields and buttons are beside each other, and not of one height.
_UNEVEN = """() => [...document.querySelectorAll(".filters, form.line")]
  .map(form => [...form.querySelectorAll(
      "select, input:not([type=checkbox], [type=hidden]), .actions button")]
    .filter(each => each.checkVisibility())
    .map(each => `${each.type} ${each.getBoundingClientRect().height}`))
  .filter(fields => new Set(fields.map(each => each.split(" ")[1])).size > 1)
  .map(fields => [...new Set(fields)].join(", "))"""

_WRONG_AT_WIDTH = f"() => [({_TOO_WIDE})(), ({_UNEVEN})(), ({_TOO_SMALL})()]"

_WRONG_AT_WIDTHS = f"widths => ({_AT_WIDTHS})(widths, document => ({_WRONG_AT_WIDTH})())"
_JUDGE_AGAIN = f"""async ([looks, widths]) => [
  ...await ({_VIOLATIONS_OF_CONTRAST})(looks), await ({_WRONG_AT_WIDTHS})(widths)
]"""
_WRONG_OF_PAGES = f"""async paths => {{
  const found = [];
  for (const path of paths) {{
    await ({_SHOW})(path);
    found.push([path, document.documentElement.lang, ({_WRONG_AT_WIDTH})().flat()]);
  }}
  return found;
}}"""

pytestmark = IN_CHROMIUM


def _wrong_at_widths(page: Page) -> list[str]:
    """What is too wide for a window, and what is too small in it; the page is of no use then."""
    return _by_width(page.evaluate(_WRONG_AT_WIDTHS, _WIDTHS))


def _by_width(wrong: list[list[list[Any]]]) -> list[str]:
    found = []
    for width, (wide, uneven, small) in zip(_WIDTHS, wrong, strict=True):
        found += [f"{width}: {each}" for each in (*wide, *uneven)]
        found += [f"{width}: chart {each} px" for each in small[:1]]
    return found


def _wrong_in_chinese(page: Page, gateway: Gateway, paths: Sequence[str]) -> dict[str, list[str]]:
    """What is too wide for a phone, where words have another length; one width costs little."""
    page.context.add_cookies([{"name": LANGUAGE_COOKIE, "value": "zh", "url": gateway.base_url}])
    page.goto("/")
    page.set_viewport_size({"width": _WIDTHS[0], "height": 844})
    found = page.evaluate(_WRONG_OF_PAGES, paths)
    assert [path for path, language, _ in found if language == "zh-CN"] == list(paths)
    page.context.clear_cookies(name=LANGUAGE_COOKIE)
    return {f"{path} in Chinese": wrong for path, _, wrong in found if wrong}


def _fill_with_long_values(store: Store, account_id: str) -> None:
    """An act and an alarm whose names are as long as any may be, and very many refusals."""

    async def work(database: OpenDatabase) -> None:
        runtime = Runtime(by="cli by " + "someone" * 9)
        name = "name-of-a-source" * 4
        await note_act(database, runtime, "source rotate", f"source {name}", {"name": name})
        await note_run(database, f"{PUSH_PREFIX}{name}", 1)

    store.do(work)
    store.run(
        "INSERT INTO refused_call "
        "(account_id, request_id, at_ms, operation, code, reason, is_test, more) VALUES "
        f"('{account_id}', 'many', {Runtime().at_ms()}, 'product_analysis', 400, "
        "'IDEMPOTENCY_KEY_INVALID', 0, 12345678)"
    )


def _tested_webhook(gateway: Gateway, store: Store, caller: Caller) -> str:
    """The id of a webhook whose address is as long as any may be, with an event in its log."""
    url, sealer = f"https://shop.example/{'e' * 479}", open_sealer(store.url, store.key_file)
    made = store.do(
        lambda database: add_endpoint(database, sealer, RUNTIME, caller.account_id, url, 0)
    )
    assert gateway.post_json("/account/v1/webhooks/test", {}, token=caller.token).data["done"]
    return made.endpoint.id


def _assert_faults_are_found(page: Page, looks: list[str]) -> None:
    """A single element that is hard to read, and a field without a label."""
    page.emulate_media(color_scheme="light")
    page.evaluate("() => { document.querySelector('h1').style.color = '#ddd'; }")
    assert [each["id"] for each in page.evaluate(_VIOLATIONS_OF_CONTRAST, looks)[1]] == [
        "color-contrast"
    ]
    page.evaluate("() => document.querySelector('main').append(document.createElement('input'))")
    assert [each["id"] for each in page.evaluate(_VIOLATIONS)] == ["label"]


def _enter_as_owner(page: Page, person: Person) -> None:
    page.goto("/owner")
    page.get_by_label("Login").fill(person.login)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("allowed").wait_for()


def test_axe_finds_nothing_and_nothing_is_wider_than_its_window(
    gateway: Gateway, store: Store, new_page: Callable[..., Page], question: dict[str, str]
) -> None:
    # A name and a reason as long as any.
    caller = in_thread(lambda: new_caller(store, name="longname" * 12))
    member = in_thread(lambda: new_member(store, caller.account_id))
    colleague = in_thread(lambda: new_member(store, caller.account_id)).person
    request_id = gateway.get(token=caller.token, query=question).headers["x-request-id"]
    gateway.get(token=caller.token, query=question, headers={"Idempotency-Key": "k" * 300})
    in_thread(lambda: _fill_with_long_values(store, caller.account_id))
    webhook_id = in_thread(lambda: _tested_webhook(gateway, store, caller))
    # Without motion: colours are changed at once.
    page = sign_in(
        new_page(gateway.base_url, color_scheme="light", reduced_motion="reduce"), gateway
    )
    page.goto(f"/account/enter?link={member.link}")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/account")
    asker, person = in_thread(lambda: new_asker(store)), in_thread(lambda: new_person(store))
    question_to_owner = ask(gateway, asker, person.id).data["authorize_url"]
    in_thread(lambda: allow(store, new_asker(store), person))
    _enter_as_owner(page, person)
    other = date.fromisoformat(question["query_date"]) - timedelta(days=7)
    analysis = (
        f"/account/analysis?product={question['product_id']}&day={question['query_date']}"
        f"&other={other.isoformat()}&data=sandbox"
    )
    page.goto("/")
    page.evaluate(_AXE)
    colours = cycle(("dark", "light"))
    wrong: dict[str, Any] = {}
    looks: list[str] = []
    paths = (
        *(
            "/",
            "/owner",
            question_to_owner,
            "/operator",
            "/operator/accounts",
            "/operator/requests",
        ),
        *(f"/operator/account?id={caller.account_id}", f"/operator/request?id={request_id}"),
        *("/operator/shops", "/operator/carriers", "/operator/waybills"),
        *("/operator/data", "/operator/prices"),
        *("/operator/nodes", "/operator/audit", "/operator/backup", "/operator/trail"),
        *("/operator/settings", "/operator/operators", "/operator/consents"),
        *(
            f"/operator/account/{tab}?id={caller.account_id}"
            for tab in ("operations", "tokens", "clients", "members", "ledger")
        ),
        f"/operator/account/permission?account={caller.account_id}&operation=orders",
        "/operator/prices/operation?operation=orders",
        *("/account", "/account/requests", f"/account/request?id={request_id}"),
        *("/account/ledger", "/account/statement", "/account/tokens", "/account/shops"),
        *("/account/webhooks", f"/account/webhook?webhook_id={webhook_id}"),
        *("/account/members", f"/account/members/role?member={colleague.id}"),
        *("/account/analysis", analysis, "/account/try", "/account/try?operation=waybills_batch"),
    )
    for path in paths:
        found, passed, low = page.evaluate(_SHOW_AND_JUDGE, [path, looks])
        looks += passed
        # The other colours can only be wrong in contrast; the next page is shown in them first.
        page.emulate_media(color_scheme=next(colours))
        passed, low_in_others, at_widths = page.evaluate(_JUDGE_AGAIN, [looks, _WIDTHS])
        looks += passed
        wide = [{"id": each, "nodes": []} for each in _by_width(at_widths)]
        found += [*low, *low_in_others, *wide]
        if found:
            wrong[path] = [(each["id"], [n["html"][:90] for n in each["nodes"]]) for each in found]
    page.evaluate(_SHOW, path)
    _assert_faults_are_found(page, looks)
    reference = ("/docs", "/docs/waybills", "/docs/codes", "/docs/sandbox")
    for path in reference:
        page.goto(path)
        if wide := _wrong_at_widths(page):
            wrong[path] = wide
    assert {**wrong, **_wrong_in_chinese(page, gateway, (*paths, *reference))} == {}
    # So would be what is too wide for a window.
    page.goto("/account")
    page.evaluate("() => { document.querySelector('h1').style.width = '400px'; }")
    assert [each[:9] for each in _wrong_at_widths(page)] == ["320: HTML", "375: HTML"]
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(analysis)
    assert page.pdf(prefer_css_page_size=True).count(b"/Type /Page\n") == 1


def _overdue(store: Store) -> str:
    """A hold of an account with a long name, and its waybill, of an order with a long number."""
    account_id = new_caller(store, name="overdue" * 14).account_id
    hold = f"'{account_id}', 'overdue', 'credits', 10, 'waybills', 'overdue', 'tok', 1, 1, 'held'"
    waybill = f"'{account_id}', 'overdue', '88', '{'LONG' * 7}', 'X', 'pending', 10, 'overdue'"
    store.run(
        "INSERT INTO hold (account_id, id, unit, amount, operation, request_id, token_id, at_ms, "
        f"deadline_at_ms, state) VALUES ({hold})"
    )
    store.run(
        "INSERT INTO waybill (account_id, object_id, owner_id, order_sn, wp_code, state, price, "
        f"request_id, hold_id, asked_at_s, sealed) VALUES ({waybill}, 'overdue', 1, '')"
    )
    return account_id


def test_what_waits_for_a_carrier_is_no_wider_than_its_window(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    account_id = in_thread(lambda: _overdue(store))
    try:
        page = sign_in(new_page(gateway.base_url), gateway)
        for path in ("/operator/waybills", "/operator/waybill?id=overdue"):
            page.goto(path)
            assert page.get_by_text("LONG" * 7).count()
            page.evaluate(_AXE)
            assert page.evaluate(_VIOLATIONS) == []
            assert _wrong_at_widths(page) == []
    finally:
        # Other tests look at all that is held.
        for table in ("hold", "waybill"):
            of = f"DELETE FROM {table} WHERE account_id = '{account_id}'"
            in_thread(lambda of=of: store.run(of))


def _on_paper(page: Page, selector: str) -> str:
    """What stands for an element when the page is printed."""
    seen = "each => getComputedStyle(each, '::after').content.replaceAll('\"', '')"
    return str(page.locator(selector).first.evaluate(seen))


def test_paper_has_exact_times_and_whole_ids_and_no_empty_filters(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    asker, person = in_thread(lambda: new_asker(store)), in_thread(lambda: new_person(store))
    in_thread(lambda: allow(store, asker, person))
    assert ask(gateway, asker, in_thread(lambda: new_person(store)).id).code == 302
    paid = ask(gateway, asker, person.id)
    assert paid.code == 0
    page = sign_in(new_page(gateway.base_url), gateway)
    page.goto(f"/operator/requests?account={asker.account_id}")
    page.emulate_media(media="print")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", _on_paper(page, "td.time > [title]"))
    assert _on_paper(page, "td.code > a") == paid.headers["x-request-id"]
    assert not page.locator(".filters").is_visible()
    assert page.get_by_text("Times are in").is_visible()
    # With all of its columns on a sheet of A4.
    page.set_viewport_size({"width": 718, "height": 1000})
    page.goto("/operator/requests")
    assert page.evaluate(_TOO_WIDE) == []
    page.goto(f"/operator/account/ledger?id={asker.account_id}")
    assert page.evaluate(_TOO_WIDE) == []
    # Nothing can be chosen or done on it.
    page.goto("/operator/consents")
    assert page.get_by_role("row").nth(1).is_visible()
    for each in (".filters", "td a:text-is('Revoke')"):
        assert not page.locator(each).first.is_visible()
    page.goto("/operator/requests?code=0")
    assert page.locator(".filters").is_visible()


@pytest.mark.parametrize("amount", [98_765_432, 9_876_543_210, 987_654_321_098_765])
def test_a_large_figure_is_on_one_line(
    gateway: Gateway, store: Store, new_page: Callable[..., Page], amount: int
) -> None:
    caller = in_thread(lambda: new_caller(store, calls=amount, credits_=amount))
    page = sign_in(new_page(gateway.base_url), gateway)
    page.goto(f"/operator/account?id={caller.account_id}")
    # As many as the overview has.
    page.evaluate("""() => { const all = document.querySelector(".figures");
      for (const each of [...all.children, ...all.children]) all.append(each.cloneNode(true)); }""")
    lines = """[...document.querySelectorAll(".figure .value")]
      .map(each => each.offsetHeight / parseFloat(getComputedStyle(each).lineHeight))"""
    found = page.evaluate(
        f"widths => ({_AT_WIDTHS})(widths, document => [{lines}, ({_TOO_WIDE})()])", _WIDTHS
    )
    assert dict(zip(_WIDTHS, found, strict=True)) == {width: [[1] * 6, []] for width in _WIDTHS}


def test_both_ends_of_a_period_are_in_one_row(
    gateway: Gateway, new_page: Callable[..., Page]
) -> None:
    page = sign_in(new_page(gateway.base_url), gateway)
    page.goto("/operator/requests")
    tops = "all => all.map(each => each.getBoundingClientRect().top)"
    for width in (1280, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        found = page.locator("[type='datetime-local']").evaluate_all(tops)
        assert len(found) == 2 and len({*found}) == 1, width


def test_names_of_people_are_not_broken_beside_the_rail(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    runtime = Runtime(by="root@gate")
    change = {"name": "a change of many words " * 6}
    in_thread(lambda: store.do(lambda db: note_act(db, runtime, "source set", "source a", change)))
    page = sign_in(new_page(gateway.base_url), gateway)
    page.goto("/operator/trail")
    lines = "each => each.getClientRects().length"
    for width in _WIDTHS[3:]:
        page.set_viewport_size({"width": width, "height": 844})
        name = page.get_by_role("link", name="root@gate", exact=True).first
        assert name.evaluate(lines) == 1, width


# The lines on which each word of the reasons is that is on more than one.
_BROKEN_REASONS = """() => [...document.querySelectorAll("table.log td.code:not(:last-child)")]
  .flatMap(cell => {
    const texts = [...cell.childNodes].filter(each => each.nodeType === 3);
    return texts.flatMap(text => [...text.data.matchAll(/[A-Z]+/g)].map(word => {
      const range = cell.ownerDocument.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map(each => each.top));
      return lines.size > 1 ? word[0] : "";
    }));
  }).filter(Boolean)"""


def test_reasons_are_broken_between_their_words_alone(
    gateway: Gateway, store: Store, new_page: Callable[..., Page], question: dict[str, str]
) -> None:
    paying = in_thread(lambda: new_caller(store, name="Northern Outdoor Equipment"))
    assert gateway.get(token=paying.token, query=question).code == 0
    caller = in_thread(lambda: new_caller(store, granted=False, name="Beishan Stationery"))
    refused = gateway.get(token=caller.token, query=question)
    assert refused.headers["x-tollway-reason"] == "PERMISSION_MISSING"
    page = sign_in(new_page(gateway.base_url), gateway)
    row = page.locator("tr", has_text="204 PERMISSION_MISSING")

    def shown() -> int:
        page.goto("/operator/requests")
        return row.count()

    # The log of refused calls is written a moment later.
    eventually(shown, bool)
    found = page.evaluate(
        f"widths => ({_AT_WIDTHS})(widths, document => [({_TOO_WIDE})(), ({_BROKEN_REASONS})()])",
        _WIDTHS,
    )
    assert dict(zip(_WIDTHS, found, strict=True)) == {width: [[], []] for width in _WIDTHS}
    page.goto("/operator/requests")
    page.evaluate("""() => { for (const cell of document.querySelectorAll("table.log td.code"))
      Object.assign(cell.style, {display: "block", width: "4ch", wordBreak: "break-all"}); }""")
    assert page.evaluate(_BROKEN_REASONS) != []


def test_the_table_of_a_chart_with_many_columns_is_scrolled_within_its_card(
    gateway: Gateway, store: Store, new_page: Callable[..., Page], question: dict[str, str]
) -> None:
    caller = in_thread(lambda: new_caller(store))
    gateway.get(token=caller.token, query=question)
    page = sign_in(new_page(gateway.base_url, viewport={"width": 1001, "height": 844}), gateway)
    page.goto("/operator")
    # As many as there are operations.
    page.evaluate("""() => { for (const row of document.querySelectorAll("details tr"))
      for (let i = 0; i < 12; i++) row.append(row.lastElementChild.cloneNode(true)); }""")
    assert page.locator("details tr").first.locator("th").count() > 12
    assert page.evaluate(_TOO_WIDE) == []


def test_the_bar_is_whole_when_text_is_twice_as_large(
    gateway: Gateway, store: Store, new_page: Callable[..., Page]
) -> None:
    page = sign_in(new_page(gateway.base_url, viewport={"width": 768, "height": 800}), gateway)
    page.goto("/operator")
    page.evaluate("""() => {
      const all = [...document.querySelectorAll(".bar, .bar *")];
      const sizes = all.map((each) => 2 * parseFloat(getComputedStyle(each).fontSize));
      all.forEach((each, index) => { each.style.fontSize = `${sizes[index]}px`; });
    }""")
    whole = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(whole) == 0
    middles = """each => [...each.querySelectorAll("input, .icon, kbd")]
      .map(part => part.getBoundingClientRect()).map(box => (box.top + box.bottom) / 2)"""
    high, *others = page.locator(".find").evaluate(middles)
    assert others and all(abs(each - high) <= 1 for each in others)
    # The search is still wide enough to be used.
    assert page.locator(".find").evaluate("each => each.offsetWidth") >= 150


def test_numbers_keep_their_distance_from_the_edge_of_a_narrow_phone(
    gateway: Gateway, store: Store, new_page: Callable[..., Page], question: dict[str, str]
) -> None:
    """Where the bars beside them are left out."""
    caller = in_thread(lambda: new_caller(store))
    gateway.get(token=caller.token, query={**question, "product_id": "1"})
    page = sign_in(new_page(gateway.base_url, viewport={"width": 360, "height": 740}), gateway)
    page.goto("/operator")
    distances = page.evaluate("""() => [...document.querySelectorAll(".ranked tr")].map((row) => {
      const shown = [...row.children].filter((each) => each.offsetWidth > 0);
      return parseFloat(getComputedStyle(shown.at(-1)).paddingRight);
    })""")
    assert distances and min(distances) >= 12
