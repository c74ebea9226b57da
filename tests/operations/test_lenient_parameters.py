"""What clients send besides the plain form: blanks, spaces, other spellings, written times, names
that are not known. Asked of a small world through real HTTP."""

import gzip
import json
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.all_operations import (
    SHANGHAI,
    all_operations_caller,
    ask,
    good_request,
)
from tests.support.gateway import Gateway, Reply, reply_of
from tests.support.ledger import Caller, amount_left
from tests.support.stores import Store
from tests.support.waybills import without_charge
from tollway.contract.operation import Operation
from tollway.ledger.usage import day_start_s
from tollway.operations.catalogue import BY_NAME, OPERATIONS

FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def served(world: Store) -> Iterator[Gateway]:
    with Gateway(world) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def caller(world: Store) -> Caller:
    return all_operations_caller(world, rate_limit=1000)


class Asker:
    """Asks with a good request, and changes to it."""

    def __init__(self, gateway: Gateway, caller: Caller, today: date) -> None:
        self._gateway, self._caller, self._today = gateway, caller, today

    def __call__(self, name: str, **changes: Any) -> Reply:
        operation = BY_NAME[name]
        sent = {**good_request(operation, self._today), **changes}
        sent = {name: value for name, value in sent.items() if value is not ...}
        return ask(self._gateway, operation, self._caller.token, sent)


@pytest.fixture
def asking(served: Gateway, caller: Caller, today: date) -> Asker:
    return Asker(served, caller, today)


def test_the_last_page_that_a_number_can_name_is_empty_and_a_success(asking: Asker) -> None:
    for name, field in (
        ("coupon_claims", "page"),
        ("orders", "page"),
        ("promotion_material", "page_num"),
    ):
        answer = asking(name, **{field: str(2**31 - 1)})
        assert answer.code == 0, (name, answer.msg)
        assert not answer.data.get("dataList", answer.data.get("content"))


def test_an_optional_parameter_that_is_blank_is_left_out(asking: Asker) -> None:
    every = ("vvtype", "page", "pageSize", "start_time", "end_time")
    filters = ("remark", "remarkTag", "remarkTagName")
    plain = asking("orders").data
    assert asking("orders", **dict.fromkeys((*every, *filters), "")).data == plain
    assert asking("orders", **dict.fromkeys((*every, *filters), "  ")).data == plain
    # No filter was sent, so the normal edition takes it too.
    assert asking("orders", vvtype="2", **dict.fromkeys(filters, "")).code == 0
    assert asking("promotion_material", page_size="", page_num=" ").code == 0
    issued = asking("waybills", vvtype="", shopCode="")
    assert (issued.code, issued.data["code"]) == (0, 1)


@pytest.mark.parametrize(
    ("operation", "field"),
    [
        ("product_analysis", "product_id"),
        ("coupon_claims", "sid"),
        ("orders", "owner_id"),
        ("promotion_material", "site_id"),
        ("waybills", "receiver_name"),
        ("waybills", "receiver_town"),
    ],
)
def test_100_a_required_parameter_that_is_blank_is_missing(
    asking: Asker, operation: str, field: str
) -> None:
    for blank in ("", "  "):
        reply = asking(operation, **{field: blank})
        assert (reply.code, reply.data) == (100, {})
        assert f"{field} is missing" in reply.msg


@pytest.mark.parametrize("field", ["owner_id", "ownerId"])
def test_100_a_parameter_in_the_query_of_a_post_is_named_with_its_place(
    served: Gateway, caller: Caller, field: str
) -> None:
    path, token = BY_NAME["orders"].path, {"Authorization": f"Bearer {caller.token}"}
    reply = reply_of(served.client.post(path, params={field: "1"}, headers=token))
    assert reply.code == 100 and reply.msg.endswith(", in the body and not in the query string.")
    chinese = {**token, "Accept-Language": "zh"}
    reply = reply_of(served.client.post(path, params={field: "1"}, headers=chinese))
    assert reply.msg.endswith("（放在请求体中，而不是查询字符串中）。")
    # Another one there says nothing about the place, nor does a query that cannot be read.
    for query in ("pageSize=1", "owner_id=%zz"):
        reply = reply_of(served.client.post(f"{path}?{query}", headers=token))
        assert reply.code == 100 and reply.msg.endswith("characters.")


def test_100_a_parameter_in_the_query_of_a_post_is_never_ignored_silently(
    served: Gateway, world: Store, caller: Caller, today: date
) -> None:
    def asked(query: str, body: dict[str, str]) -> Reply:
        token = {"Authorization": f"Bearer {caller.token}"}
        return reply_of(served.client.post(f"{orders.path}?{query}", data=body, headers=token))

    orders = BY_NAME["orders"]
    good = {**good_request(orders, today), "pageSize": "5"}
    before = amount_left(world, caller, "credits")
    # A filter that would not be applied, another value than in the body, and one that is wrong.
    for query in ("remarkTag=1", "page_size=6", "page=x"):
        reply = asked(query, good)
        assert (reply.code, reply.data) == (100, {})
        assert query.split("=")[0] in reply.msg
        assert reply.msg.endswith(", in the body and not in the query string.")
    # A slip of the pen, as in a body.
    for query, known in (("remark_tagg=1", "remarkTag"), ("Pagesize=6", "pageSize")):
        reply = asked(query, good)
        assert (reply.code, reply.headers["x-tollway-reason"]) == (100, "PARAMETER_UNKNOWN")
        assert query.split("=")[0] in reply.msg and known in reply.msg
    # One that cannot be read, or has two values, hides none of the others.
    for query, reason, named in (
        ("remarkTag=1&utm=%zz", "BODY_UNREADABLE", "parameter utm of the query string"),
        ("page=%ff", "BODY_UNREADABLE", "parameter page of the query string"),
        ("pageSize=5&pageSize=6", "PARAMETER_REPEATED", "pageSize"),
    ):
        reply = asked(query, good)
        assert (reply.code, reply.headers["x-tollway-reason"]) == (100, reason)
        assert named in reply.msg
    assert amount_left(world, caller, "credits") == before
    plain = asked("", good)
    for query in ("page=0&pageSize=5", "remark="):
        assert asked(query, good).data == plain.data
    reply = asked("sign=1&pageSize=5", {**good, "v": "2"})
    assert reply.data == plain.data and reply.headers["x-ignored-parameters"] == "v, sign"


def test_100_a_parameter_in_the_body_of_a_get_is_named_with_its_place(
    served: Gateway, caller: Caller
) -> None:
    path, token = BY_NAME["product_analysis"].path, {"Authorization": f"Bearer {caller.token}"}
    sent = {"json": {"product_id": "1"}, "headers": token}
    reply = reply_of(served.client.request("GET", path, **sent))
    assert reply.code == 100 and reply.msg.endswith(", in the query string and not in the body.")
    # What is wrong with a value stays what it is.
    wrong = {"product_id": "1", "query_date": "today"}
    reply = reply_of(served.client.request("GET", path, params=wrong, **sent))
    assert reply.msg.endswith("it is in another form. Send a date as YYYY-MM-DD.")
    assert "in the body" not in reply_of(served.client.get(path, headers=token)).msg


def test_spaces_around_a_value_are_no_part_of_it(asking: Asker, today: date) -> None:
    for operation in OPERATIONS:
        sent = good_request(operation, today)
        spaced = {name: f" {value}\u3000" for name, value in sent.items()}
        # Each waybill is for an order of its own; all else is what the plain request gets.
        plain = asking(operation.name).data
        found = asking(operation.name, **spaced).data
        if operation.name == "waybills":
            assert found["code"] == 1 and found["orderSn"].strip() == found["orderSn"]
        else:
            assert found == plain


def test_a_carriers_code_is_taken_in_any_case(asking: Asker, today: date) -> None:
    sent = good_request(BY_NAME["waybills"], today)
    first = asking("waybills", **{**sent, "wp_code": sent["wp_code"].lower()})
    again = asking("waybills", **sent)
    assert first.data["code"] == 1
    assert again.data["waybillCode"] == first.data["waybillCode"]


def test_a_filter_under_the_answers_own_name_is_a_filter(asking: Asker) -> None:
    shown = asking("orders").data
    by_wire_name = asking("orders", remarkTag="1", remarkTagName="急", pageSize="5").data
    by_answers = asking("orders", remark_tag="1", remark_tag_name="急", page_size="5").data
    assert by_answers == by_wire_name
    assert by_answers["pageSize"] == 5 and by_answers["totalElements"] < shown["totalElements"]
    wrong = asking("waybills", shop_code="no-such-code")
    assert (wrong.code, wrong.headers["x-tollway-reason"]) == (100, "SHOP_CODE_WRONG")
    assert asking("waybills", order_sn=..., orderSn="WIRE-0000001").data["orderSn"]


def _in_the_other_case(name: str) -> str:
    first, *others = name.split("_")
    if others:
        return first + "".join(each.capitalize() for each in others)
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_every_parameter_is_taken_in_the_other_case(
    asking: Asker, today: date, operation: Operation
) -> None:
    sent = good_request(operation, today)
    plain = asking(operation.name, **sent)
    changed = {_in_the_other_case(name): value for name, value in sent.items()}
    # Those of one word have one spelling, and are sent as they are.
    reply = asking(operation.name, **{**dict.fromkeys(sent, ...), **changed})
    assert reply.code == 0 and "x-ignored-parameters" not in reply.headers
    assert without_charge(reply.data) == without_charge(plain.data)


def test_100_one_parameter_under_two_names_with_two_values(asking: Asker) -> None:
    reply = asking("orders", pageSize="5", page_size="6")
    assert (reply.code, reply.data) == (100, {})
    assert "pageSize" in reply.msg and "page_size" in reply.msg


def test_100_a_wrong_value_is_reported_under_the_name_that_was_sent(asking: Asker) -> None:
    reply = asking("promotion_material", promotion_id=..., material_id="abc")
    assert (reply.code, reply.data) == (100, {})
    assert "material_id is not valid" in reply.msg


@pytest.mark.parametrize("name", ["Pagesize", "pagesize", "page_sise", "pageSizes", "PAGE_SIZE"])
def test_100_a_name_that_looks_like_a_known_one(
    asking: Asker, world: Store, caller: Caller, name: str
) -> None:
    before = amount_left(world, caller, "credits")
    reply = asking("orders", **{name: "5"})
    assert (reply.code, reply.data) == (100, {})
    assert name in reply.msg and "pageSize" in reply.msg
    assert amount_left(world, caller, "credits") == before


def test_100_parameters_that_are_separated_as_in_xml(
    served: Gateway, world: Store, caller: Caller
) -> None:
    token = {"Authorization": f"Bearer {caller.token}"}
    before = amount_left(world, caller, "credits")
    orders, analysis = BY_NAME["orders"], BY_NAME["product_analysis"]
    # What PHP sends if arg_separator.output is &amp;, for one.
    for reply in (
        posted(served, caller, orders, b"owner_id=1&amp;page=3", Content_Type=FORM),
        posted(served, caller, orders, b"owner_id=1&amp;page=3"),
    ):
        assert (reply.code, reply.headers["x-tollway-reason"]) == (100, "PARAMETER_UNKNOWN")
        assert "amp;page " in reply.msg and " page" in reply.msg
    query = "product_id=1&amp;query_date=2026-11-18"
    reply = reply_of(served.client.get(f"{analysis.path}?{query}", headers=token))
    assert (reply.code, reply.headers["x-tollway-reason"]) == (100, "PARAMETER_UNKNOWN")
    assert "amp;query_date" in reply.msg
    assert amount_left(world, caller, "credits") == before


@pytest.mark.parametrize("name", ["sidd", "s_ids", "sdi", "SID"])
def test_100_a_name_of_three_letters_with_one_more_or_two_swapped(asking: Asker, name: str) -> None:
    reply = asking("coupon_claims", **{name: "x"})
    assert (reply.code, reply.data) == (100, {})
    assert name in reply.msg and "sid" in reply.msg


@pytest.mark.parametrize("name", ["pid", "uid", "id", "side_id"])
def test_another_name_of_few_letters_is_ignored(asking: Asker, name: str) -> None:
    reply = asking("coupon_claims", **{name: "x"})
    assert reply.code == 0 and reply.headers["x-ignored-parameters"] == name


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_a_name_that_is_not_known_is_ignored_and_listed(
    asking: Asker, operation: Operation
) -> None:
    assert "x-ignored-parameters" not in asking(operation.name).headers
    # The same query twice: its request is cached, and what it said of the names too.
    for _ in range(2):
        reply = asking(operation.name, app_key="1", **{"名, 值": "2"})
        assert reply.code == 0
        listed = "app_key, %E5%90%8D%2C%20%E5%80%BC"
        assert reply.headers["x-ignored-parameters"] == listed


def test_many_names_that_are_not_known_are_listed_shortly(asking: Asker) -> None:
    names = [f"unknown-{n}-{'名' * 35}" for n in range(20)]
    reply = asking("promotion_material", **dict.fromkeys(names, 1))
    listed = reply.headers["x-ignored-parameters"].split(", ")
    assert reply.code == 0 and len(listed) == 11 and listed[-1] == "..."


def _spellings(day: date) -> list[str]:
    """The beginning of a day: alone, to the minute, to the second, with an offset."""
    in_utc = f"{day - timedelta(days=1)}T16:00:00Z"
    return [f"{day}", f"{day} 00:00", f"{day}T00:00:00", f"{day}T00:00:00+08:00", in_utc]


def test_a_time_may_be_written_out(asking: Asker, today: date) -> None:
    day = today - timedelta(days=1)
    every = asking("orders", pageSize="1").data["totalElements"]
    for end in ("start_time", "end_time"):
        plain = asking("orders", pageSize="1", **{end: str(day_start_s(day, SHANGHAI))}).data
        assert 0 < plain["totalElements"] < every
        for written in _spellings(day):
            assert asking("orders", pageSize="1", **{end: written}).data == plain
    # The window begins two days ago, and ends a day ago.
    plain = asking("coupon_claims").data
    assert plain["total"] > 0
    for end, begins in (("startTime", today - timedelta(days=2)), ("endTime", day)):
        for written in _spellings(begins):
            assert asking("coupon_claims", **{end: written}).data == plain


@pytest.mark.parametrize(
    ("operation", "parameter", "value"),
    [
        ("orders", "start_time", "20261117"),
        ("orders", "end_time", "20261117"),
        ("orders", "start_time", "20261117080000"),
        ("coupon_claims", "startTime", "20261117"),
    ],
)
def test_100_a_date_without_separators_is_not_taken_for_a_timestamp_and_paid_for(
    asking: Asker, world: Store, caller: Caller, operation: str, parameter: str, value: str
) -> None:
    before = amount_left(world, caller, "credits")
    reply = asking(operation, **{parameter: value})
    assert (reply.code, reply.data) == (100, {})
    assert parameter in reply.msg and "without separators. Send" in reply.msg
    assert amount_left(world, caller, "credits") == before


def posted(
    served: Gateway, caller: Caller, operation: Operation, body: bytes, **headers: str
) -> Reply:
    sent = {"Authorization": f"Bearer {caller.token}"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    request = served.client.build_request("POST", operation.path, content=body, headers=sent)
    return reply_of(served.client.send(request))


def test_bodies_come_in_other_encodings(served: Gateway, caller: Caller, today: date) -> None:
    orders, waybills = BY_NAME["orders"], BY_NAME["waybills"]
    form = urlencode(good_request(orders, today)).encode()
    plain = posted(served, caller, orders, form, Content_Type=FORM)
    assert plain.data["totalElements"] > 0
    text = json.dumps(good_request(waybills, today), ensure_ascii=False)
    issued = posted(served, caller, waybills, text.encode(), Content_Type="application/json")
    assert issued.data["code"] == 1
    for again in (
        posted(served, caller, orders, form),
        posted(served, caller, orders, json.dumps(good_request(orders, today)).encode()),
        posted(served, caller, orders, gzip.compress(form), Content_Encoding="gzip"),
    ):
        assert again.data == plain.data
    as_form = urlencode(json.loads(text), encoding="gbk").encode()
    # What curl -d declares, what a script without a library sends, and what Windows saves.
    for again in (
        posted(served, caller, waybills, text.encode(), Content_Type=FORM),
        posted(served, caller, waybills, text.encode(), Content_Type="text/plain"),
        posted(served, caller, waybills, text.encode()),
        posted(served, caller, waybills, b"\xef\xbb\xbf" + text.encode()),
        posted(
            served,
            caller,
            waybills,
            text.encode("gbk"),
            Content_Type="application/json;charset=GBK",
        ),
        posted(served, caller, waybills, as_form, Content_Type=f"{FORM}; charset=GBK"),
        posted(served, caller, waybills, gzip.compress(text.encode()), Content_Encoding="gzip"),
    ):
        assert again.data["waybillCode"] == issued.data["waybillCode"]


def test_100_a_packed_body_is_no_way_around_the_limit(served: Gateway, caller: Caller) -> None:
    body = gzip.compress(b"owner_id=" + b"x" * 5_000_000)
    reply = posted(served, caller, BY_NAME["orders"], body[:16_000], Content_Encoding="gzip")
    assert (reply.code, reply.data) == (100, {})
    assert "larger than" in reply.msg
