"""Ready records: they are the answer without what is each call's own, and can be made again."""

from datetime import date
from typing import Any

import msgspec
import pytest

from tests.support.all_operations import all_operations_caller, ask, good_request, small_world
from tests.support.gateway import Gateway
from tests.support.orders import sealer_of
from tests.support.stores import Store
from tollway.operations.catalogue import BY_NAME, SUBJECTS
from tollway.operations.remaking import Remade, remake
from tollway.operations.subject import Subject
from tollway.store.database import Database

READY = [each for each in SUBJECTS if each.ready is not None]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, today: date, engine: str) -> Store:
    made = Store(tmp_path_factory.mktemp("ready") / "tollway.db")
    small_world(made, today)
    return made


def remade(store: Store, subject: Subject) -> Remade:
    async def work(database: Database) -> Remade:
        assert subject.ready is not None
        return await remake(database, sealer_of(store), subject.ready)

    return store.do(work)


def ready_of(store: Store, subject: Subject) -> list[bytes]:
    assert subject.ready is not None
    return [bytes(row[0]) for row in store.run(f"SELECT ready FROM {subject.ready.table.name}")]


@pytest.mark.parametrize("subject", READY, ids=lambda each: each.operation.name)
def test_made_again_from_the_originals_ready_records_are_the_same(
    world: Store, subject: Subject
) -> None:
    before = ready_of(world, subject)
    assert before
    assert remade(world, subject) == Remade(len(before), 0)


@pytest.mark.parametrize("subject", READY, ids=lambda each: each.operation.name)
def test_records_that_were_made_by_other_rules_are_replaced_beside_the_traffic(
    world: Store, subject: Subject, today: date
) -> None:
    operation, caller = subject.operation, all_operations_caller(world)
    before = ready_of(world, subject)
    assert subject.ready is not None
    gateway = Gateway(world)
    try:
        asked = good_request(operation, today)
        right = ask(gateway, operation, caller.token, asked).data
        changed = ", ".join(f"{name} = substr({name}, 1, 5)" for name in subject.ready.columns)
        world.run(f"UPDATE {subject.ready.table.name} SET {changed}")
        assert remade(world, subject) == Remade(len(before), len(before))
        assert sorted(ready_of(world, subject)) == sorted(before)
        assert ask(gateway, operation, caller.token, asked).data == right
    finally:
        gateway.stop()


@pytest.mark.parametrize("name", ["orders", "coupon_claims", "promotion_material"])
def test_an_answer_of_joined_records_is_of_the_response_type(
    world: Store, name: str, today: date
) -> None:
    operation, caller = BY_NAME[name], all_operations_caller(world)
    gateway = Gateway(world)
    try:
        data: Any = ask(gateway, operation, caller.token, good_request(operation, today)).data
    finally:
        gateway.stop()
    # Of exactly these fields, in this order.
    typed = msgspec.convert(data, operation.response_type)
    assert msgspec.to_builtins(typed) == data
    assert msgspec.json.encode(typed) == msgspec.json.encode(data)
