"""Every code that a call can be answered with, through real HTTP; no failure moves a balance."""

from collections.abc import Iterator
from datetime import date, timedelta

import pytest

from tests.support.changes import assert_seen
from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import RUNTIME, Caller, calls_left, new_caller
from tests.support.rates import at_once
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.ledger.accounts import close_account
from tollway.ledger.permissions import set_closed
from tollway.ledger.tokens import revoke_token
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS

NAME = PRODUCT_ANALYSIS.name


@pytest.fixture
def unpaid(store: Store, caller: Caller) -> Iterator[Caller]:
    """A caller whose balance must be the same after the test."""
    before = calls_left(store, caller)
    yield caller
    assert calls_left(store, caller) == before


def test_0_success_takes_one_call(
    gateway: Gateway, store: Store, caller: Caller, question: dict[str, str]
) -> None:
    before = calls_left(store, caller)
    reply = gateway.get(token=caller.token, query=question)
    assert (reply.code, reply.status, reply.msg) == (0, 200, "Success")
    assert reply.data["itemId"] == question["product_id"]
    assert "withholding_money" not in reply.data
    assert calls_left(store, caller) == before - 1


@pytest.mark.parametrize("left_out", ["product_id", "query_date"])
def test_100_parameter_missing(
    gateway: Gateway, unpaid: Caller, question: dict[str, str], left_out: str
) -> None:
    query = {name: value for name, value in question.items() if name != left_out}
    reply = gateway.get(token=unpaid.token, query=query)
    assert (reply.code, reply.data) == (100, {})
    assert left_out in reply.msg and "missing" in reply.msg


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("query_date", "2026-02-30", "not a date"),
        ("query_date", "20260101", "another form"),
        ("query_date", "2026-1-1", "another form"),
        ("query_date", "\uff12026-01-01", "another form"),
        ("product_id", "x" * 65, "65 characters"),
        ("product_id", "a\0b", "NUL"),
    ],
)
def test_100_parameter_invalid(
    gateway: Gateway,
    unpaid: Caller,
    question: dict[str, str],
    field: str,
    value: str,
    problem: str,
) -> None:
    reply = gateway.get(token=unpaid.token, query={**question, field: value})
    assert (reply.code, reply.data) == (100, {})
    assert field in reply.msg and problem in reply.msg


def test_100_parameter_repeated_with_another_value(
    gateway: Gateway, unpaid: Caller, question: dict[str, str]
) -> None:
    day = question["query_date"]
    reply = gateway.get(token=unpaid.token, query=f"product_id=1&product_id=2&query_date={day}")
    assert reply.code == 100
    assert "product_id" in reply.msg and "more than once" in reply.msg


def test_a_parameter_repeated_with_the_same_value_is_taken_once(
    gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    product, day = question["product_id"], question["query_date"]
    query = f"product_id={product}&query_date={day}&product_id={product}&unknown=1"
    assert gateway.get(token=caller.token, query=query).code == 0


def test_100_parameter_names_are_case_sensitive(
    gateway: Gateway, unpaid: Caller, question: dict[str, str]
) -> None:
    query = {"Product_id": question["product_id"], "query_date": question["query_date"]}
    assert gateway.get(token=unpaid.token, query=query).code == 100


@pytest.mark.parametrize(
    ("query", "problem"),
    [("product_id=%zz", "%"), ("product_id=%ff", "UTF-8"), ("a=1&" * 101, "100 parameters")],
)
def test_100_query_unreadable(gateway: Gateway, unpaid: Caller, query: str, problem: str) -> None:
    reply = gateway.get(token=unpaid.token, query=query)
    assert reply.code == 100
    assert problem in reply.msg


def test_100_product_unknown(gateway: Gateway, unpaid: Caller, question: dict[str, str]) -> None:
    reply = gateway.get(token=unpaid.token, query={**question, "product_id": "unknown"})
    assert reply.code == 100
    assert "product_id" in reply.msg


def test_100_product_without_data_that_day(
    gateway: Gateway, unpaid: Caller, question: dict[str, str]
) -> None:
    reply = gateway.get(token=unpaid.token, query={**question, "query_date": "2001-01-01"})
    assert reply.code == 100
    assert "query_date" in reply.msg and "no data" in reply.msg


def test_100_date_in_future(
    gateway: Gateway, unpaid: Caller, question: dict[str, str], today: date
) -> None:
    later = (today + timedelta(days=1)).isoformat()
    reply = gateway.get(token=unpaid.token, query={**question, "query_date": later})
    assert reply.code == 100
    assert "later than today" in reply.msg


def test_101_timed_out_while_another_writer_holds_the_database(
    own_store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(own_store)
    gateway = Gateway(own_store, call_timeout_s=1)
    with own_store.held():
        reply = gateway.get(token=caller.token, query=question)
        assert (reply.code, reply.data) == (101, {})
    assert calls_left(own_store, caller) == 100
    # On a busy machine a second may be too short for a call that nothing holds up.
    eventually(lambda: gateway.get(token=caller.token, query=question).code, lambda code: code == 0)
    assert calls_left(own_store, caller) == 99
    gateway.stop()


def test_200_an_unexpected_error_is_not_shown(own_store: Store, question: dict[str, str]) -> None:
    caller = new_caller(own_store)
    gateway = Gateway(own_store)
    own_store.run("DROP TABLE product_day_parts")
    reply = gateway.get(token=caller.token, query=question)
    assert (reply.code, reply.data) == (200, {})
    assert "product_day_parts" not in reply.msg and "SQL" not in reply.msg
    request_id = reply.headers["x-request-id"]
    # A thread of its own writes the log.
    eventually(gateway.log, lambda text: request_id in text and "product_day_parts" in text)
    assert calls_left(own_store, caller) == 100
    gateway.stop()


def test_202_throttled_with_retry_after(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller, replies = at_once(
        lambda: new_caller(store, rate_limit=1),
        lambda caller: [gateway.get(token=caller.token, query=question) for _ in range(2)],
    )
    assert [reply.code for reply in replies] == [0, 202]
    assert replies[1].headers["retry-after"] == "1"
    assert replies[1].data == {}
    assert calls_left(store, caller) == 99


def test_203_operation_closed(own_store: Store, question: dict[str, str]) -> None:
    caller = new_caller(own_store)
    gateway = Gateway(own_store)
    own_store.do(lambda database: set_closed(database, NAME, is_closed=True))
    reply = gateway.get(token=caller.token, query=question)
    assert (reply.code, reply.data) == (203, {})
    own_store.do(lambda database: set_closed(database, NAME, is_closed=False))
    assert calls_left(own_store, caller) == 100
    assert_seen(own_store, lambda: gateway.get(token=caller.token, query=question).code, 0)
    gateway.stop()


def test_204_permission_missing(gateway: Gateway, store: Store, question: dict[str, str]) -> None:
    caller = new_caller(store, granted=False)
    reply = gateway.get(token=caller.token, query=question)
    assert (reply.code, reply.data) == (204, {})
    assert "permission" in reply.msg.lower()
    assert calls_left(store, caller) == 100


def test_204_calls_used_up(gateway: Gateway, store: Store, question: dict[str, str]) -> None:
    caller = new_caller(store, calls=1, price=2)
    reply = gateway.get(token=caller.token, query=question)
    assert (reply.code, reply.data) == (204, {})
    assert "1 left" in reply.msg and "takes 2" in reply.msg
    assert calls_left(store, caller) == 1


def test_401_is_the_same_for_every_bad_credential(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    revoked, closed = new_caller(store), new_caller(store)
    expired = new_caller(store, lifetime_s=60)
    store.run(f"UPDATE token SET expires_at_s = issued_at_s WHERE id = '{expired.token_id}'")
    store.do(lambda database: revoke_token(database, RUNTIME, revoked.token_id))
    store.do(lambda database: close_account(database, RUNTIME, closed.account_id))
    unknown = "tw_live_" + "0" * 32
    last = revoked.token[-1]
    mistyped = revoked.token[:-1] + ("a" if last != "a" else "b")
    headers = [
        {},
        {"Authorization": ""},
        {"Authorization": revoked.token},
        {"Authorization": f"Basic {revoked.token}"},
        {"Authorization": f"Bearer  {revoked.token}"},
        {"Authorization": f"Bearer {unknown}000000"},
        {"Authorization": f"Bearer {mistyped}"},
        {"Authorization": f"Bearer {revoked.token}"},
        {"Authorization": f"Bearer {closed.token}"},
        {"Authorization": f"Bearer {expired.token}"},
    ]
    replies = [gateway.get(query=question, headers=each) for each in headers]
    assert {reply.code for reply in replies} == {401}
    assert len({reply.msg for reply in replies}) == 1
    assert all("ratelimit" not in reply.headers for reply in replies)


def test_the_scheme_is_case_insensitive(
    gateway: Gateway, caller: Caller, question: dict[str, str]
) -> None:
    headers = {"Authorization": f"bEARER {caller.token}"}
    assert gateway.get(query=question, headers=headers).code == 0


@pytest.mark.parametrize(
    "path",
    [
        "/papi/tool/accounts/goods-analysis/",
        "//papi/tool/accounts/goods-analysis",
        "/papi/tool/accounts%2fgoods-analysis",
        "/papi/tool/accounts/%67oods-analysis",
        "/papi/tool/./accounts/goods-analysis;x=1",
        "/PAPI/tool/accounts/goods-analysis",
    ],
)
def test_404_path_unknown(
    gateway: Gateway, unpaid: Caller, question: dict[str, str], path: str
) -> None:
    reply = gateway.get(path, token=unpaid.token, query=question)
    assert (reply.code, reply.data) == (404, {})
    assert "path" in reply.msg


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
def test_404_method_wrong(
    gateway: Gateway, unpaid: Caller, question: dict[str, str], method: str
) -> None:
    reply = gateway.get(ANALYSIS, token=unpaid.token, query=question, method=method)
    assert (reply.code, reply.data) == (404, {})
    assert "GET" in reply.msg


def test_head_is_answered_without_a_body(gateway: Gateway) -> None:
    response = gateway.client.head(ANALYSIS)
    assert (response.status_code, response.content) == (200, b"")
