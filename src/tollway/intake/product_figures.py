"""Product figures: the records of such a file, and where they are stored.

The column `kind` says what a record is: `product` (title, picture, shop), `day` (a product's totals
of one day), or `source`, `keyword`, `search` (the part of one traffic source, keyword or search
term in them). A later record of the same thing replaces the earlier one.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from decimal import Decimal

import msgspec
from sqlalchemy import Table

from tollway.intake.values import Count, Id, Name, fen_of
from tollway.store.database import Transaction
from tollway.store.schema import product, product_day, product_figure
from tollway.store.upsert import upsert
from tollway.store.versions import figures_changed


class ProductRecord(msgspec.Struct, frozen=True, tag_field="kind", tag="product"):
    product_id: Id
    title: Name
    shop_name: Name
    picture_url: str = ""


class DayRecord(msgspec.Struct, frozen=True, tag_field="kind", tag="day"):
    product_id: Id
    day: date
    visitors: Count
    buyers: Count
    payment: Decimal
    collections: Count = 0
    pieces_paid: Count = 0
    pieces_carted: Count = 0


class SourceRecord(msgspec.Struct, frozen=True, tag_field="kind", tag="source"):
    product_id: Id
    day: date
    name: Name
    visitors: Count
    buyers: Count
    pieces_ordered: Count = 0
    page_views: Count = 0


class KeywordRecord(SourceRecord, frozen=True, tag_field="kind", tag="keyword"):
    pass


class SearchRecord(SourceRecord, frozen=True, tag_field="kind", tag="search"):
    pass


Record = ProductRecord | DayRecord | SourceRecord | KeywordRecord | SearchRecord
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UPSERTS = {table: upsert(table) for table in (product, product_day, product_figure)}


class ProductFigures:
    """The loader of product figures."""

    months = None
    owner_of = None

    def check(self, values: dict[str, object]) -> Record:
        day = values.get("day")
        if day is not None and not (isinstance(day, str) and _DAY.fullmatch(day)):
            raise ValueError("Expected a date as YYYY-MM-DD - at `$.day`")
        record: Record = msgspec.convert(values, Record, strict=False)
        if isinstance(record, DayRecord):
            fen_of(record.payment, "payment")
        return record

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
        values["payment_fen"] = fen_of(values.pop("payment"), "payment")
        return product_day, values
    values["kind"] = type(record).__struct_config__.tag
    return product_figure, values
