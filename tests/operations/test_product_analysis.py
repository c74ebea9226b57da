"""Product analysis over hand-made rows, through real HTTP: every field of the specification."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tests.support.changes import assert_seen
from tests.support.gateway import Gateway, Reply
from tests.support.ledger import Caller, new_caller
from tests.support.stores import Store
from tollway.operations.product_analysis.operation import ProductAnalysis
from tollway.operations.product_analysis.records import (
    DayRecord,
    KeywordRecord,
    ProductRecord,
    Record,
    SearchRecord,
    SourceRecord,
)
from tollway.operations.product_analysis.schema import product
from tollway.operations.product_analysis.series import KNOWN_DAYS_MAX, days_to_read, series_of
from tollway.operations.product_analysis.storage import FigureLoader, FigureRow, row_of
from tollway.store.database import Database, Transaction
from tollway.store.open import OpenDatabase
from tollway.store.query import Query

Data = dict[str, Any]
Ask = Callable[[str, date], Reply]

NUMBER = (int, float)
TRAFFIC = {
    "pageName": str,
    "payByrCntIndex": NUMBER,
    "crtByrCntIndex": NUMBER,
    "uvIndex": NUMBER,
    "payRateIndex": NUMBER,
}
# Section 2.2 of the specification, with both spellings of the shop's name.
SPECIFIED = {
    "trafficSource": [TRAFFIC],
    "keywords": [{**TRAFFIC, "pv": int}],
    "searchKeywords": [
        {"pageName": str, "uvIndex": NUMBER, "payRateIndex": NUMBER, "payByrCntIndex": NUMBER}
    ],
    "dateData": {
        "data": {
            "paymentConversionRate": [NUMBER],
            "date": [str],
            "paymentAmount": [NUMBER],
            "paidNum": [NUMBER],
            "visitorNum": [NUMBER],
        }
    },
    "itemId": str,
    "itemName": str,
    "pic": str,
    "shopName": str,
    "shop_name": str,
}
TODAY_ONLY = {"itemCltByrCnt": int, "payItmCnt": int, "itemCartCnt": int}


def assert_shape(value: object, shape: object, path: str = "data") -> None:
    if isinstance(shape, dict):
        assert isinstance(value, dict) and set(value) == set(shape), path
        for name, inner in shape.items():
            assert_shape(value[name], inner, f"{path}.{name}")
    elif isinstance(shape, list):
        assert isinstance(value, list) and value, f"{path} is empty, so its entries are not seen"
        for position, item in enumerate(value):
            assert_shape(item, shape[0], f"{path}[{position}]")
    else:
        assert not isinstance(value, bool) and isinstance(value, shape), path  # type: ignore[arg-type]


def load(store: Store, records: Sequence[Record]) -> None:
    async def work(database: Database) -> None:
        await database.write(lambda tx: FigureLoader().store(tx, list(map(row_of, records))))

    store.do(work)


@pytest.fixture(scope="module")
def ask(gateway: Gateway, store: Store) -> Ask:
    caller: Caller = new_caller(store, calls=1000, rate_limit=100_000)

    def get(product_id: str, day: date) -> Reply:
        query = {"product_id": product_id, "query_date": day.isoformat()}
        return gateway.get(token=caller.token, query=query)

    return get


@pytest.fixture(scope="module")
def made(store: Store, today: date) -> str:
    """A product with figures today, yesterday, and at the edges of the series."""
    product_id = "hand-made"

    def day(back: int, visitors: int, buyers: int, payment: str) -> DayRecord:
        at = today - timedelta(days=back)
        return DayRecord(product_id, at, visitors, buyers, Decimal(payment), 7, 0, 9)

    parts = [(200, 0), (9, 3), (3, 1), (8, 1), (5, 7), (100_000, 1), (800, 1), (0, 0), (9, 2)]
    records: list[Record] = [
        ProductRecord(product_id, '杯子 "大"', "小店 & 子", "https://img.example/1.jpg"),
        day(0, 3, 2, "12.30"),
        day(1, 8, 1, "0.01"),
        day(3, 0, 0, "0"),
        day(29, 1000, 10, "999999999.99"),
        day(30, 77, 7, "7"),
        *(SourceRecord(product_id, today, f"s{v}.{b}", v, b, b + 1) for v, b in parts),
        *(KeywordRecord(product_id, today, f"k{v}.{b}", v, b, b + 1, v * 2) for v, b in parts),
        *(SearchRecord(product_id, today, f"t{v}.{b}", v, b) for v, b in parts),
    ]

    load(store, records)
    return product_id


def test_today_has_every_field_of_the_specification_with_its_type(
    ask: Ask, made: str, today: date
) -> None:
    assert_shape(ask(made, today).data, {**SPECIFIED, **TODAY_ONLY})


def test_the_response_type_declares_exactly_what_is_sent(ask: Ask, made: str, today: date) -> None:
    def names(kind: Any) -> object:
        """The names of a response type, down to its plain values."""
        if isinstance(kind, msgspec.inspect.StructType):
            return {field.encode_name: names(field.type) for field in kind.fields}
        return names(kind.item_type) if isinstance(kind, msgspec.inspect.ListType) else None

    def names_of(value: object) -> object:
        if isinstance(value, dict):
            return {name: names_of(inner) for name, inner in value.items()}
        return names_of(value[0]) if isinstance(value, list) else None

    assert names(msgspec.inspect.type_info(ProductAnalysis)) == names_of(ask(made, today).data)


def test_what_is_stored_is_what_is_sent(ask: Ask, made: str, today: date) -> None:
    data = ask(made, today).data
    assert (data["itemId"], data["itemName"]) == (made, '杯子 "大"')
    assert data["pic"] == "https://img.example/1.jpg"
    assert data["shopName"] == data["shop_name"] == "小店 & 子"
    assert (data["itemCltByrCnt"], data["payItmCnt"], data["itemCartCnt"]) == (7, 0, 9)
    source = data["trafficSource"][1]
    assert (source["pageName"], source["uvIndex"]) == ("s800.1", 800)
    assert (source["payByrCntIndex"], source["crtByrCntIndex"]) == (1, 2)
    assert data["keywords"][1]["pv"] == 1600


@pytest.mark.parametrize(
    ("visitors", "buyers", "rate"),
    [
        (200, 0, 0.01),
        (0, 0, 0.01),
        (100_000, 1, 0.01),
        (9, 3, 33.33),
        (9, 2, 22.22),
        (3, 1, 33.33),
        (8, 1, 12.5),
        (800, 1, 0.13),
        (5, 7, 140),
    ],
)
def test_the_rate_is_of_a_hundred_with_two_decimals_and_a_floor(
    ask: Ask, made: str, today: date, visitors: int, buyers: int, rate: float
) -> None:
    data = ask(made, today).data
    for kind, entries in (("s", "trafficSource"), ("k", "keywords"), ("t", "searchKeywords")):
        (entry,) = [e for e in data[entries] if e["pageName"] == f"{kind}{visitors}.{buyers}"]
        assert entry["payRateIndex"] == rate


@pytest.mark.parametrize("entries", ["trafficSource", "keywords", "searchKeywords"])
def test_the_busiest_come_first(ask: Ask, made: str, today: date, entries: str) -> None:
    listed = [(-e["uvIndex"], e["pageName"]) for e in ask(made, today).data[entries]]
    assert len(listed) == 9 and listed == sorted(listed)


def test_the_series_has_30_days_up_to_the_day_asked_and_zeros_where_nothing_is(
    ask: Ask, made: str, today: date
) -> None:
    series = ask(made, today).data["dateData"]["data"]
    days = [today - timedelta(days=back) for back in range(29, -1, -1)]
    assert series["date"] == [day.strftime("%m-%d") for day in days]
    assert all(len(values) == 30 for values in series.values())
    expected: dict[str, list[float]] = {
        "visitorNum": [1000, *[0] * 27, 8, 3],
        "paidNum": [10, *[0] * 27, 1, 2],
        "paymentAmount": [999_999_999.99, *[0] * 27, 0.01, 12.3],
        "paymentConversionRate": [1, *[0] * 27, 12.5, 66.67],
    }
    assert {name: series[name] for name in expected} == expected


def test_yesterday_has_no_fields_of_today_and_empty_lists_where_nothing_is(
    ask: Ask, made: str, today: date
) -> None:
    yesterday = today - timedelta(days=1)
    data = ask(made, yesterday).data
    assert set(data) == set(SPECIFIED)
    assert data["trafficSource"] == data["keywords"] == data["searchKeywords"] == []
    series: Data = data["dateData"]["data"]
    assert series["date"][-1] == yesterday.strftime("%m-%d")
    assert (series["visitorNum"][-1], series["visitorNum"][0]) == (8, 77)


def test_a_day_within_the_series_but_without_rows_is_refused(
    ask: Ask, made: str, today: date
) -> None:
    reply = ask(made, today - timedelta(days=2))
    assert (reply.code, reply.data) == (100, {})
    assert "query_date" in reply.msg


def test_a_product_without_figures_is_refused_by_its_date(
    ask: Ask, store: Store, today: date
) -> None:
    load(store, [ProductRecord("bare", "t", "s")])
    assert "query_date" in ask("bare", today).msg


def test_parts_that_come_one_after_the_other_are_answered_together_and_replaced(
    ask: Ask, store: Store, today: date
) -> None:
    def words() -> list[tuple[str, int]]:
        found = ask("parts", today).data["keywords"]
        return [(each["pageName"], each["uvIndex"]) for each in found]

    day = DayRecord("parts", today, 9, 1, Decimal("1"), 0, 0, 0)
    load(store, [ProductRecord("parts", "t", "s"), day])
    for name, visitors, expected in (
        ("a", 5, [("a", 5)]),
        ("b", 9, [("b", 9), ("a", 5)]),
        ("a", 12, [("a", 12), ("b", 9)]),
    ):
        load(store, [KeywordRecord("parts", today, name, visitors, 1, 1, 1)])
        assert_seen(store, words, expected)


def test_every_series_of_a_product_is_right_in_whatever_order_days_are_asked(
    ask: Ask, store: Store, today: date
) -> None:
    stored = {back: 1000 + back for back in range(0, 200, 3)}
    days = [
        DayRecord("long", today - timedelta(days=back), visitors, 1, Decimal("1"), 0, 0, 0)
        for back, visitors in stored.items()
    ]
    load(store, [ProductRecord("long", "t", "s"), *days])
    # Neighbours, jumps over what is not known yet, and both sides of it.
    for last in (60, 63, 57, 66, 90, 30, 0, 198, 150, 120, 93, 63):
        data = ask("long", today - timedelta(days=last)).data["dateData"]["data"]
        assert data["visitorNum"] == [stored.get(last + back, 0) for back in range(29, -1, -1)]


def test_asked_for_ever_further_back_a_product_is_known_of_a_few_years_only(
    ask: Ask, store: Store, today: date
) -> None:
    """Such calls are refused and cost nothing, and each would make all the days known again."""
    load(
        store,
        [ProductRecord("old", "t", "s"), DayRecord("old", today, 7, 1, Decimal("1"), 0, 0, 0)],
    )
    known, last = range(0), today.toordinal()
    while last > today.toordinal() - 10_000:
        wanted = series_of(date.fromordinal(last))
        known = days_to_read(known, wanted)
        assert set(wanted) <= set(known) and len(known) <= KNOWN_DAYS_MAX
        expected = 0 if last == today.toordinal() else 100
        assert ask("old", date.fromordinal(last)).code == expected
        # The next series begins a day before what is known.
        last = known.start + 28
    assert ask("old", today).data["dateData"]["data"]["visitorNum"] == [*[0] * 29, 7]


_WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'"""

_HOLD = Query(product.update().values(title="held").where(product.c.product_id == "both-b"))


@pytest.mark.postgresql
def test_two_loads_of_the_same_products_do_not_block_each_other(own_store: Store) -> None:
    load(own_store, [ProductRecord(f"both-{each}", "before", "s") for each in "abc"])
    tries = 0

    class Counting(FigureLoader):
        async def store(self, transaction: Transaction, records: Sequence[FigureRow]) -> int:
            nonlocal tries
            tries += 1
            return await super().store(transaction, records)

    async def put(database: Database, title: str, names: str) -> int:
        rows = [row_of(ProductRecord(f"both-{each}", title, "s")) for each in names]
        return await database.write(lambda tx: Counting().store(tx, rows))

    async def work(database: OpenDatabase) -> None:
        async def begin(transaction: Transaction) -> list[asyncio.Task[int]]:
            await transaction.execute(_HOLD)
            loads = []
            # The first has one of them and waits; the second wants that one.
            for number, names in enumerate(("abc", "ca"), 1):
                loads.append(asyncio.create_task(put(database, f"by {number}", names)))
                while await asyncio.to_thread(own_store.run, _WAITING) != [(number,)]:
                    pass
            return loads

        loads = await database.write(begin)
        assert [await each for each in loads] == [3, 2]

    own_store.do(work)
    assert tries == 2
