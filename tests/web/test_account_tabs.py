"""The pages of one account lead to each other, and what acts leads back to its own."""

import html
import re

import pytest

from tests.support.browsers import Browser
from tests.support.ledger import Caller, new_caller
from tests.support.stores import Store

_TABS = ("", "/operations", "/tokens", "/clients", "/members", "/ledger")


def _tabs(page: str) -> tuple[list[str], list[str]]:
    """Where the tabs of a page lead, and which of them is shown."""
    found = re.search(r'<nav class="tabs"[^>]*>(.*?)</nav>', page, re.DOTALL)
    assert found is not None
    links = re.findall(r'<a href="([^"]+)"( aria-current="page")?>', found[1])
    return [html.unescape(href) for href, _ in links], [
        html.unescape(href) for href, current in links if current
    ]


def test_every_tab_has_an_address_and_leads_to_all_others(
    operator: Browser, caller: Caller
) -> None:
    paths = [f"/operator/account{tab}?id={caller.account_id}" for tab in _TABS]
    titles: set[str] = set()
    for path in paths:
        page = operator.open(path).text
        assert _tabs(page) == (paths, [path])
        assert f'href="/operator/waybills?account={caller.account_id}"' in page
        titles.update(re.findall("<title>.+</title>", page))
    # In the history of a browser each has a title of its own.
    assert len(titles) == len(paths)


@pytest.mark.parametrize(
    ("tab", "shown"),
    [
        ("", ("Top up", "Charged calls by day", "Close the account")),
        ("/operations", ("Calls a second", "Change all operations at once")),
        ("/tokens", ("Issue a token", ">active</span>")),
        ("/clients", ("Add a client",)),
        ("/members", ("Invite a member",)),
        ("/ledger", ("Statement", "CSV")),
    ],
)
def test_what_an_account_has_is_on_one_of_its_tabs_alone(
    operator: Browser, caller: Caller, tab: str, shown: tuple[str, ...]
) -> None:
    of = f"?id={caller.account_id}"
    page = operator.open(f"/operator/account{tab}{of}").text
    others = "".join(
        operator.open(f"/operator/account{each}{of}").text for each in _TABS if each != tab
    )
    for text in shown:
        assert text in page and (text not in others or text == "Statement"), text


def test_an_act_leads_back_to_the_tab_of_its_form(operator: Browser, store: Store) -> None:
    caller = new_caller(store, granted=False, calls=0)
    of = f"?id={caller.account_id}"
    operator.open(f"/operator/account/operations{of}")
    done = operator.send("/operator/account/permission", operation="*", state="may")
    assert done.url.path == "/operator/account/operations" and "Done." in done.text
    issued = operator.send("/operator/account/token", account=caller.account_id)
    assert _tabs(issued.text)[1] == [f"/operator/account/tokens{of}"]
    # What the new token still needs is one click away.
    assert f'href="/operator/account{of}">Top up</a>' in issued.text
    query = f"account={caller.account_id}&token={caller.token_id}"
    operator.open(f"/operator/account/token/revoke?{query}")
    revoked = operator.send("/operator/account/token/revoke")
    assert revoked.url.path == "/operator/account/tokens" and "is revoked" in revoked.text


def _change_link(page: str, title: str) -> str:
    found = re.search(rf'<a href="([^"]+)" aria-label="Change {title}">', page)
    assert found is not None
    return html.unescape(found[1])


def test_each_operation_of_an_account_is_changed_from_its_row(
    operator: Browser, store: Store
) -> None:
    caller = new_caller(store, price=3, rate_limit=50)
    page = operator.open(f"/operator/account/operations?id={caller.account_id}").text
    form = operator.open(_change_link(page, "Product analysis")).text
    # As it is now, and what it would be without terms of its own.
    assert re.search(r'name="price" value="3"', form) and re.search(r'name="rate" value="50"', form)
    assert "What is left blank becomes: 1 call (list price), calls a second: 10 (default)." in form
    asked = operator.send("/operator/account/permission", price="5", rate="50", state="may").text
    assert "Product analysis: 3 calls, calls a second: 50 → 5 calls, calls a second: 50" in asked
    done = operator.send("/operator/account/permission")
    assert done.url.path == "/operator/account/operations" and "5 calls" in done.text
    orders = operator.open(_change_link(done.text, "Paged order query")).text
    assert "not enabled" in orders and '<option value="may" selected>' in orders
    unknown = operator.open(
        f"/operator/account/permission?account={caller.account_id}&operation=none"
    )
    assert unknown.status_code == 400
