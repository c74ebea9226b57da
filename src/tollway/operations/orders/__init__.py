"""Paged order query: the sold orders of a shop, any page of them at the cost of the first."""

from tollway.intake.loading import RecordKind
from tollway.operations.demo_data import DemoPart
from tollway.operations.orders.batch import OrderBatch
from tollway.operations.orders.demo import fill, world_records
from tollway.operations.orders.export import EXPORTS
from tollway.operations.orders.handler import OrdersHandler
from tollway.operations.orders.more_calls import MORE_CALLS
from tollway.operations.orders.operation import ORDERS
from tollway.operations.orders.records import (
    OrderRecord,
    OrderRow,
    ready_order,
    record_of,
    shown_remark,
)
from tollway.operations.orders.schema import shop_order
from tollway.operations.orders.storage import CHUNK_ORDERS, RETAINED_ORDERS, OrderLoader
from tollway.operations.remaking import ReadyRecords
from tollway.operations.subject import Subject
from tollway.store.database import Row
from tollway.store.sealing import Sealer


def _loader(sealer: Sealer | None) -> OrderLoader:
    assert sealer is not None, "receivers are sealed"
    return OrderLoader(sealer)


def _ready(row: Row, sealer: Sealer) -> tuple[str | None, bytes]:
    record = record_of(OrderRow._make(row), sealer)
    return shown_remark(record), ready_order(record)


SUBJECT = Subject(
    operation=ORDERS,
    make_handler=lambda services: OrdersHandler(services.reading, services.zone),
    records=RecordKind(
        name="orders",
        help="Load orders; of two versions of one order, the one updated last stays.",
        make_loader=_loader,
        is_sealed=True,
        is_pushed=True,
        chunk_records=CHUNK_ORDERS,
        batch_type=OrderBatch,
        record_types=(OrderRecord,),
    ),
    ready=ReadyRecords(shop_order, _ready, ("remark", "ready")),
    retained=RETAINED_ORDERS,
    demo=DemoPart(fill, world_records),
    more_calls=(*MORE_CALLS, *EXPORTS),
)
