"""How often a warm call asks the shared database: to read once at the most, and to charge once."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from time import monotonic
from typing import Any

import pytest

from tests.support.all_operations import all_operations_caller, ask, good_request, small_world
from tests.support.gateway import Gateway
from tests.support.ledger import Caller
from tests.support.statements import Asked, TellingServer
from tests.support.stores import Store
from tollway.contract.operation import Operation
from tollway.ledger.entries import list_balances
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.orders.operation import ORDERS
from tollway.operations.product_analysis.demo import fill_figures
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.operations.promotion_material.operation import PROMOTION_MATERIAL
from tollway.operations.waybills.operation import WAYBILLS

pytestmark = pytest.mark.postgresql

DAYS = 12
DEADLINE_S = 20
# Something in the background may read meanwhile, or take a call's connection, and the call then
# prepares its statement on another one. So one call alone proves nothing, and on a busy machine
# a few do not either; it is asked again until a call costs what it should.
CALLS = 10


@pytest.fixture(scope="module")
def server() -> Iterator[TellingServer]:
    made = TellingServer()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def store(
    server: TellingServer, tmp_path_factory: pytest.TempPathFactory, today: date, engine: str
) -> Store:
    made = Store(tmp_path_factory.mktemp("trips") / "tollway.db", server.url)
    small_world(made, today)
    made.do(lambda database: fill_figures(database, products=1, days=DAYS, last=today))
    return made


@pytest.fixture(scope="module")
def gateway(store: Store) -> Iterator[Gateway]:
    with Gateway(store) as started:
        yield started


@pytest.fixture(scope="module")
def token(store: Store) -> str:
    caller: Caller = all_operations_caller(store, calls=10_000, rate_limit=1000)
    return caller.token


def cheapest(
    server: TellingServer,
    gateway: Gateway,
    operation: Operation,
    token: str,
    questions: Sequence[dict[str, Any]],
    reads: int = 1,
    **how: Any,
) -> Asked:
    """What the call asked that asked the least, and no more calls once one reads so little."""
    found = []
    for number, sent in enumerate(questions):
        headers = {name: f"{value}-{number}" for name, value in how.items()}
        server.asked()
        reply = ask(gateway, operation, token, sent, headers)
        assert reply.code == 0, reply.msg
        found.append(server.asked())
        if len(found[-1].reads) <= reads and len(found[-1].others) <= 1:
            break
    return min(found, key=lambda asked: (len(asked.reads), len(asked.others)))


def the_read(asked: Asked) -> str:
    """The only one, of a call that charged by one statement too."""
    assert len(asked.others) == 1
    (read,) = asked.reads
    return read


def product_days(first: int, today: date) -> list[dict[str, Any]]:
    """A question for each of a few days, so that no answer is kept ready yet."""
    sent = good_request(PRODUCT_ANALYSIS, today)
    days = [today - timedelta(days=back) for back in range(first, first + CALLS)]
    return [{**sent, "query_date": day.isoformat()} for day in days]


def claim_questions(today: date) -> dict[str, dict[str, Any]]:
    sent = good_request(COUPON_CLAIMS, today)
    start_s, end_s = int(sent["startTime"]), int(sent["endTime"])
    return {
        "first page": {},
        "page behind the last": {"page": "999"},
        "window that cuts": {"startTime": str(start_s + 7), "endTime": str(end_s - 7)},
        "window within an hour": {"startTime": str(start_s + 7), "endTime": str(start_s + 70)},
    }


def order_questions(today: date) -> dict[str, dict[str, Any]]:
    window = {
        "start_time": f"{today - timedelta(days=2)} 00:20:34",
        "end_time": f"{today - timedelta(days=1)} 07:50:01",
    }
    return {
        "first page": {},
        "second page": {"page": "1", "pageSize": "3"},
        "page behind the last": {"page": "999"},
        "window": window,
        "tag": {"remarkTag": "2"},
        "tag name": {"remarkTagName": "加急"},
        "tag, name and window": {**window, "remarkTag": "2", "remarkTagName": "加急"},
        "remark": {"remark": "发"},
        "remark, behind the last": {"remark": "发", "page": "999"},
    }


@pytest.fixture(scope="module")
def warm(server: TellingServer, gateway: Gateway, token: str, today: date) -> str:
    """A token that the gateway knows, with its account, its consents and its balances."""
    for operation in (PRODUCT_ANALYSIS, COUPON_CLAIMS, PROMOTION_MATERIAL, ORDERS):
        assert ask(gateway, operation, token, good_request(operation, today)).code == 0
    # The first calls still look for changes, until the gateway is notified.
    known = [good_request(PRODUCT_ANALYSIS, today)]
    deadline_s = monotonic() + DEADLINE_S
    while cheapest(server, gateway, PRODUCT_ANALYSIS, token, known).reads:
        assert monotonic() < deadline_s, "a warm call with an answer kept ready reads something"
    return token


def test_a_new_answer_of_product_analysis_is_one_read_and_a_kept_one_none(
    server: TellingServer, gateway: Gateway, warm: str, today: date
) -> None:
    new = product_days(1, today)
    asked = cheapest(server, gateway, PRODUCT_ANALYSIS, warm, new)
    assert "product_day_parts" in the_read(asked)
    assert cheapest(server, gateway, PRODUCT_ANALYSIS, warm, new[:1] * CALLS, 0).reads == []


@pytest.mark.parametrize("case", claim_questions(date.min + timedelta(days=3)))
def test_a_page_of_claims_is_one_read(
    server: TellingServer, gateway: Gateway, warm: str, today: date, case: str
) -> None:
    sent = good_request(COUPON_CLAIMS, today) | claim_questions(today)[case]
    asked = cheapest(server, gateway, COUPON_CLAIMS, warm, [sent] * CALLS)
    assert "coupon_claim" in the_read(asked)


def test_a_page_of_promotion_material_is_one_read(
    server: TellingServer, gateway: Gateway, warm: str, today: date
) -> None:
    sent = good_request(PROMOTION_MATERIAL, today)
    asked = cheapest(server, gateway, PROMOTION_MATERIAL, warm, [sent] * CALLS)
    assert "promotion_material" in the_read(asked)


@pytest.mark.parametrize("case", order_questions(date.min + timedelta(days=3)))
def test_a_page_of_orders_is_one_read(
    server: TellingServer, gateway: Gateway, warm: str, today: date, case: str
) -> None:
    sent = good_request(ORDERS, today) | order_questions(today)[case]
    asked = cheapest(server, gateway, ORDERS, warm, [sent] * CALLS)
    assert "shop_order" in the_read(asked)


def test_a_waybill_of_a_known_caller_is_no_read(
    server: TellingServer, gateway: Gateway, warm: str, today: date
) -> None:
    sent = good_request(WAYBILLS, today)
    new = [{**sent, "order_sn": f"known-{number:04}"} for number in range(CALLS)]
    assert cheapest(server, gateway, WAYBILLS, warm, new, 0).reads == []


def test_a_key_is_looked_for_by_one_more_read_which_is_counted(
    server: TellingServer, gateway: Gateway, warm: str, today: date
) -> None:
    sent = good_request(ORDERS, today)
    key = {"Idempotency-Key": "trips"}
    asked = cheapest(server, gateway, ORDERS, warm, [sent] * CALLS, reads=2, **key)
    assert ["shop_order" in read for read in asked.reads] == [False, True]
    with pytest.raises(ValueError):
        the_read(asked)


def test_a_read_of_another_client_would_be_counted(
    server: TellingServer, store: Store, warm: str
) -> None:
    server.asked()
    store.do(lambda database: list_balances(database, "unknown"))
    assert len(server.asked().reads) >= 1
