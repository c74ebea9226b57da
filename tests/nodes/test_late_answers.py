"""What was read before a change, and arrives after the change was seen, is believed once at most.

The call that asked came before the change, and may be answered so. The next one came after it.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import TypeVar

import pytest

from tests.support.consent import allow, ask, new_asker, new_person
from tests.support.figures import store_with_figures
from tests.support.gateway import Gateway
from tests.support.late_answers import LateAnswers
from tests.support.ledger import RUNTIME, new_caller
from tests.support.stores import Store
from tollway.consent.grants import revoke_grant
from tollway.ledger.token_format import token_hash
from tollway.ledger.tokens import revoke_token
from tollway.operations.product_analysis.records import ProductRecord
from tollway.operations.product_analysis.storage import FigureLoader, row_of
from tollway.store.database import Database, Transaction

pytestmark = pytest.mark.postgresql

T = TypeVar("T")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, today: date, engine: str) -> Store:
    return store_with_figures(tmp_path_factory.mktemp("late") / "tollway.db", today)


@pytest.fixture(scope="module")
def late(store: Store) -> Iterator[LateAnswers]:
    way = LateAnswers(store.url)
    yield way
    way.close()


@pytest.fixture(scope="module")
def node(store: Store, late: LateAnswers) -> Iterator[Gateway]:
    # A call waits for longer than a test may be held up.
    with Gateway(store, database=late.url, call_timeout_s=60, workers=1) as started:
        yield started


def overtaken(
    late: LateAnswers,
    texts: tuple[str | bytes, ...],
    call: Callable[[], T],
    meanwhile: Callable[[], None],
) -> T:
    """What a call answers whose question with these texts was answered before something happened,
    and whose answer arrives only afterwards."""
    with ThreadPoolExecutor(1) as beside:
        with late.held(*texts) as answer:
            called = beside.submit(call)
            answer.wait()
            meanwhile()
            assert not called.done()
        return called.result()


def test_a_revoked_token(
    store: Store, node: Gateway, late: LateAnswers, question: dict[str, str]
) -> None:
    caller = new_caller(store)

    def code() -> int:
        return node.get(token=caller.token, query=question).code

    def revoke() -> None:
        other = new_caller(store)
        store.do(lambda database: revoke_token(database, RUNTIME, caller.token_id))
        # A token that is not known here makes the gateway look for changes.
        assert node.get(token=other.token, query=question).code == 0

    # What is done for all accounts meanwhile, such as summing up usage, names the account too.
    # Charging finds out in time.
    assert overtaken(late, (token_hash(caller.token),), code, revoke) == 401
    assert code() == 401


def test_a_revoked_consent(store: Store, node: Gateway, late: LateAnswers) -> None:
    asker, person = new_asker(store), new_person(store)
    given = allow(store, asker, person)

    def code() -> int:
        return ask(node, asker, person.id).code

    def revoke() -> None:
        other = new_asker(store)
        store.do(lambda database: revoke_grant(database, RUNTIME, given.id))
        assert ask(node, other, person.id).code == 302

    overtaken(late, (asker.account_id, str(person.id)), code, revoke)
    assert code() == 302


def test_old_figures(
    store: Store, node: Gateway, late: LateAnswers, question: dict[str, str]
) -> None:
    caller = new_caller(store)
    product = question["product_id"]

    def load(title: str) -> None:
        record = ProductRecord(product_id=product, title=title, shop_name="店")

        async def work(database: Database) -> int:
            async def put(transaction: Transaction) -> int:
                return await FigureLoader().store(transaction, [row_of(record)])

            return await database.write(put)

        assert store.do(work) == 1

    def title(token: str = caller.token) -> str:
        return node.get(token=token, query=question).data["itemName"]

    def change() -> None:
        other = new_caller(store)
        load("新标题")
        assert title(other.token) == "新标题"

    load("旧标题")
    assert overtaken(late, (product,), title, change) == "旧标题"
    assert title() == "新标题"
