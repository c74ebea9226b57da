"""What an operator changes beside the running server is seen on the next call."""

from typing import Any

import msgspec

from tests.support import forks
from tests.support.changes import assert_seen
from tests.support.gateway import Gateway
from tests.support.ledger import CALLS, RUNTIME, Caller, new_caller
from tests.support.stores import Store
from tollway.ledger.accounts import close_account, resume_account, suspend_account
from tollway.ledger.entries import top_up
from tollway.ledger.permissions import Permission, add_permission, revoke_permission
from tollway.ledger.tokens import list_tokens, revoke_token
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.operations.product_analysis.records import ProductRecord
from tollway.operations.product_analysis.storage import FigureLoader, row_of
from tollway.store.database import Database, Transaction

NAME = PRODUCT_ANALYSIS.name


def test_a_revoked_token_is_refused(
    gateway: Gateway, store: Store, caller: Caller, question: dict[str, str]
) -> None:
    assert gateway.get(token=caller.token, query=question).code == 0
    store.do(lambda database: revoke_token(database, RUNTIME, caller.token_id))
    assert_seen(store, lambda: gateway.get(token=caller.token, query=question).code, 401)


def test_what_the_command_line_does_is_seen_on_the_next_call(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store, calls=1)

    def tollway(*arguments: str) -> None:
        forks.run("tollway", *arguments, "--database", store.url).check_returncode()

    def code() -> int:
        return gateway.get(token=caller.token, query=question).code

    assert [code(), code()] == [0, 204]
    tollway("credit", "add", caller.account_id, "5", "--calls", NAME)
    assert_seen(store, code, 0)
    tollway("token", "revoke", caller.token_id)
    assert_seen(store, code, 401)


def test_a_closed_account_is_refused(
    gateway: Gateway, store: Store, caller: Caller, question: dict[str, str]
) -> None:
    assert gateway.get(token=caller.token, query=question).code == 0
    store.do(lambda database: close_account(database, RUNTIME, caller.account_id))
    assert_seen(store, lambda: gateway.get(token=caller.token, query=question).code, 401)


def test_a_suspended_account_is_refused_until_it_is_resumed(
    gateway: Gateway, store: Store, caller: Caller, question: dict[str, str]
) -> None:
    def reason() -> str | None:
        return gateway.get(token=caller.token, query=question).headers.get("x-tollway-reason")

    assert reason() is None
    store.do(lambda database: suspend_account(database, RUNTIME, caller.account_id))
    assert_seen(store, reason, "ACCOUNT_SUSPENDED")
    # Its own figures stay readable, and it can be topped up meanwhile.
    balance = gateway.get("/account/v1/balance", token=caller.token)
    assert balance.code == 0 and not any(each["is_open"] for each in balance.data["operations"])
    store.do(lambda database: top_up(database, RUNTIME, caller.account_id, CALLS, 1))
    store.do(lambda database: resume_account(database, RUNTIME, caller.account_id))
    assert_seen(store, reason, None)


def test_a_top_up_is_seen(gateway: Gateway, store: Store, question: dict[str, str]) -> None:
    caller = new_caller(store, calls=1, rate_limit=1_000_000)

    def code() -> int:
        return gateway.get(token=caller.token, query=question).code

    assert [code(), code()] == [0, 204]
    store.do(lambda database: top_up(database, RUNTIME, caller.account_id, CALLS, 1))
    assert_seen(store, code, 0)
    assert code() == 204


def test_a_correction_is_seen(gateway: Gateway, store: Store, question: dict[str, str]) -> None:
    caller = new_caller(store, calls=5)
    assert gateway.get(token=caller.token, query=question).code == 0
    store.do(lambda database: top_up(database, RUNTIME, caller.account_id, CALLS, -4))
    assert_seen(store, lambda: gateway.get(token=caller.token, query=question).code, 204)


def test_a_grant_and_its_end_are_seen(
    gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store, granted=False)

    def answered() -> tuple[int, str]:
        reply = gateway.get(token=caller.token, query=question)
        return reply.code, reply.headers["ratelimit-policy"]

    without = (204, f'"{NAME}";q=10;w=1')
    assert answered() == without
    store.do(
        lambda database: add_permission(database, caller.account_id, Permission(NAME, None, 3))
    )
    assert_seen(store, answered, (0, f'"{NAME}";q=3;w=1'))
    store.do(lambda database: revoke_permission(database, caller.account_id, NAME))
    assert_seen(store, answered, without)


def test_new_figures_are_seen(
    gateway: Gateway, store: Store, caller: Caller, question: dict[str, str]
) -> None:
    def figures() -> dict[str, Any]:
        return gateway.get(token=caller.token, query=question).data

    before = figures()
    renamed = ProductRecord(
        product_id=question["product_id"], title="新标题", shop_name=before["shopName"]
    )

    async def load(database: Database) -> int:
        async def work(transaction: Transaction) -> int:
            return await FigureLoader().store(transaction, [row_of(renamed)])

        return await database.write(work)

    assert store.do(load) == 1
    assert_seen(store, lambda: figures().get("itemName"), "新标题")
    old = msgspec.structs.replace(renamed, title=before["itemName"], picture_url=before["pic"])

    async def restore(database: Database) -> int:
        async def work(transaction: Transaction) -> int:
            return await FigureLoader().store(transaction, [row_of(old)])

        return await database.write(work)

    assert store.do(restore) == 1
    assert_seen(store, figures, before)


def test_when_a_token_was_used_is_written_down(own_store: Store, question: dict[str, str]) -> None:
    caller = new_caller(own_store)
    gateway = Gateway(own_store)
    assert gateway.get(token=caller.token, query=question).code == 0
    assert gateway.stop() == 0
    (token,) = own_store.do(lambda database: list_tokens(database, caller.account_id))
    assert token.last_used_at_s is not None
