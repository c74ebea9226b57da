"""Orders that one process arranges and another stores: nothing of them changes on the way."""

import msgspec

from tests.support.orders import START_MS, order
from tollway.operations.orders.batch import OrderBatch
from tollway.operations.orders.records import OrderRow
from tollway.operations.orders.storage import OrderLoader
from tollway.store.sealing import Sealer

LOADER = OrderLoader(Sealer({1: bytes(32)}, 1))


def row(owner: str, sn: str, later_ms: int = 0) -> OrderRow:
    tagged = {"remark": "送到门口", "remark_tag": 3, "remark_tag_name": "急"} if later_ms else {}
    values = order(sn, owner_id=owner, confirm_time=START_MS + later_ms, **tagged)
    return LOADER.check(values, 0)


def sent(batch: OrderBatch) -> OrderBatch:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(batch), type=OrderBatch)


def test_orders_come_in_the_order_of_their_key_as_they_were() -> None:
    rows = [row("b", "1"), row("a", "2"), row("b", "3", 1000), row("a", "1")]
    batch = sent(OrderBatch.of(rows))
    assert batch.is_arranged and len(batch) == 4
    assert batch.owners == [("a", 2), ("b", 2)]
    assert list(batch) == sorted(rows)
    assert [list(map(type, each)) for each in batch] == [
        list(map(type, each)) for each in sorted(rows)
    ]


def test_of_an_order_that_is_there_twice_all_versions_come_as_they_came() -> None:
    rows = [row("b", "1"), row("a", "1"), row("b", "1", 1000)]
    batch = sent(OrderBatch.of(rows))
    assert not batch.is_arranged
    assert list(batch) == rows


def test_numbers_and_places_are_those_of_each_order() -> None:
    batch = OrderBatch.of([row("b", "1"), row("a", "2"), row("a", "1", 1000)])
    batch.number([7, 8, 9])
    assert [(each.order_sn, each.change_no) for each in batch] == [("1", 7), ("2", 8), ("1", 9)]
    assert dict(batch.places()) == {
        "a": [(-START_MS - 1000, 3, "急"), (-START_MS, None, None)],
        "b": [(-START_MS, None, None)],
    }


def test_no_orders_are_a_batch_too() -> None:
    batch = sent(OrderBatch.of([]))
    assert not len(batch) and list(batch) == [] and list(batch.places()) == []
