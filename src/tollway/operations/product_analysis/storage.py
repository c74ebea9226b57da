"""Storing products and their figures: a later record of the same thing replaces the earlier one."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date

from sqlalchemy import Table

from tollway.intake.record_fields import fen_of
from tollway.operations.product_analysis.records import (
    DayRecord,
    KeywordRecord,
    ProductRecord,
    Record,
    SearchRecord,
    SourceRecord,
    checked_figure,
)
from tollway.operations.product_analysis.schema import product, product_day, product_figure
from tollway.store.database import Row, Transaction
from tollway.store.many_rows import upserts
from tollway.store.versions import figures_changed

_KINDS = {SourceRecord: "source", KeywordRecord: "keyword", SearchRecord: "search"}


class FigureLoader:
    """The loader of product figures."""

    months = None
    owner_of = None

    def check(self, values: dict[str, object]) -> Record:
        return checked_figure(values)

    async def store(self, transaction: Transaction, records: Sequence[Record]) -> int:
        # By table and key: of several records of the same thing the last one counts.
        rows: defaultdict[Table, dict[Row, Row]] = defaultdict(dict)
        for record in records:
            table, key, row = _row(record)
            rows[table][key] = row
        changed = 0
        for table, its_rows in rows.items():
            changed += await transaction.put_rows(upserts(table), list(its_rows.values()))
        if changed:
            await figures_changed(transaction)
        return changed


def _row(record: Record) -> tuple[Table, Row, Row]:
    """The table of a record, its key there, and all its columns in their order."""
    product_id = record.product_id
    if isinstance(record, ProductRecord):
        row: Row = (product_id, record.title, record.picture_url, record.shop_name)
        return product, row[:1], row
    day = _day_number(record.day)
    if isinstance(record, DayRecord):
        totals = (record.visitors, record.buyers, fen_of(record.payment))
        today = (record.collections, record.pieces_paid, record.pieces_carted)
        return product_day, (product_id, day), (product_id, day, *totals, *today)
    key = (product_id, day, _KINDS[type(record)], record.name)
    counts = (record.visitors, record.buyers, record.pieces_ordered, record.page_views)
    return product_figure, key, key + counts


def _day_number(day: date) -> int:
    """Such as 20260131."""
    return (day.year * 100 + day.month) * 100 + day.day
