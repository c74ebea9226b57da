"""Storing products and their figures: a later record of the same thing replaces the earlier one."""

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter

from sqlalchemy import Table

from tollway.intake.record_fields import fen_of
from tollway.operations.product_analysis.ready_days import lock_parts, make_parts
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
from tollway.operations.product_analysis.series import day_number
from tollway.store.cache_versions import figures_changed
from tollway.store.database import Row, Transaction
from tollway.store.many_rows import upserts

_KINDS = {SourceRecord: "source", KeywordRecord: "keyword", SearchRecord: "search"}

# The table of a record, and its columns there, in their order.
FigureRow = tuple[Table, Row]


class FigureLoader:
    """The loader of product figures."""

    months = None
    owner_of = None
    check_lines = None
    store_own = None

    def check(self, values: dict[str, object], _received_s: int) -> FigureRow:
        return row_of(checked_figure(values))

    async def store(self, transaction: Transaction, records: Sequence[FigureRow]) -> int:
        rows: defaultdict[Table, list[Row]] = defaultdict(list)
        for table, row in records:
            rows[table].append(row)
        changed, figures = 0, list[Row]()
        # A fixed lock order prevents deadlocks: of the tables, and of the rows in each.
        for table, its_rows in sorted(rows.items(), key=lambda each: each[0].name):
            # Of several records of the same thing the last one counts. Keys come first in a row.
            key = itemgetter(*range(len(table.primary_key)))
            newest = dict(zip(map(key, its_rows), its_rows, strict=True))
            newest_rows = sorted(newest.values(), key=key)
            changed += await transaction.put_rows(upserts(table), newest_rows)
            if table is product_figure:
                figures = newest_rows
        if changed:
            await lock_parts(transaction)
            await make_parts(transaction, figures)
            await figures_changed(transaction)
        return changed


def row_of(record: Record) -> FigureRow:
    product_id = record.product_id
    if isinstance(record, ProductRecord):
        return product, (product_id, record.title, record.picture_url, record.shop_name)
    day = day_number(record.day)
    if isinstance(record, DayRecord):
        totals = (record.visitors, record.buyers, fen_of(record.payment))
        today = (record.collections, record.pieces_paid, record.pieces_carted)
        return product_day, (product_id, day, *totals, *today)
    key = (product_id, day, _KINDS[type(record)], record.name)
    counts = (record.visitors, record.buyers, record.pieces_ordered, record.page_views)
    return product_figure, key + counts
