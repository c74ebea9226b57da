"""Asking for a receipt: who may, how often, and what others get."""

from datetime import date

import pytest

from tests.support.all_operations import all_operations_caller, ask, good_request
from tests.support.gateway import Gateway
from tests.support.ledger import CREDITS, RUNTIME, new_caller, newest_entry
from tests.support.receipts import ask_receipt, id_of, notes_of, receipt_of
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.ledger.tokens import issue_token
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS

NO_ID = "0" * 26


def test_another_accounts_id_is_answered_like_an_unknown_one(
    served: Gateway, world: Store, today: date
) -> None:
    owner, outsider = all_operations_caller(world), all_operations_caller(world)
    charged = ask(served, COUPON_CLAIMS, owner.token, good_request(COUPON_CLAIMS, today))
    refused = ask(served, COUPON_CLAIMS, owner.token, {})
    # The owner can see both, so it is not for their absence that the outsider cannot.
    for reply in (charged, refused):
        assert receipt_of(served, owner.token, reply)["account_id"] == owner.account_id
    ids = [id_of(charged), id_of(refused), NO_ID, "", "a/b", "%00", "é" * 40, "x" * 4000]
    answers = [ask_receipt(served, outsider.token, each) for each in ids]
    assert {(each.code, each.msg, str(each.data)) for each in answers} == {
        (404, answers[0].msg, "{}")
    }
    names = {tuple(name for name in each.headers if name != "date") for each in answers}
    assert len(names) == 1


@pytest.mark.parametrize("token", [None, "nonsense", "tw_live_" + "a" * 38])
def test_without_a_valid_token_it_is_401(served: Gateway, token: str | None) -> None:
    reply = ask_receipt(served, token, NO_ID)
    operation = served.get(PRODUCT_ANALYSIS.path, token=token)
    assert (reply.code, reply.msg, reply.data) == (401, operation.msg, {})


def test_it_is_asked_with_get(served: Gateway, world: Store) -> None:
    caller = all_operations_caller(world)
    reply = served.get(f"/receipts/{NO_ID}", token=caller.token, method="POST")
    assert reply.code == 404
    assert "takes the method GET" in reply.msg


def test_test_calls_have_receipts_and_a_test_token_sees_no_others(
    served: Gateway, world: Store, today: date
) -> None:
    live = all_operations_caller(world)
    test_token = world.do(
        lambda database: issue_token(database, RUNTIME, live.account_id, kind="test")
    ).text
    failed = ask(served, COUPON_CLAIMS, test_token, {})
    fine = ask(served, COUPON_CLAIMS, test_token, good_request(COUPON_CLAIMS, today))
    for reply, reason in ((failed, "PARAMETER_MISSING"), (fine, "TEST")):
        for token in (test_token, live.token):
            found = receipt_of(served, token, reply)
            assert (found["reason"], found["is_test"], found["amount"]) == (reason, True, 0)
    paid = ask(served, COUPON_CLAIMS, live.token, good_request(COUPON_CLAIMS, today))
    assert receipt_of(served, live.token, paid)["is_test"] is False
    # The receipts above may have used up the limit of this second.
    found = eventually(
        lambda: ask_receipt(served, test_token, id_of(paid)), lambda reply: reply.code != 202
    )
    assert found.code == 404


def test_asking_is_limited_and_free_and_leaves_nothing_behind(
    served: Gateway, world: Store, today: date
) -> None:
    caller = all_operations_caller(world)
    paid = ask(served, COUPON_CLAIMS, caller.token, good_request(COUPON_CLAIMS, today))
    entry = newest_entry(world, caller, CREDITS)
    replies = [ask_receipt(served, caller.token, id_of(paid)) for _ in range(30)]
    assert {reply.code for reply in replies} == {0, 202}
    assert replies[0].headers["ratelimit-policy"] == '"receipts";q=10;w=1'
    refused = next(reply for reply in replies if reply.code == 202)
    assert refused.headers["retry-after"] == "1"
    # It is a limit of its own: the operation can be called meanwhile.
    again = ask(served, COUPON_CLAIMS, caller.token, {})
    receipt_of(served, caller.token, again)
    assert newest_entry(world, caller, CREDITS) == entry
    assert notes_of(world, caller) == 1


@pytest.mark.parametrize("status", ["always_200", "mapped"])
def test_an_unknown_receipt_has_the_status_of_the_setting(own_store: Store, status: str) -> None:
    caller = new_caller(own_store)
    gateway = Gateway(own_store, http_status=status)
    reply = ask_receipt(gateway, caller.token, NO_ID)
    assert (reply.code, reply.status) == (404, 404 if status == "mapped" else 200)
    assert gateway.stop() == 0
