"""Waybills on the pages of an operator: labels, cancelling, and lists."""

import html
import re

from tests.support.browsers import Browser, open_until, recorded_acts
from tests.support.gateway import Gateway
from tests.support.ledger import credits_left
from tests.support.stores import Store
from tests.support.waybills import issue, new_carrier, new_customer, request
from tollway.web.area import PAGE_ROWS


def test_looking_at_a_label_prints_nothing_and_printing_is_an_act(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    wp_code = new_carrier(store, 1)
    number = issue(gateway, new_customer(store).token, request(wp_code)).data["waybillCode"]
    # Other carriers of these tests give the same numbers.
    carrier = f"wp_code = '{wp_code}' AND number = '{number}'"
    printed = f"SELECT printed_at_s FROM waybill WHERE {carrier}"
    of = f"number={number}&carrier={wp_code}"
    # Whatever the address asks for, it is a picture to look at.
    for address in (of, f"{of}&kind=zpl", f"{of}&kind=pdf"):
        seen = operator.client.get(f"/operator/waybill/label?{address}")
        assert (seen.status_code, seen.headers["content-type"]) == (200, "image/png")
    assert [tuple(row) for row in store.run(printed)] == [(None,)]
    operator.open(f"/operator/waybill?{of}")
    assert "/operator/waybill/label" in operator.page
    assert "Print the label<" in operator.page and "Nothing is charged." in operator.page
    sent = operator.client.post(
        "/operator/waybill/label", data={**operator.hidden(), "kind": "zpl"}
    )
    assert sent.status_code == 200 and sent.text.startswith("^XA")
    assert store.run(printed)[0][0] is not None
    assert "waybill print" in recorded_acts(operator)


def test_a_label_that_was_printed_is_printed_again_free_of_charge(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    wp_code, customer = new_carrier(store, 1), new_customer(store)
    reply = issue(gateway, customer.token, request(wp_code))
    path = f"/operator/waybill?number={reply.data['waybillCode']}&carrier={wp_code}"
    left, labels = credits_left(store, customer), []
    for _ in range(2):
        operator.open(path)
        fields = {**operator.hidden(), "kind": "zpl"}
        labels.append(operator.client.post("/operator/waybill/label", data=fields).text)
    assert labels[0] == labels[1] and labels[0].startswith("^XA")
    page = operator.open(path).text
    assert "Print the label again" in page and "First printed" in page
    assert "It was printed before. This is the same label, and nothing is charged." in page
    assert credits_left(store, customer) == left
    # From the receipt one click leads back to it.
    receipt = operator.open(f"/operator/request?id={reply.headers['x-request-id']}").text
    assert html.escape(path[: path.index("?")]) in receipt and wp_code in receipt


def test_a_waybill_whose_receiver_is_erased_says_that_it_has_no_label(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    wp_code = new_carrier(store, 1)
    number = issue(gateway, new_customer(store).token, request(wp_code)).data["waybillCode"]
    store.run(f"UPDATE waybill SET sealed = substr(sealed, 1, 0) WHERE wp_code = '{wp_code}'")
    page = operator.open(f"/operator/waybill?number={number}&carrier={wp_code}").text
    assert "was erased: it has no label any more." in page
    assert "<img" not in page and "Print the label" not in page


def test_a_waybill_is_cancelled_and_numbers_are_loaded(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    wp_code = new_carrier(store, 2)
    reply = issue(gateway, new_customer(store).token, request(wp_code))
    number = reply.data["waybillCode"]
    operator.open(f"/operator/waybill?number={number}&carrier={wp_code}")
    asked = operator.send("/operator/waybill/cancel").text
    assert "Are you sure" in asked and "cancelled" not in asked
    assert "cancelled" in operator.send("/operator/waybill/cancel").text
    operator.open("/operator/carriers")
    fields = {"carrier": wp_code, "numbers": "YT0000000000009\nwrong"}
    assert (
        "Numbers loaded: 1, rejected: 1."
        in operator.send("/operator/carriers/numbers", **fields).text
    )
    assert all(act in recorded_acts(operator) for act in ("waybill cancel", "pool add"))


def test_what_a_carrier_refused_is_not_logged_as_done(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    wp_code, customer = new_carrier(store, 0), new_customer(store)
    assert issue(gateway, customer.token, request(wp_code)).data["code"] == 0
    page = open_until(
        operator, f"/operator/requests?account={customer.account_id}", "0 NOT_<wbr>DONE"
    )
    assert '<span class="state soon">not done</span>' in page
    receipt = re.search(r'href="(/operator/request\?id=[0-9a-f]+)"', page)
    assert receipt is not None
    assert re.search(
        r'class="[^"]*notice[^"]* soon"[^§]*?was not done', operator.open(receipt[1]).text
    )


def test_all_waybills_are_listed_page_by_page(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    wp_code, token = new_carrier(store, PAGE_ROWS + 1), new_customer(store).token
    issued = [
        issue(gateway, token, request(wp_code)).data["waybillCode"] for _ in range(PAGE_ROWS + 1)
    ]
    page = operator.open("/operator/waybills").text
    found: list[str] = []
    while older := re.search(r'href="([^"]+)" rel="next"', page):
        found += re.findall(rf"number=(\w+)&amp;carrier={wp_code}\b", page)
        page = operator.open(html.unescape(older[1])).text
        assert 'href="/operator/waybills">Newest' in page
    found += re.findall(rf"number=(\w+)&amp;carrier={wp_code}\b", page)
    assert sorted(found) == sorted(issued)
    assert operator.open("/operator/waybills?before=soon:1").status_code == 200
