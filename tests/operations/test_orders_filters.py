"""Every filter and page of orders: as a plain model has it, and found by an index."""

from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

import apsw
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.handlers import result_of
from tests.support.orders import START_MS, order, sealer_of, store_orders
from tests.support.stores import Store
from tollway.contract.decoding import Decoder
from tollway.contract.operation import CallInfo
from tollway.contract.reasons import Refusal
from tollway.operations.orders import queries as reading
from tollway.operations.orders import queries as searching
from tollway.operations.orders.handler import OrdersHandler
from tollway.operations.orders.operation import OrdersRequest, check_filters
from tollway.operations.orders.schema import HOUR_MS
from tollway.store.database import Database
from tollway.store.query import Query
from tollway.store.sealing import Sealer

SHANGHAI = ZoneInfo("Asia/Shanghai")
_shops = count(1)

# What was found already: the keys of one page, its rows, and the total beside them.
_OF_ONE_PAGE = {"SCAN keys", "SCAN page", "SCAN page LEFT-JOIN", "SCAN alone", "SCAN CONSTANT ROW"}


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (reading._LISTINGS[False, False].rows, "PRIMARY KEY (owner_id=? AND newest_first>?"),
        (reading._LISTINGS[True, False].rows, "COVERING INDEX shop_order_tag ("),
        (reading._LISTINGS[False, True].rows, "COVERING INDEX shop_order_tag_name ("),
        (reading._LISTINGS[True, True].rows, "COVERING INDEX shop_order_tag_both ("),
        (reading._PARTS[True, False]["newest"], "COVERING INDEX shop_order_tag ("),
        (searching._SEARCH, "COVERING INDEX shop_order_remark ("),
    ],
)
@pytest.mark.sqlite
def test_no_query_scans_orders_that_are_not_asked_for(
    own_store: Store, query: Query, index: str
) -> None:
    text = query.sqlite.text
    with apsw.Connection(str(own_store.path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {text}", [None] * text.count("?"))
        steps = [row[3] for row in plan if row[3].startswith(("SEARCH", "SCAN"))]
    scans = [step for step in steps if "order_count" not in step and "order_sn=?" not in step]
    assert all(index in step or step in _OF_ONE_PAGE for step in scans)
    assert any(index in step for step in scans)


# Longer than what an index of PostgreSQL takes, and nothing that could be made shorter.
LONG = "请" + "".join(map(chr, range(0x4E00, 0x4E00 + 899)))

half_hours = st.integers(-120, 120).map(lambda n: START_MS + n * HOUR_MS // 2)
records = st.lists(
    st.fixed_dictionaries(
        {
            "confirm_time": half_hours,
            "remark_tag": st.sampled_from([None, None, 1, 2]),
            "remark_tag_name": st.sampled_from([None, None, "急", "退"]),
            "remark": st.sampled_from([None, None, "请尽快", "Quick 100%", "quick_", LONG]),
        }
    ),
    max_size=40,
)
moments = st.one_of(st.none(), half_hours, half_hours.map(lambda ms: ms + 1))
questions = st.lists(
    st.fixed_dictionaries(
        {
            "start": moments,
            "end": moments,
            "remarkTag": st.sampled_from([None, 1, 2, 3]),
            "remarkTagName": st.sampled_from([None, "急", "退"]),
            "remark": st.sampled_from([None, None, None, "quick", "%", "_", "请"]),
            "pageSize": st.integers(1, 7),
        }
    ),
    min_size=1,
    max_size=6,
)


def _model(stored: list[dict[str, Any]], question: dict[str, Any]) -> list[str]:
    """The plain meaning of the filters."""

    def fits(each: dict[str, Any]) -> bool:
        start, end = question["start"], question["end"]
        tag, name, part = question["remarkTag"], question["remarkTagName"], question["remark"]
        return (
            (start is None or each["confirm_time"] >= start)
            and (end is None or each["confirm_time"] < end)
            and (tag is None or each["remark_tag"] == tag)
            and (name is None or each["remark_tag_name"] == name)
            and (part is None or part in (each["remark"] or ""))
        )

    found = sorted(filter(fits, stored), key=lambda each: (-each["confirm_time"], each["order_sn"]))
    return [each["order_sn"] for each in found]


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    """Every example has a shop of its own."""
    return Store(tmp_path_factory.mktemp("model") / "orders.db")


@settings(max_examples=25, deadline=None)
@given(given_records=records, asked=questions)
def test_every_filter_and_page_means_what_the_plain_model_means(
    given_records: list[dict[str, Any]], asked: list[dict[str, Any]], shops: Store
) -> None:
    owner_id = f"shop-{next(_shops)}"
    stored = [
        order(f"sn-{n:02}", owner_id=owner_id, **each) for n, each in enumerate(given_records)
    ]
    asked = [{**each, "owner_id": owner_id} for each in asked]
    shops.do(lambda database: _compare(database, sealer_of(shops), stored, asked))


async def _compare(
    database: Database,
    sealer: Sealer,
    stored: list[dict[str, Any]],
    asked: list[dict[str, Any]],
) -> None:
    """Asks while some of the orders are stored, then with all of them, then after some moved, far
    and within their hour: what the handler knows of the counts by then is old."""
    handler = OrdersHandler(database, SHANGHAI)
    half = stored[::2]
    moved = [
        {**each, "updated_at": START_MS + 1, "confirm_time": each["confirm_time"] + 25 * HOUR_MS}
        for each in half
    ]
    beside = [
        {**each, "updated_at": START_MS + 2, "confirm_time": each["confirm_time"] + HOUR_MS // 3}
        for each in moved
    ]
    others = stored[1::2]
    steps = (half, half), (stored, stored), (moved, [*moved, *others]), (beside, [*beside, *others])
    for coming, known in steps:
        await store_orders(database, sealer, coming)
        await _ask_all(handler, known, asked)


async def _ask_all(
    handler: OrdersHandler, stored: list[dict[str, Any]], asked: list[dict[str, Any]]
) -> None:
    decoder = Decoder(OrdersRequest)
    for question in asked:
        fields = {name: value for name, value in question.items() if name not in ("start", "end")}
        fields |= {"start_time": question["start"], "end_time": question["end"]}
        expected = _model(stored, question)
        size = question["pageSize"]
        pages = range(len(expected) // size + 2)
        for page in pages if size % 2 else reversed(pages):
            request = decoder.decode({**fields, "page": page})
            try:
                check_filters(request, SHANGHAI)
            except Refusal:
                assert question["end"] <= question["start"]
                break
            answer = await result_of(handler(request, CallInfo("acc", 1)))
            data = msgspec.json.decode(answer.data)
            assert data["totalElements"] == len(expected)
            found = [each["order_sn"] for each in data["content"]]
            assert found == expected[page * size : (page + 1) * size]
            assert answer.records == len(found)
