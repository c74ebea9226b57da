"""What pages say of a call whose outcome a carrier has yet to tell, and of what it holds."""

import csv
import re
from itertools import count

import pytest

from tests.support.browsers import Browser
from tests.support.ledger import Caller, new_caller
from tests.support.members import entered
from tests.support.stores import Store
from tollway.ledger.charges import Charge
from tollway.ledger.holds import release, reserve

_numbers = count(1)
_AT_MS, _DEADLINE_MS, _LATER_MS = 1_000, 61_000, 90_000


@pytest.fixture
def payer(store: Store) -> Caller:
    return new_caller(store, credits_=100)


def _hold_for(store: Store, payer: Caller, deadline_ms: int = _DEADLINE_MS) -> str:
    """Holds 10 of 100 credits until a carrier answers; returns the id of the call."""
    request_id = f"held{next(_numbers)}"
    paid_by = payer.account_id, "credits", 10, "waybills", request_id, payer.token_id, _AT_MS
    charge = Charge(*paid_by)
    store.do(
        lambda database: database.write(
            lambda tx: reserve(tx, charge, f"hold of {request_id}", deadline_ms)
        )
    )
    return request_id


def _facts(page: str) -> dict[str, str]:
    found = re.findall(r"<dt>([^<]+)</dt><dd[^>]*>(.*?)</dd>", page, re.DOTALL)
    return {name: re.sub(r"<[^>]+>", "", text).strip() for name, text in found}


def test_what_is_held_is_not_called_charged(browser: Browser, store: Store, payer: Caller) -> None:
    request_id = _hold_for(store, payer)
    member = entered(store, browser, payer)
    page = member.open(f"/account/request?id={request_id}").text
    facts = _facts(page)
    assert "Charged" not in facts
    assert facts["Hold"] == "10 credits, held"
    assert "10 credits held: 100 → 90" in page
    store.do(
        lambda database: database.write(
            lambda tx: release(tx, payer.account_id, f"hold of {request_id}", _LATER_MS)
        )
    )
    facts = _facts(member.open(f"/account/request?id={request_id}").text)
    assert "Charged" not in facts
    assert facts["Hold"] == "10, released"


def test_what_was_given_back_is_not_listed_as_held(
    browser: Browser, store: Store, payer: Caller
) -> None:
    request_id = _hold_for(store, payer)
    member = entered(store, browser, payer)

    def listed() -> dict[str, str]:
        lines = member.open("/account/requests.csv").text.lstrip("\ufeff").splitlines()
        (row,) = [row for row in csv.DictReader(lines) if row["request_id"] == request_id]
        return {name: row[name] for name in ("outcome", "amount", "unit")}

    assert listed() == {"outcome": "held", "amount": "10", "unit": "credits"}
    store.do(
        lambda database: database.write(
            lambda tx: release(tx, payer.account_id, f"hold of {request_id}", _LATER_MS)
        )
    )
    assert listed() == {"outcome": "released", "amount": "0", "unit": ""}
    page = member.open("/account/requests").text
    assert ">not done<" in page and ">held<" not in page


def _shown_holds(page: str) -> str:
    """The table of what is held, without what comes after it."""
    return page.split("Held until a carrier answers")[1].split("</table>", maxsplit=1)[0]


def test_what_is_held_too_long_comes_first_with_what_to_do(
    operator: Browser, store: Store, payer: Caller
) -> None:
    request_id = _hold_for(store, payer)
    page = operator.open("/operator/waybills").text
    assert page.index("decide on the page of its waybill") < page.index("<h2>All waybills</h2>")
    (row,) = (each for each in _shown_holds(page).split("<tr>") if request_id in each)
    assert "overdue" in row
    # Named as on every other page, and not by its id.
    assert re.search(rf'href="/operator/account\?id={payer.account_id}">(?!acc_)', row)


def test_what_is_held_in_time_is_not_called_overdue(
    operator: Browser, store: Store, payer: Caller
) -> None:
    request_id = _hold_for(store, payer, deadline_ms=4_000_000_000_000)
    page = operator.open("/operator/waybills").text
    (row,) = (each for each in _shown_holds(page).split("<tr>") if request_id in each)
    assert ">held<" in row and "overdue" not in row
