"""The figures of all products at one moment, and the analysis of one of them."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from tests.model.expected.refusals import RefusedError

Record = Mapping[str, Any]
_SERIES_DAYS = 30
_KEYS = {
    "product": ("product_id",),
    "day": ("product_id", "day"),
    "source": ("product_id", "day", "name"),
    "keyword": ("product_id", "day", "name"),
    "search": ("product_id", "day", "name"),
}
_OF_A_PART = {"pieces_ordered": 0, "page_views": 0}
# What a record says that leaves these out.
_LEFT_OUT: dict[str, dict[str, Any]] = {
    "product": {"picture_url": ""},
    "day": {"collections": 0, "pieces_paid": 0, "pieces_carted": 0},
    "source": _OF_A_PART,
    "keyword": _OF_A_PART,
    "search": _OF_A_PART,
}


class Figures:
    """Records by what they are about; never changed, but replaced by others."""

    def __init__(self, records: Mapping[tuple[str, ...], Record]) -> None:
        self.records = records

    def with_records(self, records: Sequence[Record]) -> tuple["Figures", int]:
        """The figures after records came in, and how many that changed: a later one replaces."""
        known = dict(self.records)
        known.update({_key(each): {**_LEFT_OUT[each["kind"]], **each} for each in records})
        changed = sum(self.records.get(key) != record for key, record in known.items())
        return Figures(known), changed

    def analysis(self, product_id: str, day: date, today: date) -> dict[str, Any]:
        """The answer's data."""
        if day > today:
            raise RefusedError(100, "DATE_IN_FUTURE")
        product = self.records.get(("product", product_id))
        if product is None:
            raise RefusedError(100, "PRODUCT_UNKNOWN")
        totals = self.records.get(("day", product_id, day.isoformat()))
        if totals is None:
            raise RefusedError(100, "PRODUCT_WITHOUT_DATA")
        data: dict[str, Any] = {
            "trafficSource": [_traffic(each) for each in self._parts("source", product_id, day)],
            "keywords": [
                {**_traffic(each), "pv": each["page_views"]}
                for each in self._parts("keyword", product_id, day)
            ],
            "searchKeywords": [_search(each) for each in self._parts("search", product_id, day)],
            "dateData": {"data": self._series(product_id, day)},
            "itemId": product_id,
            "itemName": product["title"],
            "pic": product["picture_url"],
            "shopName": product["shop_name"],
            "shop_name": product["shop_name"],
        }
        if day == today:
            data["itemCltByrCnt"] = totals["collections"]
            data["payItmCnt"] = totals["pieces_paid"]
            data["itemCartCnt"] = totals["pieces_carted"]
        return data

    def _parts(self, kind: str, product_id: str, day: date) -> list[Record]:
        """The busiest first, then by name."""
        found = [
            record
            for key, record in self.records.items()
            if key[:3] == (kind, product_id, day.isoformat())
        ]
        return sorted(found, key=lambda each: (-each["visitors"], each["name"]))

    def _series(self, product_id: str, last: date) -> dict[str, list[Any]]:
        days = [last - timedelta(days=back) for back in range(_SERIES_DAYS - 1, -1, -1)]
        empty = {"visitors": 0, "buyers": 0, "payment": 0}
        figures = [self.records.get(("day", product_id, day.isoformat()), empty) for day in days]
        return {
            "paymentConversionRate": [_rate(each) for each in figures],
            "date": [f"{day:%m-%d}" for day in days],
            "paymentAmount": [float(each["payment"]) for each in figures],
            "paidNum": [each["buyers"] for each in figures],
            "visitorNum": [each["visitors"] for each in figures],
        }


def _key(record: Record) -> tuple[str, ...]:
    return (record["kind"], *(record[name] for name in _KEYS[record["kind"]]))


def _rate(record: Record) -> float:
    """Paying buyers per hundred visitors, two decimals."""
    if not record["visitors"]:
        return 0.0
    exact = Decimal(100 * record["buyers"]) / record["visitors"]
    return float(exact.quantize(Decimal("0.01"), ROUND_HALF_UP))


def _traffic(record: Record) -> dict[str, Any]:
    return {
        "pageName": record["name"],
        "payByrCntIndex": record["buyers"],
        "crtByrCntIndex": record["pieces_ordered"],
        "uvIndex": record["visitors"],
        "payRateIndex": max(0.01, _rate(record)),
    }


def _search(record: Record) -> dict[str, Any]:
    shown = _traffic(record)
    del shown["crtByrCntIndex"]
    return shown
