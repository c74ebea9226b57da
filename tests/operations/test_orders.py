"""The paged order query: every answer through real HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Gateway, Reply, reply_of
from tests.support.ledger import Caller, credits_left
from tests.support.orders import CREDITS, START_MS, ask_orders, new_shopper, order, put_orders
from tests.support.rates import at_once
from tests.support.stores import Store
from tollway.demo.owners import SHOP
from tollway.ledger.permissions import set_closed
from tollway.operations.orders.operation import ORDERS


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
    with Gateway(own) as gateway:
        yield gateway


@pytest.fixture
def shopper(own: Store) -> Caller:
    return new_shopper(own)


@pytest.mark.parametrize("as_multipart", [True, False])
def test_0_a_page_costs_one_credit_and_says_so(
    own: Store, served: Gateway, shopper: Caller, as_multipart: bool
) -> None:
    reply = ask_orders(served, shopper.token, as_multipart=as_multipart, page="1")
    assert (reply.code, reply.data["withholding_money"]) == (0, 1)
    assert [each["order_sn"] for each in reply.data["content"]] == [
        f"sn-{n:03}" for n in range(49, -1, -1)
    ]
    assert (reply.data["page"], reply.data["pageSize"], reply.data["page_size"]) == (1, 100, 100)
    assert (reply.data["totalElements"], reply.data["total_elements"]) == (150, 150)
    assert credits_left(own, shopper) == CREDITS - 1


def test_0_every_field_is_there_with_its_type(served: Gateway, shopper: Caller) -> None:
    reply = ask_orders(served, shopper.token, pageSize="1", remarkTag="1")
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
    other = ask_orders(served, shopper.token, pageSize="1").data["content"][0]
    assert (other["remark"], other["remark_tag"], other["remark_tag_name"]) == ("", None, None)


def test_0_an_empty_page_is_a_list_and_a_success(
    own: Store, served: Gateway, shopper: Caller
) -> None:
    for fields in ({"page": "2"}, {"page": "999999999"}, {"remark": "unknown"}):
        reply = ask_orders(served, shopper.token, **fields)
        assert (reply.code, reply.data["content"]) == (0, [])
    assert credits_left(own, shopper) == CREDITS - 3


def test_times_are_taken_in_every_form_and_the_end_is_left_out(
    served: Gateway, shopper: Caller
) -> None:
    windows = [
        (str(START_MS), str(START_MS + 120_000)),
        (str(START_MS // 1000), str(START_MS // 1000 + 120)),
        ("2026-01-15 00:00:00", "2026-01-15 00:02:00"),
    ]
    for start, end in windows:
        data = ask_orders(served, shopper.token, start_time=start, end_time=end).data
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
        ({"start_time": str(START_MS), "end_time": str(START_MS)}, "end_time is too early"),
        ({"start_time": "2026-01-15 00:00:01", "end_time": str(START_MS)}, "end_time is too early"),
    ],
)
def test_100_says_what_is_wrong_and_is_free(
    own: Store, served: Gateway, shopper: Caller, fields: dict[str, str], part: str
) -> None:
    reply = ask_orders(served, shopper.token, **fields)
    assert (reply.code, reply.data) == (100, {})
    assert part in reply.msg
    assert credits_left(own, shopper) == CREDITS


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
    served: Gateway, shopper: Caller, field: str, value: str
) -> None:
    reply = ask_orders(served, shopper.token, vvtype="2", **{field: value})
    assert reply.code == 100
    assert field in reply.msg and "enhanced" in reply.msg
    assert ask_orders(served, shopper.token, vvtype="1", **{field: value}).code == 0
    assert ask_orders(served, shopper.token, vvtype="2").data["totalElements"] == 150


def test_a_part_may_be_in_an_encoding_of_mail(own: Store, served: Gateway, shopper: Caller) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=cut"}

    def asked(flag: str) -> Reply:
        head = (
            "Content-Transfer-Encoding: quoted-printable\r\nContent-Disposition: form-data; name="
        )
        sent = {"owner_id": SHOP.id, "remarkTagName": flag}
        parts = (f'--cut\r\n{head}"{name}"\r\n\r\n{sent[name]}\r\n' for name in sent)
        headers = {"Authorization": f"Bearer {shopper.token}", **kind}
        body = f"{''.join(parts)}--cut--\r\n"
        return reply_of(served.client.post(ORDERS.path, content=body, headers=headers))

    # Indy (Delphi) writes every text so, unless it is asked not to.
    assert asked("=E5=8A=A0=E6=80=A5").data["totalElements"] == 3
    wrong = asked("=E5=8A=A0=E6=8")
    assert (wrong.code, wrong.headers["x-tollway-reason"]) == (100, "BODY_UNREADABLE")
    assert "parameter remarkTagName" in wrong.msg
    assert credits_left(own, shopper) == CREDITS - 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("remarkTagName", " 加急\r\n"), ("remarkTagName", "加急\u3000"), ("remark", "尽快发货\n")],
)
def test_what_comes_around_a_text_to_search_for_is_no_part_of_it(
    served: Gateway, shopper: Caller, field: str, value: str
) -> None:
    # Flags are stored without spaces around them, and a line ends where a file was read.
    assert ask_orders(served, shopper.token, **{field: value}).data["totalElements"] == 3
    # A remark is searched for with its spaces.
    assert ask_orders(served, shopper.token, remark="发货 ").data["totalElements"] == 0


def test_100_a_body_that_is_no_form(served: Gateway, shopper: Caller) -> None:
    headers = {"Authorization": f"Bearer {shopper.token}", "Content-Type": "application/json"}
    reply = reply_of(served.client.post(ORDERS.path, content=b"{}", headers=headers))
    assert reply.code == 100


def test_203_204_401_404(own: Store, served: Gateway, shopper: Caller) -> None:
    assert ask_orders(served, "tw_live_unknown").code == 401
    assert ask_orders(served, new_shopper(own, granted=False).token).code == 204
    poor = ask_orders(served, new_shopper(own, credits_=0).token)
    assert poor.code == 204
    assert "0 left" in poor.msg and "costs 1" in poor.msg
    assert served.get(ORDERS.path, token=shopper.token).code == 404
    own.do(lambda database: set_closed(database, ORDERS.name, is_closed=True))
    assert ask_orders(served, shopper.token).code == 203
    own.do(lambda database: set_closed(database, ORDERS.name, is_closed=False))
    assert credits_left(own, shopper) == CREDITS


def test_101_200_202_are_free(tmp_path: Path) -> None:
    store = Store(tmp_path / "tollway.db")
    put_orders(store, [order()])
    shopper = new_shopper(store)
    gateway = Gateway(store, call_timeout_s=1)
    with store.held():
        assert ask_orders(gateway, shopper.token).code == 101
    assert gateway.stop() == 0
    # Another one, that is in no such hurry.
    gateway = Gateway(store)
    _, codes = at_once(
        lambda: new_shopper(store, rate_limit=1),
        lambda hasty: [ask_orders(gateway, hasty.token).code for _ in range(2)],
    )
    assert codes == [0, 202]
    store.run("DROP TABLE shop_order")
    reply = ask_orders(gateway, shopper.token)
    assert (reply.code, reply.data) == (200, {})
    assert "shop_order" not in reply.msg
    assert credits_left(store, shopper) == CREDITS
    gateway.stop()


def test_the_sandbox_has_orders_of_its_own_for_nothing(own: Store, served: Gateway) -> None:
    tester = new_shopper(own, kind="test")
    reply = ask_orders(served, tester.token, pageSize="3")
    assert (reply.code, reply.data["withholding_money"]) == (0, 0)
    assert len(reply.data["content"]) == 3
    assert credits_left(own, tester) == CREDITS
