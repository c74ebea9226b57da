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
from typing import Annotated

import msgspec
from sqlalchemy import Table, bindparam, or_
from sqlalchemy.dialects.postgresql import insert

from tollway.store.database import Transaction
from tollway.store.query import Query
from tollway.store.schema import product, product_day, product_figure
from tollway.store.versions import figures_changed

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern="^[^\\x00]*$")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern="^[^\\x00]*$")]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]


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
_PAYMENT_MAX = Decimal(10) ** 12


def _upsert(table: Table) -> Query:
    """Stores a row, or replaces one with the same key if it says something else."""
    statement = insert(table).values({column.name: bindparam(column.name) for column in table.c})
    said = [column for column in table.c if not column.primary_key]
    new = statement.excluded
    return Query(
        statement.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_={column.name: new[column.name] for column in said},
            where=or_(*(column.is_distinct_from(new[column.name]) for column in said)),
        )
    )


_UPSERTS = {table: _upsert(table) for table in (product, product_day, product_figure)}


class ProductFigures:
    """The loader of product figures."""

    def check(self, values: dict[str, object]) -> Record:
        day = values.get("day")
        if day is not None and not (isinstance(day, str) and _DAY.fullmatch(day)):
            raise ValueError("Expected a date as YYYY-MM-DD - at `$.day`")
        record: Record = msgspec.convert(values, Record, strict=False)
        if isinstance(record, DayRecord):
            _fen(record.payment)
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
        values["payment_fen"] = _fen(values.pop("payment"))
        return product_day, values
    values["kind"] = type(record).__struct_config__.tag
    return product_figure, values


def _fen(yuan: Decimal) -> int:
    if not yuan.is_finite() or not 0 <= yuan <= _PAYMENT_MAX:
        raise ValueError("Expected an amount of yuan, 0 or more - at `$.payment`")
    fen = yuan * 100
    if fen != fen.to_integral_value():
        raise ValueError("Expected at most two decimals - at `$.payment`")
    return int(fen)
