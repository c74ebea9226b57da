"""A refused form is shown again with what was typed, and every question has a way back."""

import html
import re
import time

import pytest

from tests.support.browsers import Browser
from tests.support.consent import new_person
from tests.support.ledger import RUNTIME, Caller
from tests.support.members import entered, new_member
from tests.support.stores import Store
from tests.support.waybills import new_carrier
from tollway.identity.people import Role
from tollway.ledger.entries import AMOUNT_MAX, NOTE_MAX, top_up
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS


def _back(browser: Browser) -> str:
    """Where the link back of the page leads."""
    found = re.search(r'href="([^"]*)">Go back</a>', browser.page)
    assert found is not None, browser.page
    return html.unescape(found[1])


def _switch_back(browser: Browser) -> str:
    """Where the switches of language and colours lead back to."""
    found = re.search(r'name="back" value="([^"]*)"', browser.page)
    assert found is not None, browser.page
    return html.unescape(found[1])


def test_a_refused_sign_in_can_be_read_in_the_other_language(browser: Browser) -> None:
    for area, page, view in (
        ("account", "/account/ledger", "/account/view"),
        ("owner", "/owner", "/view"),
    ):
        browser.open(page)
        assert browser.send(f"/{area}/sign-in", login="unknown", password="x").status_code == 403
        browser.send(view, back=_switch_back(browser), language="zh")
        assert 'lang="zh-CN"' in browser.page and 'name="password"' in browser.page
        browser.client.cookies.clear()


def test_a_refused_form_keeps_what_was_typed(operator: Browser, caller: Caller) -> None:
    page = f"/operator/account?id={caller.account_id}"
    operator.open(page)
    typed = {"account": caller.account_id, "unit": "credits", "note": 'of "May"'}
    refused = operator.send("/operator/account/top-up", came_from=page, amount="many", **typed)
    assert refused.status_code == 400
    assert "This is not a whole number: Check the field Amount." in refused.text
    for large in (str(AMOUNT_MAX + 1), "9" * 20, "-" + "9" * 5000):
        too_large = operator.send("/operator/account/top-up", came_from=page, amount=large, **typed)
        assert too_large.status_code == 400
        said = "This number is too large: Amount can be 1,000,000,000,000,000 at most."
        assert said in too_large.text
    # On the account's own page, with the form as it was sent.
    assert caller.account_id in refused.text and 'value="many"' in refused.text
    assert 'value="of &#34;May&#34;"' in refused.text
    assert '<option value="credits" selected>' in refused.text
    assert refused.text.count('role="alert"') == 1 and refused.text.count(" autofocus") == 1
    # Sent again from there, it leads back there too.
    refused = operator.send("/operator/account/top-up", came_from=page, amount="0", **typed)
    assert refused.status_code == 400 and 'value="0"' in refused.text
    # Also in the other language, from where it leads back there as well.
    switched = operator.send("/operator/view", back=_switch_back(operator), language="zh")
    assert str(switched.url).endswith(page) and 'lang="zh-CN"' in switched.text


def _is_marked(browser: Browser, field: str) -> bool:
    """Whether a field has the focus, and is named as wrong."""
    shown = re.search(rf'<input [^>]*name="{field}"[^>]*>', browser.page)
    assert shown is not None
    return "autofocus" in shown[0] and 'aria-invalid="true"' in shown[0]


def test_what_is_wrong_is_said_at_its_field(operator: Browser, caller: Caller) -> None:
    page = f"/operator/account?id={caller.account_id}"
    operator.open(page)
    typed = {"account": caller.account_id, "unit": "credits", "note": "too much", "amount": "-7"}
    refused = operator.send("/operator/account/top-up", came_from=page, **typed)
    assert refused.status_code == 409 and "has 0 credits: no more can be taken away" in refused.text
    assert _is_marked(operator, "amount")
    # What the ledger refuses names its values as the fields are named.
    login = f"login{time.time_ns()}"
    for _ in range(2):
        operator.open("/operator/operators")
        refused = operator.send(
            "/operator/operators/invite", came_from="/operator/operators", name="One", login=login
        )
    assert refused.status_code == 409 and _is_marked(operator, "login")
    assert not _is_marked(operator, "name")


def test_a_top_up_has_a_reason_that_is_not_too_long(
    operator: Browser, store: Store, caller: Caller
) -> None:
    page = f"/operator/account?id={caller.account_id}"
    operator.open(page)
    typed = {"account": caller.account_id, "unit": "credits", "amount": "7"}
    for note, said in (
        ("", "A reason is missing"),
        (" \n", "A reason is missing"),
        ("长" * (NOTE_MAX + 1), "A note has 200 characters at most."),
    ):
        for sure in ("", "yes"):
            refused = operator.send(
                "/operator/account/top-up", came_from=page, note=note, sure=sure, **typed
            )
            assert refused.status_code in (400, 409) and said in refused.text, note
            assert _is_marked(operator, "note")
    entered = f"SELECT 1 FROM entry WHERE account_id = '{caller.account_id}' AND unit = 'credits'"
    assert not store.run(entered)


def test_what_is_wrong_with_a_text_is_said_at_its_field(operator: Browser, store: Store) -> None:
    person = new_person(store)
    shop = f"/operator/shop?kind=user&shop={person.id}"
    sent: list[tuple[str, str, str, dict[str, str]]] = [
        (
            "/operator/carriers",
            "/operator/carrier/add",
            "provinces",
            {"code": "X", "name": "One", "format": "", "area": "only", "provinces": ""},
        ),
        (
            shop,
            "/operator/shop/consent",
            "account",
            {"kind": "user", "shop": str(person.id), "scope": "promotion", "account": "none"},
        ),
    ]
    for page, path, field, typed in sent:
        operator.open(page)
        assert operator.send(path, came_from=page, **typed).is_error, path
        assert _is_marked(operator, field), path


def test_what_is_wrong_with_a_name_a_number_or_an_address_is_said_at_its_field(
    operator: Browser, store: Store, caller: Caller
) -> None:
    # Without one, there is no form that loads numbers.
    code = new_carrier(store, 1)
    connection = f"/operator/carrier?carrier={code}"
    link = {"carrier": code, "url": "https://carrier.example/link", "protocol": "signed-form"}
    link |= {"secret": "sesame-123", "deadline_ms": "5000", "settle_after_s": "60"}
    tokens, operations = (
        f"/operator/account/{tab}?id={caller.account_id}" for tab in ("tokens", "operations")
    )
    pricing = "/operator/prices/operation?operation=product_analysis"
    named, may = {"account": caller.account_id}, {"operation": "*", "state": "may", "price": ""}
    token = {"kind": "live", "label": "", "days": "", "addresses": "", "credits_per_day": ""}
    long, price = "long" * 26, {"operation": "product_analysis", "price": "-1"}
    carrier = {"code": "N", "name": "N", "area": "all"}
    names = {"provider": "me", "to_code": "you"}
    sent: list[tuple[str, str, str, dict[str, str]]] = [
        ("/operator/accounts", "/operator/accounts/open", "name", {"name": long}),
        ("/operator/operators", "/operator/operators/invite", "login", {"name": "N", "login": "l"}),
        ("/operator/shops", "/operator/shop/add", "id", {"kind": "shop", "id": long}),
        (pricing, "/operator/prices/price", "price", price),
        ("/operator/carriers", "/operator/carrier/add", "code", {**carrier, "code": "+"}),
        ("/operator/carriers", "/operator/carrier/add", "format", {**carrier, "format": "("}),
        ("/operator/carriers", "/operator/carriers/numbers", "shop", {"shop": "none"}),
        ("/operator/data", "/operator/data/source/add", "name", {"name": "a b"}),
        (operations, "/operator/account/permission", "rate", {**named, **may, "rate": "0"}),
        (tokens, "/operator/account/token", "addresses", {**named, **token, "addresses": "x"}),
        (tokens, "/operator/account/token", "days", {**named, **token, "days": "-1"}),
        *(
            (connection, "/operator/carrier/connect", wrong, {**link, **names, wrong: "a b"})
            for wrong in names
        ),
    ]
    for page, path, field, typed in sent:
        operator.open(page)
        assert operator.send(path, came_from=page, **typed).is_error, path
        assert _is_marked(operator, field), (path, field)


def test_what_a_member_typed_wrongly_is_said_at_its_field(
    browser: Browser, store: Store, caller: Caller
) -> None:
    member = entered(store, browser, caller)
    for page, path, field, typed in (
        ("/account/shops", "/account/shops/ask", "owner", {"need": "user:promotion", "owner": "0"}),
        ("/account", "/account/alert", "below", {"unit": "credits", "below": "-1"}),
        (
            "/account/try?operation=orders",
            "/account/try/send",
            "try_outcome",
            {"try_operation": "orders", "try_data": "sandbox", "try_outcome": "无"},
        ),
    ):
        member.open(page)
        assert member.send(path, came_from=page, **typed).is_error, path
        assert _is_marked(member, field), path


def test_what_is_wrong_with_no_single_field_has_the_focus_itself(
    operator: Browser, caller: Caller
) -> None:
    page = f"/operator/account?id={caller.account_id}"
    operator.open(page)
    typed = {"account": caller.account_id, "unit": "credits", "note": "none", "amount": "0"}
    refused = operator.send("/operator/account/top-up", came_from=page, **typed)
    assert refused.status_code == 400
    focused = re.findall(r"<(\w+) [^>]* autofocus[^>]*>([^<]*)", refused.text)
    said = "This cannot be added: Choose a balance, and an amount that is not 0."
    assert focused == [("p", said)]


def test_a_form_that_is_refused_after_its_question_keeps_what_was_typed(
    operator: Browser, store: Store, caller: Caller
) -> None:
    page = f"/operator/account?id={caller.account_id}"
    operator.open(page)
    unit = PRODUCT_ANALYSIS.balance_unit
    typed = {"account": caller.account_id, "unit": unit, "note": "too much"}
    asked = operator.send("/operator/account/top-up", came_from=page, amount="-100", **typed)
    assert "Are you sure?" in asked.text and _back(operator) == _switch_back(operator) == page
    assert "Take 100 calls away" in asked.text
    store.do(lambda database: top_up(database, RUNTIME, caller.account_id, unit, -1))
    refused = operator.send("/operator/account/top-up")
    assert refused.status_code == 409 and 'value="too much"' in refused.text
    assert 'value="-100"' in refused.text and "That is not possible" in refused.text


def test_a_password_is_never_given_back(operator: Browser) -> None:
    code, secret = f"C{time.time_ns()}", "a-secret-that-was-typed"
    operator.open("/operator/carriers")
    area = {"area": "all", "provinces": ""}
    operator.send("/operator/carrier/add", code=code, name="One", format="X[0-9]{9}", **area)
    page = f"/operator/carrier?carrier={code}"
    operator.open(page)
    refused = operator.send(
        "/operator/carrier/connect", came_from=page, url="https://x", provider="p1", secret=secret
    )
    assert refused.is_error and 'value="p1"' in refused.text and secret not in refused.text


def test_a_wrong_password_keeps_the_login_alone(browser: Browser) -> None:
    for path in ("/account", "/owner"):
        browser.open(path)
        refused = browser.send(f"{path}/sign-in", login="mei-no-one", password="wrong-wrong")
        assert refused.status_code == 403
        assert 'value="mei-no-one"' in refused.text and "wrong-wrong" not in refused.text


def test_a_refused_form_names_no_page_that_its_reader_may_not_open(
    browser: Browser, store: Store, caller: Caller
) -> None:
    other = new_member(store, caller.account_id)
    page = f"/account/members/remove?member={other.person.id}"
    developer = entered(store, browser, caller, Role.DEVELOPER)
    assert developer.open(page).status_code == 403
    developer.open("/account")
    refused = developer.send("/account/alert", came_from=page, unit="credits", below="many")
    assert refused.status_code == 400 and "This is not a whole number" in refused.text
    assert "They are signed out at once" not in refused.text


def test_every_question_of_a_link_leads_back_to_its_list(
    operator: Browser, store: Store, caller: Caller
) -> None:
    person = new_person(store)
    pages = {
        f"/operator/account/tokens?id={caller.account_id}": "/operator/account/token/revoke",
        f"/operator/shop?kind=user&shop={person.id}": "/operator/shop/sign-out",
    }
    for page, question in pages.items():
        operator.open(page)
        found = re.search(rf'href="({re.escape(question)}[^"]*)"', operator.page)
        assert found is not None
        assert "Are you sure?" in operator.open(html.unescape(found[1])).text
        assert _back(operator) == page
        assert operator.open(_back(operator)).status_code == 200


def test_a_way_back_never_leaves_these_pages(operator: Browser, caller: Caller) -> None:
    for elsewhere in ("https://evil.example/", "//evil.example/", "/\\evil.example/"):
        operator.open(f"/operator/account?id={caller.account_id}")
        fields = {"account": caller.account_id, "came_from": elsewhere}
        assert "Are you sure?" in operator.send("/operator/account/close", **fields).text
        assert _back(operator) == "/operator"


def test_a_refused_form_whose_page_is_gone_leads_back(operator: Browser) -> None:
    page = "/operator/account?id=acc_none"
    operator.open("/operator/accounts")
    refused = operator.send("/operator/account/close", account="acc_none", came_from=page)
    assert (refused.status_code, _back(operator)) == (404, page)


def test_a_refusal_is_in_the_language_of_its_reader(operator: Browser, caller: Caller) -> None:
    operator.client.cookies.set("tollway_language", "zh")
    page = f"/operator/account/tokens?id={caller.account_id}"
    operator.open(page)
    sent = {"account": caller.account_id, "days": "0"}
    refused = operator.send("/operator/account/token", came_from=page, **sent)
    assert "：令牌有效期为 1 到 36,500 天，或不设期限。" in html.unescape(refused.text)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/operator/carrier?carrier=NONE", "There is no carrier NONE: the page Carriers lists"),
        ("/operator/waybill?number=NONE", "There is no waybill NONE: the page Waybills lists"),
        ("/operator/shop?kind=shop&shop=none", "There is no shop none: the page Shops lists"),
    ],
)
def test_what_is_not_there_is_answered_with_what_to_do_on_pages(
    operator: Browser, path: str, said: str
) -> None:
    for language, wanted in (("en", said), ("zh-CN", "页面列有")):
        operator.client.headers["accept-language"] = language
        refused = operator.open(path)
        assert refused.is_error and wanted in refused.text
        assert "tollway carrier" not in refused.text and "tollway shop" not in refused.text
