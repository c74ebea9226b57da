"""From each thing a link leads to what belongs to it, and in long lists a thing is found."""

import html
import re
import time
from functools import partial

from tests.support.browsers import Browser
from tests.support.consent import allow, ask, new_asker, new_person
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.members import entered
from tests.support.remote import eventually
from tests.support.stores import Store
from tests.support.waybills import issue, load_numbers, new_carrier, new_customer, request
from tollway.carriers.sorting_codes import Route, put_routes
from tollway.ledger.accounts import close_account, open_account
from tollway.ledger.entries import top_up
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database


def _links(browser: Browser, path: str) -> set[str]:
    found = re.findall(r'href="([^"]+)"', browser.open(path).text)
    return {html.unescape(each) for each in found}


def test_an_account_leads_to_its_consents_and_a_shop_to_the_calls_on_its_data(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    asker, person = new_asker(store), new_person(store)
    allow(store, asker, person)
    request_id = ask(gateway, asker, person.id).headers["x-request-id"]
    consents = f"/operator/consents?q={asker.account_id}"
    assert consents in _links(operator, f"/operator/account?id={asker.account_id}")
    shop = f"/operator/shop?kind=user&shop={person.id}"
    assert shop in _links(operator, consents)
    calls = f"/operator/requests?shop={person.id}"
    assert calls in _links(operator, shop)
    assert f"/operator/request?id={request_id}" in _links(operator, calls)


def test_an_account_leads_to_what_was_done_to_it_and_back(
    operator: Browser, caller: Caller
) -> None:
    account = f"/operator/account?id={caller.account_id}"
    trail = f"/operator/trail?of=account+{caller.account_id}"
    assert trail in _links(operator, account)
    assert {account, "/operator/trail"} <= _links(operator, trail)
    # It says of which account.
    name = re.search("<h1>(.*)</h1>", operator.open(account).text)
    assert name is not None and f"account {name[1]}</p>" in operator.open(trail).text


def test_the_receipt_of_a_member_leads_to_the_consent(
    browser: Browser, gateway: Gateway, store: Store
) -> None:
    asker, person = new_asker(store), new_person(store)
    allow(store, asker, person)
    request_id = ask(gateway, asker, person.id).headers["x-request-id"]
    member = entered(store, browser, Caller(asker.account_id, asker.token, ""))
    consent = f"/account/shops?q={person.id}"
    assert consent in _links(member, f"/account/request?id={request_id}")
    assert f"user {person.id}" in member.open(consent).text


def test_the_search_finds_a_waybill(operator: Browser, gateway: Gateway, store: Store) -> None:
    carrier, customer = new_carrier(store, 0), new_customer(store)
    # Of no other carrier: those of other tests have the same low numbers.
    load_numbers(store, carrier, [f"YT9{carrier[1:]:0>12}"])
    number = issue(gateway, customer.token, request(carrier)).data["waybillCode"]
    found = operator.open(f"/operator/search?q={number}")
    assert found.url.path == "/operator/waybill" and number in found.text
    shop = html.unescape(re.findall(r'href="(/operator/shop[^"]+)"', found.text)[0])
    assert shop in _links(operator, f"/operator/waybills?carrier={carrier}")
    nothing = operator.open("/operator/search?q=no-such-number")
    assert nothing.url.path == "/operator/accounts" and "Nothing is called “no-such" in nothing.text


def test_the_search_finds_the_calls_of_an_order(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    carrier, customer = new_carrier(store, 1), new_customer(store)
    order = f"ORDER{time.time_ns()}"
    issued = issue(gateway, customer.token, request(carrier, order_sn=order))
    found = operator.open(f"/operator/search?q={order}")
    assert found.url.path == "/operator/requests"
    assert issued.headers["x-request-id"] in found.text
    # Calls are not kept as long as waybills.
    store.run(f"UPDATE waybill SET request_id = NULL WHERE order_sn = '{order}'")
    found = operator.open(f"/operator/search?q={order}")
    assert found.url.path == "/operator/waybills" and order in found.text


def test_the_search_finds_shops_by_a_part_of_their_name(operator: Browser, store: Store) -> None:
    person, name = new_person(store), f"Tea and Cakes {time.time_ns()}"
    store.run(f"UPDATE owner SET name = '{name}' WHERE id = '{person.id}'")
    found = operator.open(f"/operator/search?q={name[4:]}")
    assert found.url.path == "/operator/shops" and f">{name}</a>" in found.text


def test_a_carrier_leads_to_loading_its_numbers(operator: Browser, store: Store) -> None:
    carrier = new_carrier(store, 0)
    loading = f"/operator/carriers?load={carrier}"
    assert loading in _links(operator, f"/operator/carrier?carrier={carrier}")
    assert f'<option value="{carrier}" selected>' in operator.open(loading).text


def test_the_search_lists_the_waybills_of_all_carriers_that_have_the_number(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    carriers, customer = [new_carrier(store, 0) for _ in range(2)], new_customer(store)
    number = f"YT8{carriers[0][1:]:0>12}"
    for carrier in carriers:
        load_numbers(store, carrier, [number])
        assert issue(gateway, customer.token, request(carrier)).data["waybillCode"] == number
    links = _links(operator, f"/operator/search?q={number}")
    pages = [f"/operator/waybill?number={number}&carrier={each}" for each in carriers]
    assert set(pages) <= links
    for carrier, page in zip(carriers, pages, strict=True):
        assert f"<h1>{carrier} {number}</h1>" in operator.open(page).text


def _requests(browser: Browser, path: str) -> list[str]:
    return re.findall(r"/request\?id=([0-9a-f]+)", browser.open(path).text)


def test_the_figures_of_the_overview_lead_to_the_calls_they_count(
    operator: Browser, gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store)
    paid = gateway.get(token=caller.token, query=question).headers["x-request-id"]
    refused = gateway.get(token=caller.token, query={}).headers["x-request-id"]
    figures = re.findall(r'class="figure" href="([^"]+)"', operator.open("/operator").text)
    charged, not_charged = (html.unescape(each) for each in figures)
    of_account = f"&account={caller.account_id}"
    for path, wanted in ((charged, paid), (not_charged, refused)):
        assert "since=" in path
        found = partial(_requests, operator, path + of_account)
        # Refused calls are written a moment later.
        eventually(found, lambda seen, wanted=wanted: seen == [wanted])


def _names(browser: Browser, path: str, prefix: str) -> list[str]:
    """The accounts of a list, over all of its pages."""
    names: list[str] = []
    while path:
        page = browser.open(path).text
        names += re.findall(rf">({prefix} \d+)</a>", page)
        older = re.search(r'href="([^"]+)" rel="next"', page)
        path = html.unescape(older[1]) if older else ""
    return names


def test_accounts_are_listed_by_name_by_age_and_by_credits(operator: Browser, store: Store) -> None:
    prefix = f"List{time.time_ns()}"

    async def fill(database: Database) -> None:
        for number in range(60):
            # The first three were opened long ago, in another order.
            at_s = 1_000_000 + (3, 1, 2)[number] if number < 3 else time.time()
            runtime = Runtime(now_s=partial(float, at_s))
            opened = await open_account(database, runtime, f"{prefix} {number:02}")
            if number in (4, 5):
                await top_up(database, RUNTIME, opened.id, "credits", 9 - number)
            if number == 6:
                await close_account(database, RUNTIME, opened.id)

    store.do(fill)
    path = f"/operator/accounts?q={prefix}"
    by_name = _names(operator, path, prefix)
    assert by_name == [f"{prefix} {number:02}" for number in range(60)]
    newest = _names(operator, f"{path}&order=newest", prefix)
    assert sorted(newest) == by_name
    assert newest[-3:] == [f"{prefix} {number:02}" for number in (0, 2, 1)]
    fewest = _names(operator, f"{path}&order=credits", prefix)
    assert sorted(fewest) == by_name and fewest[-2:] == [f"{prefix} 05", f"{prefix} 04"]
    assert _names(operator, f"{path}&state=closed", prefix) == [f"{prefix} 06"]
    assert f"{prefix} 06" not in _names(operator, f"{path}&state=open&order=credits", prefix)
    # An address that was typed wrongly shows the list all the same.
    assert _names(operator, f"{path}&state=x&order=x&after=", prefix) == by_name
    assert _names(operator, f"{path}&order=newest&after=x", prefix) == newest


def test_a_refused_call_leads_to_what_to_do(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    caller = new_caller(store)
    refused = gateway.get(token=caller.token, query={"product_id": "1", "query_date": "soon"})
    receipt = f"/operator/request?id={refused.headers['x-request-id']}"
    page = eventually(lambda: operator.open(receipt).text, lambda page: "PARAMETER_INVALID" in page)
    assert "Parameter query_date is not valid: " in page and "Send a date" in page
    assert "/docs/product_analysis" in _links(operator, receipt)


def test_a_call_that_a_shop_did_not_allow_leads_to_the_shop(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    asker, person = new_asker(store), new_person(store)
    refused = ask(gateway, asker, person.id)
    assert refused.headers["x-tollway-reason"] == "NOT_AUTHORIZED"
    receipt = f"/operator/request?id={refused.headers['x-request-id']}"
    eventually(lambda: operator.open(receipt).text, lambda page: "NOT_AUTHORIZED" in page)
    shop = f"/operator/shop?kind=user&shop={person.id}"
    assert shop in _links(operator, receipt)
    assert operator.open(shop).status_code == 200


def test_a_place_is_found_in_a_long_routing_table(operator: Browser, store: Store) -> None:
    wp_code = new_carrier(store, 1)
    table = f"/operator/carrier?carrier={wp_code}"
    assert 'name="q"' not in operator.open(table).text.partition("<main")[2]
    routes = [
        *(
            Route("河北省", "石家庄市", f"{each:02}区", f"311-{each:02}", "", "")
            for each in range(60)
        ),
        Route("浙江省", "杭州市", "余杭区", "571-A12", "杭州集包", "571A"),
    ]
    store.do(lambda database: put_routes(database, wp_code, routes))

    def found(**query: str) -> list[str]:
        page = operator.client.get(table, params={"carrier": wp_code, **query})
        operator.page = page.text
        return re.findall(r'data-label="Route code">([^<]*)<', page.text)

    first = found()
    assert len(first) == 50 and "Rows: 61" in operator.page
    (href,) = re.findall(r'href="([^"]*)" rel="next"', operator.page)
    assert len(found(row="50")) == 11 and "First page" in operator.page
    assert "row=50" in href and f"carrier={wp_code}" in href
    for text in ("余杭", "浙江省杭州市余杭区", "浙江 余杭", "571-a12", "杭州集包", "571A"):
        assert found(q=text) == ["571-A12"], text
    assert 'value="571A"' in operator.page and "Rows: 1<" in operator.page
    # The pages of what was found keep the search.
    assert len(found(q="石家庄")) == 50
    (href,) = re.findall(r'href="([^"]*)" rel="next"', operator.page)
    assert len(operator.open(html.unescape(href)).text.split('data-label="Route code"')) == 11
    assert found(q="余杭 311") == [] and "No row matches." in operator.page
    operator.client.headers["accept-language"] = "zh"
    found(q="石家庄")
    assert "共 60 行" in operator.page and "地区或编码" in operator.page
