"""The paged order query: every answer through real HTTP, every filter against a plain model."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import apsw
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.gateway import Gateway, Reply, reply_of
from tests.support.orders import OWNER, START_MS, order, put_orders, sealer_of, store_orders
from tests.support.owners import authorize, shop
from tests.support.rates import at_once
from tests.support.stores import Store
from tollway.contract.decoding import Decoder
from tollway.contract.operation import Caller
from tollway.contract.reasons import Refusal
from tollway.ledger.accounts import open_account
from tollway.ledger.entries import list_balances, top_up
from tollway.ledger.identity import World
from tollway.ledger.permissions import Permission, grant, set_closed
from tollway.ledger.tokens import issue_token
from tollway.operations.orders import reading, searching
from tollway.operations.orders.descriptor import ORDERS
from tollway.operations.orders.handler import OrdersHandler
from tollway.operations.orders.masking import masked_address, masked_name, masked_phone
from tollway.operations.orders.request import OrdersRequest
from tollway.store.database import Database
from tollway.store.order_facets import HOUR_MS
from tollway.store.query import Query
from tollway.store.sealing import Sealer

SHANGHAI = ZoneInfo("Asia/Shanghai")
CREDITS = 1000


class Shopper(msgspec.Struct):
    account_id: str
    token: str


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    store = Store(tmp_path_factory.mktemp("orders") / "tollway.db")
    tag = {"remark": "请尽快发货", "remark_tag": 1, "remark_tag_name": "加急"}
    records = [
        order(f"sn-{n:03}", confirm_time=START_MS + n * 60_000, **(tag if n % 50 == 0 else {}))
        for n in range(150)
    ]
    put_orders(store, records)
    return store


@pytest.fixture(scope="module")
def served(own: Store) -> Iterator[Gateway]:
    gateway = Gateway(own)
    yield gateway
    assert gateway.stop() == 0


def _shopper(
    store: Store,
    name: str,
    *,
    credit: int = CREDITS,
    granted: bool = True,
    kind: str = "live",
    rate_limit: int = 1000,
) -> Shopper:
    async def work(database: Database) -> Shopper:
        world = World()
        account = await open_account(database, world, f"{name} {time.monotonic_ns()}")
        if granted:
            await grant(database, account.id, Permission(ORDERS.name, None, rate_limit))
            await authorize(database, account.id, ORDERS, shop(OWNER))
        if credit:
            await top_up(database, world, account.id, "credits", credit)
        issued = await issue_token(database, world, account.id, kind=kind)
        return Shopper(account.id, issued.text)

    return store.do(work)


@pytest.fixture
def shopper(own: Store) -> Shopper:
    return _shopper(own, "shopper")


def _credits(store: Store, shopper: Shopper) -> int:
    balances = store.do(lambda database: list_balances(database, shopper.account_id))
    return sum(each.amount for each in balances)


def _ask(gateway: Gateway, token: str, *, as_multipart: bool = True, **fields: str) -> Reply:
    headers = {"Authorization": f"Bearer {token}"}
    form = {"owner_id": OWNER, **fields}
    if as_multipart:
        parts = {name: (None, value) for name, value in form.items()}
        return reply_of(gateway.client.post(ORDERS.path, files=parts, headers=headers))
    return reply_of(gateway.client.post(ORDERS.path, data=form, headers=headers))


@pytest.mark.parametrize("as_multipart", [True, False])
def test_0_a_page_costs_one_credit_and_says_so(
    own: Store, served: Gateway, shopper: Shopper, as_multipart: bool
) -> None:
    reply = _ask(served, shopper.token, as_multipart=as_multipart, page="1")
    assert (reply.code, reply.data["withholding_money"]) == (0, 1)
    assert [each["order_sn"] for each in reply.data["content"]] == [
        f"sn-{n:03}" for n in range(49, -1, -1)
    ]
    assert (reply.data["page"], reply.data["pageSize"], reply.data["page_size"]) == (1, 100, 100)
    assert (reply.data["totalElements"], reply.data["total_elements"]) == (150, 150)
    assert _credits(own, shopper) == CREDITS - 1


def test_0_every_field_is_there_with_its_type(served: Gateway, shopper: Shopper) -> None:
    reply = _ask(served, shopper.token, pageSize="1", remarkTag="1")
    (entry,) = reply.data["content"]
    assert entry == {
        "receiver_name": "张**",
        "receiver_phone": "138****1234",
        "province": "浙江省",
        "city": "杭州市",
        "town": "西湖区",
        "receiver_address": "文三路***号***幢***室",
        "address": "文三路***号***幢***室",
        "order_sn": "sn-100",
        "goods_name": "便携保温杯 500ml",
        "goods_img": "https://img.tollway.example/goods/2.jpg",
        "goods_spec": "燕麦色",
        "is_pre_sale": False,
        "last_ship_time": START_MS + 172_800_000,
        "confirm_time": START_MS + 6_000_000,
        "remark": "请尽快发货",
        "goods_count": 2,
        "pay_amount": 157.5,
        "order_status": 1,
        "remark_tag": "1",
        "remark_tag_name": "加急",
        "withholding_money": 1,
    }
    assert type(entry["is_pre_sale"]) is bool
    other = _ask(served, shopper.token, pageSize="1").data["content"][0]
    assert (other["remark"], other["remark_tag"], other["remark_tag_name"]) == ("", None, None)


def test_0_an_empty_page_is_a_list_and_a_success(
    own: Store, served: Gateway, shopper: Shopper
) -> None:
    for fields in ({"page": "2"}, {"page": "999999999"}, {"remark": "nobody"}):
        reply = _ask(served, shopper.token, **fields)
        assert (reply.code, reply.data["content"]) == (0, [])
    assert _credits(own, shopper) == CREDITS - 3


def test_times_are_taken_in_every_form_and_the_end_is_left_out(
    served: Gateway, shopper: Shopper
) -> None:
    windows = [
        (str(START_MS), str(START_MS + 120_000)),
        (str(START_MS // 1000), str(START_MS // 1000 + 120)),
        ("2026-01-15 00:00:00", "2026-01-15 00:02:00"),
    ]
    for start, end in windows:
        data = _ask(served, shopper.token, start_time=start, end_time=end).data
        assert [each["order_sn"] for each in data["content"]] == ["sn-001", "sn-000"]
        assert data["totalElements"] == 2


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"owner_id": ""}, "owner_id"),
        ({"vvtype": "3"}, "vvtype"),
        ({"page": "-1"}, "page"),
        ({"pageSize": "0"}, "pageSize"),
        ({"pageSize": "101"}, "pageSize"),
        ({"start_time": "yesterday"}, "start_time"),
        ({"remarkTag": "6"}, "remarkTag"),
        ({"remark": ""}, "remark"),
        ({"start_time": str(START_MS), "end_time": str(START_MS)}, "end_time is not later"),
        ({"start_time": "2026-01-15 00:00:01", "end_time": str(START_MS)}, "end_time is not later"),
    ],
)
def test_100_says_what_is_wrong_and_is_free(
    own: Store, served: Gateway, shopper: Shopper, fields: dict[str, str], part: str
) -> None:
    reply = _ask(served, shopper.token, **fields)
    assert (reply.code, reply.data) == (100, {})
    assert part in reply.msg
    assert _credits(own, shopper) == CREDITS


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("start_time", str(START_MS)),
        ("end_time", str(START_MS)),
        ("remark", "发货"),
        ("remarkTag", "1"),
        ("remarkTagName", "加急"),
    ],
)
def test_100_a_filter_of_the_enhanced_edition_is_never_ignored(
    served: Gateway, shopper: Shopper, field: str, value: str
) -> None:
    reply = _ask(served, shopper.token, vvtype="2", **{field: value})
    assert reply.code == 100
    assert field in reply.msg and "enhanced" in reply.msg
    assert _ask(served, shopper.token, vvtype="1", **{field: value}).code == 0
    assert _ask(served, shopper.token, vvtype="2").data["totalElements"] == 150


def test_100_a_body_that_is_no_form(served: Gateway, shopper: Shopper) -> None:
    headers = {"Authorization": f"Bearer {shopper.token}", "Content-Type": "application/json"}
    reply = reply_of(served.client.post(ORDERS.path, content=b"{}", headers=headers))
    assert reply.code == 100


def test_203_204_401_404(own: Store, served: Gateway, shopper: Shopper) -> None:
    assert _ask(served, "tw_live_nobody").code == 401
    assert _ask(served, _shopper(own, "not granted", granted=False).token).code == 204
    poor = _ask(served, _shopper(own, "poor", credit=0).token)
    assert poor.code == 204
    assert "0 left" in poor.msg and "costs 1" in poor.msg
    assert served.get(ORDERS.path, token=shopper.token).code == 404
    own.do(lambda database: set_closed(database, ORDERS.name, is_closed=True))
    assert _ask(served, shopper.token).code == 203
    own.do(lambda database: set_closed(database, ORDERS.name, is_closed=False))
    assert _credits(own, shopper) == CREDITS


def test_101_200_202_are_free(tmp_path: Path) -> None:
    store = Store(tmp_path / "tollway.db")
    put_orders(store, [order()])
    shopper = _shopper(store, "unlucky")
    gateway = Gateway(store, call_timeout_s=1)
    with store.held():
        assert _ask(gateway, shopper.token).code == 101
    assert gateway.stop() == 0
    # Another one, that is in no such hurry.
    gateway = Gateway(store)
    _, codes = at_once(
        lambda: _shopper(store, "hasty", rate_limit=1),
        lambda hasty: [_ask(gateway, hasty.token).code for _ in range(2)],
    )
    assert codes == [0, 202]
    store.run("DROP TABLE order_count")
    reply = _ask(gateway, shopper.token)
    assert (reply.code, reply.data) == (200, {})
    assert "order_count" not in reply.msg
    assert _credits(store, shopper) == CREDITS
    gateway.stop()


def test_the_sandbox_has_orders_of_its_own_for_nothing(own: Store, served: Gateway) -> None:
    tester = _shopper(own, "tester", kind="test")
    reply = _ask(served, tester.token, pageSize="3")
    assert (reply.code, reply.data["withholding_money"]) == (0, 0)
    assert len(reply.data["content"]) == 3
    assert _credits(own, tester) == CREDITS


@pytest.mark.parametrize(
    ("plain", "masked"),
    [
        ("文三路478号3幢1201室", "文三路***号***幢***室"),
        ("中山二路A座三楼", "中山二路***座***楼"),
        ("人民路１２号", "人民路***号"),
        ("绿杨村南门", "绿杨村***"),
        ("", "***"),
    ],
)
def test_addresses_keep_their_street_and_lose_their_number(plain: str, masked: str) -> None:
    assert masked_address(plain) == masked


def test_names_and_phones_are_masked() -> None:
    assert [masked_name(name) for name in ("张三", "欧阳小明", "张")] == ["张**", "欧**", "*"]
    assert masked_phone("13812341234") == "138****1234"
    assert masked_phone("87654321") == "87****21"
    assert masked_phone("12345") == "*****"


# What was found already: the keys of one page, its rows, and the total beside them.
_OF_ONE_PAGE = {"SCAN keys", "SCAN page", "SCAN page LEFT-JOIN", "SCAN alone", "SCAN CONSTANT ROW"}


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (reading._LISTINGS[False, False]._rows, "PRIMARY KEY (owner_id=? AND newest_first>?"),
        (reading._LISTINGS[True, False]._rows, "COVERING INDEX shop_order_tag ("),
        (reading._LISTINGS[False, True]._rows, "COVERING INDEX shop_order_tag_name ("),
        (reading._LISTINGS[True, True]._rows, "COVERING INDEX shop_order_tag_both ("),
        (reading._LISTINGS[True, False]._counts, "COVERING INDEX shop_order_tag ("),
        (searching._PAGE, "COVERING INDEX shop_order_remark ("),
    ],
)
@pytest.mark.sqlite
def test_no_query_walks_through_orders_that_are_not_asked_for(
    own: Store, query: Query, index: str
) -> None:
    text = query.sqlite.text
    with apsw.Connection(str(own.path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {text}", [None] * text.count("?"))
        steps = [row[3] for row in plan if row[3].startswith(("SEARCH", "SCAN"))]
    walks = [step for step in steps if "order_count" not in step and "order_sn=?" not in step]
    assert all(index in step or step in _OF_ONE_PAGE for step in walks)
    assert any(index in step for step in walks)


half_hours = st.integers(-120, 120).map(lambda n: START_MS + n * HOUR_MS // 2)
records = st.lists(
    st.fixed_dictionaries(
        {
            "confirm_time": half_hours,
            "remark_tag": st.sampled_from([None, None, 1, 2]),
            "remark_tag_name": st.sampled_from([None, None, "急", "退"]),
            "remark": st.sampled_from([None, None, "请尽快", "Quick 100%", "quick_"]),
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


@settings(max_examples=40, deadline=None)
@given(given_records=records, asked=questions)
def test_every_filter_and_page_means_what_the_plain_model_means(
    given_records: list[dict[str, Any]],
    asked: list[dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    stored = [order(f"sn-{n:02}", **each) for n, each in enumerate(given_records)]
    store = Store(tmp_path_factory.mktemp("model") / "orders.db")
    store.do(lambda database: _compare(database, sealer_of(store), stored, asked))


async def _compare(
    database: Database,
    sealer: Sealer,
    stored: list[dict[str, Any]],
    asked: list[dict[str, Any]],
) -> None:
    await store_orders(database, sealer, stored)
    handler = OrdersHandler(database, sealer, SHANGHAI)
    decoder = Decoder(OrdersRequest)
    for question in asked:
        fields = {name: value for name, value in question.items() if name not in ("start", "end")}
        fields |= {"start_time": question["start"], "end_time": question["end"]}
        expected = _model(stored, question)
        size = question["pageSize"]
        for page in range(len(expected) // size + 2):
            request = decoder.decode({**fields, "owner_id": OWNER, "page": page})
            try:
                data = msgspec.json.decode(await handler(request, Caller("acc", 1)))
            except Refusal:
                assert question["end"] <= question["start"]
                break
            assert data["totalElements"] == len(expected)
            found = [each["order_sn"] for each in data["content"]]
            assert found == expected[page * size : (page + 1) * size]
