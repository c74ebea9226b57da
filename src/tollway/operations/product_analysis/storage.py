"""Storing products and their figures: a later record of the same thing replaces the earlier one."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec
from sqlalchemy import Table

from tollway.intake.record_fields import fen_of
from tollway.operations.product_analysis.records import (
    DayRecord,
    ProductRecord,
    Record,
    checked_figure,
)
from tollway.operations.product_analysis.schema import product, product_day, product_figure
from tollway.store.database import Transaction
from tollway.store.query import upsert
from tollway.store.versions import figures_changed

_UPSERTS = {table: upsert(table) for table in (product, product_day, product_figure)}


class FigureLoader:
    """The loader of product figures."""

    months = None
    owner_of = None

    def check(self, values: dict[str, object]) -> Record:
        return checked_figure(values)

    async def store(self, transaction: Transaction, records: Sequence[Record]) -> int:
        rows: defaultdict[Table, list[dict[str, object]]] = defaultdict(list)
        for record in records:
            table, row = _row(record)
            rows[table].append(row)
        changed = 0
        for table, its_rows in rows.items():
            changed += await transaction.execute_many(_UPSERTS[table], its_rows)
        if changed:
            await figures_changed(transaction)
        return changed


def _row(record: Record) -> tuple[Table, dict[str, object]]:
    values = msgspec.structs.asdict(record)
    if isinstance(record, ProductRecord):
        return product, values
    values["day"] = int(record.day.strftime("%Y%m%d"))
    if isinstance(record, DayRecord):
        values["payment_fen"] = fen_of(values.pop("payment"))
        return product_day, values
    values["kind"] = type(record).__struct_config__.tag
    return product_figure, values
