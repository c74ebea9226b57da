"""An operator gives back what a call cost, from the page of the call, once."""

import re
from concurrent.futures import ThreadPoolExecutor

from tests.support.browsers import Browser
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, amount_left, new_caller
from tests.support.members import entered
from tests.support.receipts import ask_receipt, id_of, receipt_of
from tests.support.stores import Store
from tollway.ledger.accounts import close_account

_UNIT = "calls:product_analysis"
_REFUND = "/operator/request/refund"


def _paid(gateway: Gateway, caller: Caller, question: dict[str, str]) -> str:
    reply = gateway.get(token=caller.token, query=question)
    assert reply.code == 0
    return id_of(reply)


def test_a_call_is_refunded_from_its_page_and_its_receipt_says_so_everywhere(
    operator: Browser, gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store)
    call = _paid(gateway, caller, question)
    assert ask_receipt(gateway, caller.token, call).data["refund"] is None
    page = operator.open(f"/operator/request?id={call}").text
    assert "Refund 1 call" in page and "Refunded" not in page
    asked = operator.send(_REFUND, note="wrong figures").text
    assert "After this it has" in asked and call in asked and "wrong figures" in asked
    assert ask_receipt(gateway, caller.token, call).data["refund"] is None
    shown = operator.send(_REFUND)
    assert str(shown.url).startswith(f"{gateway.base_url}/operator/request?id={call}")
    assert "The call is refunded" in shown.text and "Refund 1 call" not in shown.text
    receipt = ask_receipt(gateway, caller.token, call).data
    (entry,) = store.run(
        "SELECT amount, at_ms, note, unit FROM entry "
        f"WHERE request_id = '{call}' AND kind = 'top_up'"
    )
    assert tuple(entry) == (1, receipt["refund"]["at_ms"], "wrong figures", _UNIT)
    assert receipt["refund"]["amount"] == 1
    assert (receipt["outcome"], receipt["amount"]) == ("charged", 1)
    member = entered(store, Browser(gateway), caller)
    for browser, path in ((operator, "/operator"), (member, "/account")):
        text = browser.open(f"{path}/request?id={call}").text
        assert "1 of it was refunded since" in text
        assert "Refunded" in text and "1 call · " in text
    assert "Refund 1 call" not in member.page
    member.client.close()


def test_a_refund_that_is_confirmed_several_times_is_made_once(
    operator: Browser, gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    call = _paid(gateway, new_caller(store), question)
    operator.open(f"/operator/request?id={call}")
    operator.send(_REFUND, note="twice")
    confirmed = operator.hidden()
    with ThreadPoolExecutor(4) as threads:
        answers = list(
            threads.map(lambda _: operator.client.post(_REFUND, data=confirmed).text, range(4))
        )
    assert sum(f"Request {call} was refunded already." in each for each in answers) == 3
    made = store.run(f"SELECT amount FROM entry WHERE request_id = '{call}' AND kind = 'top_up'")
    assert [row[0] for row in made] == [1]


def test_a_part_of_what_a_call_cost_is_given_back(
    operator: Browser, gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store, price=10)
    call = _paid(gateway, caller, question)
    page = operator.open(f"/operator/request?id={call}").text
    assert 'name="amount" value="10"' in page and 'max="10"' in page
    for amount, said in (
        ("11", "Amount can be 10 at most"),
        ("0", "a refund is 1 to 10"),
        ("-4", "a refund is 1 to 10"),
        ("4.5", "not a whole number"),
    ):
        refused = operator.send(_REFUND, amount=amount, note="in part").text
        assert said in refused and "After this it has" not in refused
    asked = operator.send(_REFUND, amount="4", note="in part").text
    assert "After this it has 94 calls" in asked and "Refund 4 calls" in asked
    shown = operator.send(_REFUND).text
    assert "4 of it was refunded since" in shown and 'name="amount"' not in shown
    assert ask_receipt(gateway, caller.token, call).data["refund"]["amount"] == 4
    assert amount_left(store, caller, _UNIT) == 94
    entries = operator.open(f"/operator/account/ledger?id={caller.account_id}&unit={_UNIT}").text
    assert "refund" in entries
    statement = operator.open(f"/operator/account/statement?id={caller.account_id}").text
    shown = " ".join(re.sub(r"<[^>]*>", " ", statement).split())
    assert "Topped up Refunded" in shown and "calls: Product analysis 0 100 4 0 10 0 94" in shown


def test_what_was_not_charged_or_cannot_be_given_back_has_no_refund(
    operator: Browser, gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store)
    call = _paid(gateway, caller, question)
    refused = receipt_of(gateway, caller.token, gateway.get(token=caller.token, query={}))
    operator.open(f"/operator/request?id={call}")
    assert "Refund 1 call" in operator.page
    for wanted, status, said in (
        (refused["request_id"], 409, "The call was not charged"),
        ("none", 404, "There is no receipt with this id"),
    ):
        answer = operator.send(_REFUND, id=wanted, note="why", sure="yes")
        assert answer.status_code == status and said in answer.text
    store.do(lambda database: close_account(database, RUNTIME, caller.account_id))
    assert "Refund" not in operator.open(f"/operator/request?id={call}").text


def test_a_refund_has_a_reason(
    operator: Browser, gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    call = _paid(gateway, new_caller(store), question)
    operator.open(f"/operator/request?id={call}")
    for note in ("", " ", "\n"):
        for sure in ("", "yes"):
            refused = operator.send(_REFUND, id=call, note=note, sure=sure)
            assert refused.status_code == 400 and "A reason is missing" in refused.text
            assert "After this it has" not in refused.text
            assert re.search(r'<input[^>]* name="note"[^>]* autofocus', refused.text)
    assert not store.run(f"SELECT 1 FROM entry WHERE request_id = '{call}' AND kind = 'top_up'")


def test_a_reason_with_line_breaks_adds_no_line_to_the_question(
    operator: Browser, gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store)
    call = _paid(gateway, caller, question)
    note, shown = "wrong\r\n\u2028figures\nNothing is charged", "wrong figures Nothing is charged"
    operator.open(f"/operator/request?id={call}")
    assert f"Reason: {shown}</p>" in operator.send(_REFUND, note=note).text
    operator.open(f"/operator/account?id={caller.account_id}")
    top_up = {"account": caller.account_id, "unit": _UNIT, "amount": "1", "note": note}
    assert f"Reason: {shown}</p>" in operator.send("/operator/account/top-up", **top_up).text
