"""What another node changes holds from the next call on, also before this one is notified.

Here it never is: notifications are switched off.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import pytest

from tests.support.consent import allow, ask, new_asker, new_person
from tests.support.engines import Engine
from tests.support.figures import store_with_figures
from tests.support.gateway import Gateway, Reply, assert_no_hidden_error
from tests.support.ledger import RUNTIME, Caller, calls_left, credits_left, new_caller
from tests.support.stores import Store
from tests.support.waybills import PRICE, issue, new_carrier, new_customer, request
from tollway.consent.grants import revoke_grant
from tollway.ledger.accounts import suspend_account
from tollway.ledger.permissions import (
    Permission,
    add_permission,
    list_permissions,
    revoke_permission,
    set_closed,
)
from tollway.ledger.tokens import revoke_token
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.operations.waybills.more_calls import WAYBILL_BATCH
from tollway.operations.waybills.operation import WAYBILLS
from tollway.store.database import Database

pytestmark = pytest.mark.postgresql


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, today: date, engine: Engine) -> Store:
    made = store_with_figures(tmp_path_factory.mktemp("unheard") / "tollway.db", today)
    made.run("ALTER TABLE version DISABLE TRIGGER version_changed")
    return made


@pytest.fixture(scope="module")
def node(store: Store) -> Iterator[Gateway]:
    with Gateway(store, workers=1, mcp="on") as started:
        yield started


def revoke(store: Store, caller: Caller) -> None:
    store.do(lambda database: revoke_token(database, RUNTIME, caller.token_id))


def suspend(store: Store, caller: Caller) -> None:
    store.do(lambda database: suspend_account(database, RUNTIME, caller.account_id))


def take_permission(store: Store, caller: Caller) -> None:
    async def work(database: Database) -> None:
        for permission in await list_permissions(database, caller.account_id):
            await revoke_permission(database, caller.account_id, permission.operation)

    store.do(work)


End = Callable[[Store, Caller], None]
ENDS: list[tuple[End, str]] = [
    (revoke, "CREDENTIAL_INVALID"),
    (suspend, "ACCOUNT_SUSPENDED"),
    (take_permission, "PERMISSION_MISSING"),
]


def reason(reply: Reply) -> str:
    return reply.headers.get("x-tollway-reason", "SUCCESS")


@pytest.mark.parametrize(("end", "expected"), ENDS)
def test_a_read_is_refused_that_another_node_has_ended(
    store: Store, node: Gateway, question: dict[str, str], end: End, expected: str
) -> None:
    caller = new_caller(store, calls=10)

    def call() -> str:
        return reason(node.get(token=caller.token, query=question))

    assert call() == "SUCCESS"
    end(store, caller)
    assert call() == expected
    assert calls_left(store, caller) == 9


@pytest.mark.parametrize(("end", "expected"), ENDS)
def test_a_waybill_is_refused_that_another_node_has_ended(
    store: Store, node: Gateway, end: End, expected: str
) -> None:
    carrier, customer = new_carrier(store, 3), new_customer(store, credits_=100)
    assert reason(issue(node, customer.token, request(carrier))) == "SUCCESS"
    end(store, customer)
    assert reason(issue(node, customer.token, request(carrier))) == expected
    assert credits_left(store, customer) == 100 - PRICE


def test_each_waybill_of_a_batch_is_refused(store: Store, node: Gateway) -> None:
    carrier, customer = new_carrier(store, 9), new_customer(store, credits_=100)

    def batch() -> list[str]:
        asked = {"waybills": [request(carrier) for _ in range(3)]}
        reply = node.post_json(WAYBILL_BATCH.path, asked, token=customer.token)
        return [each["reason"] for each in reply.data["results"]]

    def close(*, is_closed: bool) -> None:
        store.do(lambda database: set_closed(database, WAYBILLS.name, is_closed=is_closed))

    assert batch() == ["SUCCESS"] * 3
    close(is_closed=True)
    assert batch() == ["OPERATION_CLOSED"] * 3
    close(is_closed=False)
    assert credits_left(store, customer) == 100 - 3 * PRICE


def test_a_consent_that_another_node_has_ended(store: Store, node: Gateway) -> None:
    asker, person = new_asker(store), new_person(store)
    given = allow(store, asker, person)
    assert reason(ask(node, asker, person.id)) == "SUCCESS"
    store.do(lambda database: revoke_grant(database, RUNTIME, given.id))
    left = credits_left(store, asker)
    assert reason(ask(node, asker, person.id)) == "NOT_AUTHORIZED"
    assert credits_left(store, asker) == left


def test_a_call_that_names_no_owner_is_counted_too(store: Store, node: Gateway) -> None:
    asker, person = new_asker(store), new_person(store)
    allow(store, asker, person)
    assert reason(ask(node, asker, person.id)) == "SUCCESS"
    revoke(store, new_caller(store))
    assert reason(ask(node, asker, person.id, platform_user_id=None)) == "PARAMETER_MISSING"
    assert_no_hidden_error(node.log_path)
    revoke(store, asker)
    assert reason(ask(node, asker, person.id, platform_user_id=None)) == "CREDENTIAL_INVALID"


def test_a_repetition_is_refused_too(store: Store, node: Gateway, question: dict[str, str]) -> None:
    caller = new_caller(store, calls=10)

    def call() -> Reply:
        return node.get(token=caller.token, query=question, headers={"Idempotency-Key": "the same"})

    first, again = call(), call()
    assert again.headers["x-replay-of"] == first.headers["x-request-id"]
    # A change that is not about this caller: it is looked up again, and gets its answer.
    new_caller(store)
    revoke(store, new_caller(store))
    assert call().headers["x-replay-of"] == first.headers["x-request-id"]
    revoke(store, caller)
    assert reason(call()) == "CREDENTIAL_INVALID"
    assert calls_left(store, caller) == 9


@pytest.mark.parametrize("kind", ["test", "live"])
def test_what_is_free_is_refused_too(
    store: Store, node: Gateway, question: dict[str, str], kind: str
) -> None:
    caller = new_caller(store, kind=kind)
    live_only: dict[str, Any] = {
        "/account/v1/balance": {},
        f"/receipts/{node.get(token=caller.token, query=question).headers['x-request-id']}": {},
        PRODUCT_ANALYSIS.path: {"query": question, "headers": {"X-Tollway-Dry-Run": "1"}},
    }
    test_too: dict[str, Any] = {PRODUCT_ANALYSIS.path: {"query": question}}

    def reasons() -> set[str]:
        calls = test_too if kind == "test" else live_only
        return {
            reason(node.get(path, token=caller.token, **given)) for path, given in calls.items()
        }

    assert reasons() == {"SUCCESS"}
    revoke(store, caller)
    assert reasons() == {"CREDENTIAL_INVALID"}


def test_a_refusal_says_nothing_of_the_data_to_a_caller_who_was_ended(
    store: Store, node: Gateway, question: dict[str, str]
) -> None:
    caller = new_caller(store, calls=1)
    unknown = {**question, "product_id": "999"}

    def call(query: dict[str, str]) -> str:
        return reason(node.get(token=caller.token, query=query))

    assert call(unknown) == "PRODUCT_UNKNOWN"
    # A change that is not about this caller.
    revoke(store, new_caller(store))
    assert call(unknown) == "PRODUCT_UNKNOWN"
    revoke(store, caller)
    assert call(unknown) == "CREDENTIAL_INVALID"
    assert calls_left(store, caller) == 1


def test_a_limit_that_was_lowered_holds_for_the_next_calls(
    store: Store, node: Gateway, question: dict[str, str]
) -> None:
    caller = new_caller(store, calls=50, rate_limit=100)

    def call(_: int) -> str:
        return reason(node.get(token=caller.token, query=question))

    assert call(0) == "SUCCESS"
    store.do(
        lambda database: add_permission(
            database, caller.account_id, Permission(PRODUCT_ANALYSIS.name, None, 1)
        )
    )
    with ThreadPoolExecutor(20) as threads:
        found = Counter(threads.map(call, range(20)))
    assert found["THROTTLED"] > 0, found
    assert found["SUCCESS"] == 49 - calls_left(store, caller)


def test_a_version_that_a_failover_took_back_does_not_come_again(
    store: Store, node: Gateway, question: dict[str, str]
) -> None:
    """A server that was promoted may lack the last change: the next one must not look like it."""
    caller = new_caller(store, calls=10)
    assert reason(node.get(token=caller.token, query=question)) == "SUCCESS"
    store.run("UPDATE version SET directory = directory - 1")
    revoke(store, caller)
    assert reason(node.get(token=caller.token, query=question)) == "CREDENTIAL_INVALID"
    assert calls_left(store, caller) == 9


def test_figures_that_a_failover_has_lost_are_not_answered(
    store: Store, node: Gateway, question: dict[str, str]
) -> None:
    caller = new_caller(store, calls=10)

    def title(product_id: str = question["product_id"]) -> str:
        query = {**question, "product_id": product_id}
        return node.get(token=caller.token, query=query).data.get("itemName", "")

    def load(version: int, title: str) -> None:
        store.run_all(
            f"UPDATE version SET figures = {version}", f"UPDATE product SET title = '{title}'"
        )

    load(1, "known")
    # The first call of a token reads the versions.
    assert title("999") == ""
    load(2, "lost")
    assert title() == "lost"
    load(1, "known")
    assert title() == "known"


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
def test_an_agent_with_such_a_token_learns_nothing(
    store: Store, node: Gateway, question: dict[str, str], method: str
) -> None:
    caller = new_caller(store, calls=10)
    asked: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method}
    if method == "tools/call":
        asked["params"] = {"name": PRODUCT_ANALYSIS.name, "arguments": question}
    headers = {
        "Authorization": f"Bearer {caller.token}",
        "Accept": "application/json, text/event-stream",
        "X-Tollway-Budget": "5",
        "X-Tollway-Session": method.replace("/", " "),
    }

    def answer() -> str:
        return node.client.post("/mcp", json=asked, headers=headers).text

    sessions = f"SELECT count(*) FROM agent_session WHERE account_id = '{caller.account_id}'"
    revoke(store, new_caller(store))
    assert "Credential invalid" not in answer()
    store.run(f"DELETE FROM agent_session WHERE account_id = '{caller.account_id}'")
    revoke(store, caller)
    assert "Credential invalid" in answer()
    assert store.run(sessions) == [(0,)]


def test_callers_who_were_not_changed_notice_nothing(
    store: Store, node: Gateway, question: dict[str, str]
) -> None:
    callers = [new_caller(store, calls=10) for _ in range(3)]
    for turn in range(3):
        replies = [node.get(token=caller.token, query=question) for caller in callers]
        assert [reason(reply) for reply in replies] == ["SUCCESS"] * 3
        assert [calls_left(store, caller) for caller in callers] == [9 - turn] * 3
        revoke(store, new_caller(store))


def test_this_node_is_really_never_notified(
    store: Store, node: Gateway, question: dict[str, str]
) -> None:
    """The control: a change that does not raise the version is never noticed."""
    caller = new_caller(store)
    assert reason(node.get(token=caller.token, query=question)) == "SUCCESS"
    store.run(f"UPDATE token SET revoked_at_s = 1 WHERE id = '{caller.token_id}'")
    assert reason(node.get(token=caller.token, query=question)) == "SUCCESS"
