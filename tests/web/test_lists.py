"""Lists that are short as a rule are shown page by page if they are long."""

import html
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.browsers import Browser
from tests.support.consent import allow, new_asker, new_person
from tests.support.ledger import RUNTIME, Caller
from tests.support.second_factors import SEALER
from tests.support.stores import Store
from tests.support.waybills import load_numbers, new_carrier
from tollway.carriers.pool_levels import COUNTED_MAX
from tollway.identity.people import Role
from tollway.identity.second_factor import (
    STEP_S,
    Holder,
    begin_factor,
    code_at,
    confirm_factor,
)
from tollway.identity.sign_in_links import invite
from tollway.store.database import Database
from tollway.web.area import PAGE_ROWS
from tollway.web.lists import list_part


@given(st.integers(0, 200), st.integers(1, 60))
def test_the_pages_of_a_list_have_every_row_once(count: int, most: int) -> None:
    rows, begin, seen = range(count), "", []
    while True:
        part = list_part(rows, begin, "/list", {"id": "7"}, most)
        assert len(part.rows) <= most and bool(part.first) == bool(begin)
        seen += part.rows
        if not part.next:
            break
        path, _, begin = part.next.partition("&row=")
        assert path == "/list?id=7"
    assert seen == list(rows)


@pytest.mark.parametrize("begin", ["", "x", "-1", "1e3", "٣", "9" * 5000])
def test_an_unreadable_row_shows_the_first_page(begin: str) -> None:
    assert list_part(range(80), begin, "/list").rows == range(PAGE_ROWS)


def _all_rows(browser: Browser, path: str, row: str) -> list[str]:
    """What a pattern finds on each page of a list, as far as the link to the next one leads."""
    found: list[str] = []
    while path:
        page = browser.open(path).text
        found += re.findall(row, page)
        link = re.search(r'<a href="([^"]*)" rel="next">Next page', page)
        path = html.unescape(link[1]) if link else ""
    return found


def _people(store: Store, role: Role, account_id: str | None, count: int) -> str:
    """Invites so many people; the beginning of their logins."""
    prefix = f"listed{time.time_ns()}n"

    async def work(database: Database) -> None:
        for number in range(count):
            await invite(
                database,
                RUNTIME,
                role=role,
                name="Mei",
                login=f"{prefix}{number:02}",
                account_wanted=account_id,
            )

    store.do(work)
    return prefix


def _members(store: Store, caller: Caller, count: int) -> tuple[str, str]:
    prefix = _people(store, Role.READER, caller.account_id, count)
    return f"/operator/account/members?id={caller.account_id}", rf">{prefix}\d\d<"


def _operators(store: Store, _: Caller, count: int) -> tuple[str, str]:
    return "/operator/operators", rf">{_people(store, Role.OPERATOR, None, count)}\d\d<"


@pytest.mark.parametrize("listed", [_members, _operators], ids=["members", "operators"])
def test_every_person_of_a_long_list_is_on_one_of_its_pages(
    operator: Browser,
    store: Store,
    caller: Caller,
    listed: Callable[[Store, Caller, int], tuple[str, str]],
) -> None:
    path, row = listed(store, caller, PAGE_ROWS + 2)
    try:
        assert len(re.findall(row, operator.open(path).text)) <= PAGE_ROWS
        found = _all_rows(operator, path, row)
        assert len(found) == len(set(found)) == PAGE_ROWS + 2
    finally:
        # Other tests look for operators of theirs on the first page.
        store.run("DELETE FROM person WHERE login LIKE 'listed%'")


def test_every_second_factor_is_on_one_page_and_is_found_by_its_login(
    operator: Browser, store: Store
) -> None:
    prefix = f"listed{time.time_ns()}n"

    async def work(database: Database) -> None:
        for number in range(PAGE_ROWS + 2):
            for kind in ("member", "shop"):
                holder = Holder(kind, f"{prefix}{number:02}", f"{prefix}{number:02}")
                secret, step = await begin_factor(database, SEALER, holder), 50_000_000
                now_s, code = step * STEP_S, code_at(secret, step)
                await confirm_factor(database, RUNTIME, SEALER, holder, code, now_s)

    store.do(work)
    try:
        path, row = "/operator/second-factors", rf">{prefix}\d\d<"
        assert len(re.findall(row, operator.open(path).text)) <= PAGE_ROWS
        found = _all_rows(operator, path, row)
        assert len(found) == 2 * (PAGE_ROWS + 2) and len(set(found)) == PAGE_ROWS + 2
        wanted = operator.open(f"{path}?q=+{prefix.upper()}07").text
        assert re.findall(row, wanted) == [f">{prefix}07<"] * 2
        assert "No second factor matches." in operator.open(f"{path}?q=x{prefix}").text
    finally:
        store.run("DELETE FROM second_factor WHERE login LIKE 'listed%'")
        store.run("DELETE FROM recovery_code WHERE subject_id LIKE 'listed%'")


def test_the_pools_of_shops_are_listed_page_by_page_the_emptiest_first(
    operator: Browser, store: Store
) -> None:
    wp_code = new_carrier(store, 0)
    for shop in range(PAGE_ROWS + 2):
        own = (f"YT{shop:09}{number:04}" for number in range(1 + (shop != 7)))
        load_numbers(store, wp_code, own, str(shop))
    row = rf">{wp_code}</td>\s*<td[^>]*><a href=\"/operator/shop[^>]+>(\d+)</a>"
    found = _all_rows(operator, "/operator/carriers", row)
    assert len(found) == len(set(found)) == PAGE_ROWS + 2 and found[0] == "7"


def test_of_a_pool_that_grew_for_years_not_all_numbers_are_counted(
    operator: Browser, store: Store
) -> None:
    wp_code = new_carrier(store, 2000)
    store.run(
        "INSERT INTO waybill_number (wp_code, number, owner_id, is_taken) WITH RECURSIVE n (i) AS "
        f"(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {COUNTED_MAX + 1}) "
        f"SELECT '{wp_code}', 'YT' || (9000000000000 + i), '', 1 FROM n"
    )
    try:
        page = operator.open("/operator/carriers").text
        (row,) = re.findall(rf"<tr>(?:(?!</tr>).)*>{wp_code}</a>.*?</tr>", page, re.DOTALL)
        counts = re.findall(r">([\d,]+\+?)</td>", row)
        assert len(counts) == 2 and counts[0] == "2,000"
        assert re.fullmatch(r"[\d,]+\+", counts[1]), counts
    finally:
        store.run(f"DELETE FROM waybill_number WHERE wp_code = '{wp_code}' AND is_taken = 1")


def test_every_consent_of_a_long_list_is_on_one_of_the_owners_pages(
    browser: Browser, store: Store
) -> None:
    person, names = new_person(store), []
    for _ in range(22):
        asker = new_asker(store)
        allow(store, asker, person)
        names.append(asker.account_id)
    browser.open("/owner")
    browser.sign_in(person.login)
    found = _all_rows(browser, "/owner", r'name="grant" value="(con_\w+)"')
    assert len(found) == len(set(found)) == len(names)


@pytest.mark.parametrize(
    "path",
    [
        "/operator/accounts?after=~~",
        "/operator/shops?after=user:~",
        "/operator/operators?after=~",
        "/operator/second-factors?after=user:~",
        "/operator/data?row=99999",
        "/operator/requests?before=0",
        "/operator/trail?before=0",
    ],
)
def test_an_address_behind_the_end_of_a_list_says_so(
    operator: Browser, store: Store, caller: Caller, path: str
) -> None:
    page = operator.open(path)
    assert page.status_code == 200
    assert "<p>There are no more.</p>" in page.text
    assert re.search(r">(First page|Newest)</a>", page.text)
    for untrue in ("There are no accounts yet", "No shop or user is known", "No source is known"):
        assert untrue not in page.text


@pytest.mark.parametrize(
    "path",
    [
        "/operator/accounts?order=newest&after=x",
        "/operator/accounts?order=credits&after=x:y",
        "/operator/accounts?order=credits&after=9999999999999999999:y",
        "/operator/account/tokens?id={account}&after=x",
        "/operator/account/ledger?id={account}&before=x",
        "/operator/shops?after=~",
        "/operator/second-factors?after=~",
        "/operator/consents?after=x",
        "/operator/data?after=x",
        "/operator/waybills?before=x",
        "/operator/requests?before=x",
        "/operator/trail?before=x",
    ],
)
def test_an_address_that_cannot_be_read_shows_the_first_page_of_every_list(
    operator: Browser, caller: Caller, path: str
) -> None:
    page = operator.open(path.format(account=caller.account_id))
    assert page.status_code == 200 and "There are no more." not in page.text
    assert not re.search(r">(First page|Newest)</a>", page.text)


def test_the_largest_balance_is_a_position_too(operator: Browser) -> None:
    page = operator.open(f"/operator/accounts?order=credits&after={10**18}:y")
    assert "There are no more." in page.text


def test_an_address_behind_the_end_of_an_owners_list_says_so(
    browser: Browser, store: Store
) -> None:
    person = new_person(store)
    allow(store, new_asker(store), person)
    browser.open("/owner")
    browser.sign_in(person.login)
    page = browser.open("/owner?row=99999").text
    assert "There are no more." in page and "You have given no access" not in page
