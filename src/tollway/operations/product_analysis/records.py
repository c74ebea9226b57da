"""Products and figures as they come in: one kind of record for each `kind` of line.

`kind` says what a record is: `product` (title, picture, shop), `day` (a product's totals of one
day), or `source`, `keyword`, `search` (the part of one traffic source, keyword or search term)."""

from collections.abc import Callable
from datetime import date

import msgspec

from tollway.intake.record_check import RecordCheck, check_day
from tollway.intake.record_fields import Count, Id, Name, Text, Yuan
from tollway.intake.record_problems import RecordError


class ProductRecord(msgspec.Struct, frozen=True, tag_field="kind", tag="product"):
    product_id: Id
    title: Name
    shop_name: Name
    picture_url: Text = ""


class DayRecord(msgspec.Struct, frozen=True, tag_field="kind", tag="day"):
    product_id: Id
    day: date
    visitors: Count
    buyers: Count
    payment: Yuan
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
RECORD_TYPES = (ProductRecord, DayRecord, SourceRecord, KeywordRecord, SearchRecord)


_CHECKS: dict[object, Callable[[dict[str, object]], Record]] = {
    "product": RecordCheck(ProductRecord),
    "day": RecordCheck(DayRecord),
    "source": RecordCheck(SourceRecord),
    "keyword": RecordCheck(KeywordRecord),
    "search": RecordCheck(SearchRecord),
}


def checked_figure(values: dict[str, object]) -> Record:
    """The typed record; raises RecordError if it is wrong."""
    kind = values.get("kind")
    check = _CHECKS.get(kind) if isinstance(kind, str) else None
    if check is None:
        problem = "it is missing" if kind is None else "it is none of these"
        raise RecordError("kind", problem, f"one of {', '.join(map(str, _CHECKS))}")
    record = check(values)
    if not isinstance(record, ProductRecord):
        check_day("day", record.day)
    return record
