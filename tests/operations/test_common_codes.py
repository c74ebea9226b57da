"""The codes that every operation answers, asked of each of them through real HTTP."""

from collections.abc import Iterator
from datetime import date

import pytest

from tests.support.all_operations import all_operations_caller, ask, good_request, small_world
from tests.support.gateway import Gateway
from tests.support.ledger import amount_left
from tests.support.rates import at_once
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.contract.operation import Operation
from tollway.ledger.permissions import set_closed
from tollway.operations.catalogue import OPERATIONS

each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
# A table without which the operation cannot be answered.
NEEDED = {
    "product_analysis": "product_day_parts",
    "coupon_claims": "coupon_claim",
    "promotion_material": "promotion_material",
    "waybills": "waybill",
    "orders": "shop_order",
}


@pytest.fixture(scope="module")
def served(world: Store) -> Iterator[Gateway]:
    with Gateway(world) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def impatient(
    tmp_path_factory: pytest.TempPathFactory, today: date, engine: str
) -> Iterator[Gateway]:
    """For calls that shall time out, with a world of its own: a file has one gateway only."""
    store = small_world(Store(tmp_path_factory.mktemp("impatient") / "tollway.db"), today)
    with Gateway(store, call_timeout_s=1) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def unasked(
    tmp_path_factory: pytest.TempPathFactory, today: date, engine: str
) -> Iterator[Gateway]:
    """One that remembers no answer."""
    store = small_world(Store(tmp_path_factory.mktemp("unasked") / "tollway.db"), today)
    with Gateway(store) as gateway:
        yield gateway


@each_operation
def test_0_is_charged_at_its_price(
    served: Gateway, world: Store, today: date, operation: Operation
) -> None:
    caller = all_operations_caller(world)
    before = amount_left(world, caller, operation.balance_unit)
    reply = ask(served, operation, caller.token, good_request(operation, today))
    assert reply.code == 0
    after = amount_left(world, caller, operation.balance_unit)
    assert before - after == operation.default_price
    assert reply.data.get("withholding_money", 1) == operation.default_price


@each_operation
def test_100_a_missing_parameter(served: Gateway, world: Store, operation: Operation) -> None:
    reply = ask(served, operation, all_operations_caller(world).token, {"unknown": "1"})
    assert (reply.code, reply.data) == (100, {})
    assert "missing" in reply.msg


@each_operation
def test_101_while_another_writer_holds_the_database(
    impatient: Gateway, today: date, operation: Operation
) -> None:
    world = impatient.store
    caller = all_operations_caller(world)
    sent = good_request(operation, today)
    before = amount_left(world, caller, operation.balance_unit)
    with world.held():
        reply = ask(impatient, operation, caller.token, sent)
    assert (reply.code, reply.data) == (101, {})
    assert amount_left(world, caller, operation.balance_unit) == before
    # On a busy machine a second may be too short for a call that is not blocked.
    eventually(lambda: ask(impatient, operation, caller.token, sent).code, lambda code: code == 0)


@each_operation
def test_202_throttled(served: Gateway, world: Store, today: date, operation: Operation) -> None:
    sent = good_request(operation, today)
    _, codes = at_once(
        lambda: all_operations_caller(world, rate_limit=1),
        lambda caller: [ask(served, operation, caller.token, sent).code for _ in range(2)],
    )
    assert codes == [0, 202]


@each_operation
def test_203_closed(served: Gateway, world: Store, today: date, operation: Operation) -> None:
    caller = all_operations_caller(world)
    world.do(lambda database: set_closed(database, operation.name, is_closed=True))
    reply = ask(served, operation, caller.token, good_request(operation, today))
    world.do(lambda database: set_closed(database, operation.name, is_closed=False))
    assert (reply.code, reply.data) == (203, {})


@each_operation
def test_204_twice(served: Gateway, world: Store, today: date, operation: Operation) -> None:
    sent = good_request(operation, today)
    forbidden = ask(served, operation, all_operations_caller(world, granted=False).token, sent)
    spent = ask(served, operation, all_operations_caller(world, calls=0, credits_=0).token, sent)
    assert (forbidden.code, spent.code) == (204, 204)
    assert "permission" in forbidden.msg and "0 left" in spent.msg


@each_operation
def test_401_and_404(served: Gateway, today: date, operation: Operation) -> None:
    sent = good_request(operation, today)
    assert ask(served, operation, None, sent).code == 401
    assert ask(served, operation, "tw_live_nonsense", sent).code == 401
    reply = served.get(operation.path, method="DELETE")
    assert reply.code == 404 and operation.method in reply.msg


@each_operation
def test_200_tells_nothing_of_what_went_wrong(
    unasked: Gateway, today: date, operation: Operation
) -> None:
    world = unasked.store
    caller = all_operations_caller(world)
    table = NEEDED[operation.name]
    world.run(f"ALTER TABLE {table} RENAME TO away")
    try:
        reply = ask(unasked, operation, caller.token, good_request(operation, today))
    finally:
        world.run(f"ALTER TABLE away RENAME TO {table}")
    assert (reply.code, reply.data) == (200, {})
    assert table not in reply.msg
    before = 100 if operation.balance_unit.startswith("calls") else 1000
    assert amount_left(world, caller, operation.balance_unit) == before
