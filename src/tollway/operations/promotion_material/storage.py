"""Storing promotion material: a later record of the same material replaces the earlier one."""

from collections.abc import Sequence
from operator import attrgetter

import msgspec

from tollway.intake.loading import Loader
from tollway.operations.promotion_material.records import (
    BenefitRecord,
    ItemRecord,
    MaterialRecord,
    checked_material,
    ready_material,
)
from tollway.operations.promotion_material.schema import promotion_material
from tollway.store.cache_versions import material_changed
from tollway.store.database import Row, Transaction
from tollway.store.query import upsert

_UPSERT = upsert(promotion_material)


class MaterialLoader(Loader):
    def check(self, values: dict[str, object], _received_s: int) -> MaterialRecord:
        return checked_material(values)

    async def store(self, transaction: Transaction, records: Sequence[MaterialRecord]) -> int:
        # A fixed lock order prevents deadlocks.
        ordered = sorted(records, key=attrgetter("promotion_id", "id"))
        changed = await transaction.execute_many(_UPSERT, map(_row, ordered))
        if changed:
            await material_changed(transaction)
        return changed


def _row(record: MaterialRecord) -> dict[str, object]:
    row = msgspec.structs.asdict(record)
    row["benefits"] = msgspec.json.encode(record.benefits).decode()
    row["items"] = msgspec.json.encode(record.items).decode()
    row["ready"] = ready_material(record)
    return row


_benefits = msgspec.json.Decoder(list[BenefitRecord])
_items = msgspec.json.Decoder(list[ItemRecord])


def record_of(row: Row) -> MaterialRecord:
    """The record from which a row was made."""
    values = dict(zip(promotion_material.c.keys(), row, strict=True))
    del values["ready"]
    values["benefits"] = _benefits.decode(values["benefits"])
    values["items"] = _items.decode(values["items"])
    return MaterialRecord(**values)
