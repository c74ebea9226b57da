"""Products and figures as they come in: one kind of record for each `kind` of line.

`kind` says what a record is: `product` (title, picture, shop), `day` (a product's totals of one
day), or `source`, `keyword`, `search` (the part of one traffic source, keyword or search term)."""

import re
from datetime import date
from decimal import Decimal

import msgspec

from tollway.intake.record_fields import Count, Id, Name, fen_of


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


def checked_figure(values: dict[str, object]) -> Record:
    """The typed record; raises msgspec.ValidationError or ValueError with what is wrong."""
    day = values.get("day")
    if day is not None and not (isinstance(day, str) and _DAY.fullmatch(day)):
        raise ValueError("Expected a date as YYYY-MM-DD - at `$.day`")
    record: Record = msgspec.convert(values, Record, strict=False)
    if isinstance(record, DayRecord):
        fen_of(record.payment, "payment")
    return record
