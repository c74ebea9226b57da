"""Parameters in a JSON body: what is taken, and what ends in a clear refusal."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollway.contract.decoding import Decoder
from tollway.contract.json_limits import PARTS_MAX
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.request_parsing import read_body
from tollway.operations.product_analysis.operation import ProductAnalysisRequest

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


def refusal(body: bytes, content_type: str = JSON) -> Refusal:
    with pytest.raises(Refusal) as refused:
        read_body(content_type, body)
    return refused.value


@pytest.mark.parametrize(
    "content_type",
    [
        JSON,
        "",
        "Application/JSON",
        f"{JSON}; charset=utf-8",
        "text/plain",
        FORM,
        "application/x",
        "multipart/form-data",
        "multipart/form-data; boundary=cut",
    ],
)
def test_an_object_is_read(content_type: str) -> None:
    body = ' {"a": 1, "b": "你", "c": null, "d": {"e": [1.5, true]}} '.encode()
    values = {"a": 1, "b": "你", "c": None, "d": {"e": [1.5, True]}}
    assert read_body(content_type, body) == values


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "it is empty"),
        (b" \r\n", "it is empty"),
        (b"{", "not valid JSON"),
        (b'{"a":1}x', "not valid JSON"),
        (b'{"a":1,}', "not valid JSON"),
        (b"{'a':1}", "not valid JSON"),
        (b"a=1&b=2 ", "not valid JSON"),
        (b'{"b":1,"a":NaN}', "parameter a of the request body cannot be read: it is NaN"),
        (b'{"a":Infinity}', "not valid JSON"),
        (b'{"a":[NaN]}', "not valid JSON"),
        (b'{"a":-Infinity}', "not valid JSON"),
        (b'{"a":01}', "not valid JSON"),
        (b'{"a":"\x00"}', "not valid JSON"),
        (b"\xef\xbb\xbf\xef\xbb\xbf{}", "not valid JSON"),
        (b"[" * 2000, "The request body cannot be read"),
        (b'{"a": ' + b"[" * 2000 + b"]" * 2000 + b"}", "more than 500 levels"),
        (b"[" * 100_000, "The request body cannot be read"),
        (b"[" * 100_000 + b"]" * 100_000, "The request body cannot be read"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "more than 500 levels"),
        (b'{"a":' + b"9" * 100_000 + b"}", "not valid JSON"),
        (
            b'{"b":"1","a":"\xff"}',
            "parameter a of the request body cannot be read: it is not valid UTF-8",
        ),
        (
            b'{"a":"\xed\xa0\x80"}',
            "parameter a of the request body cannot be read: it is not valid UTF-8",
        ),
        (b'{"a":["\xff"]}', "The request body cannot be read: it is not valid UTF-8"),
        (b'{"a":"\xff"', "it is not valid UTF-8"),
        ('{"a":1}'.encode("utf-16"), "UTF-8"),
        (b"null", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b'[{"a":1}]', "not a JSON object"),
        (b'"{}"', "not a JSON object"),
        (b"1", "not a JSON object"),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_what_is_no_json_object_is_refused(body: bytes, problem: str) -> None:
    refused = refusal(body)
    assert refused.reason is Reason.BODY_UNREADABLE
    assert problem in refused.message("en")


def test_an_object_has_500_levels_at_most_on_every_python() -> None:
    def nested(levels: int) -> bytes:
        return b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"

    assert read_body(JSON, nested(500)).keys() == {"a"}
    for levels in (501, 1000, 5000):
        refused = refusal(nested(levels))
        assert "it is nested on more than 500 levels" in refused.message("en")
        assert "嵌套超过 500 层" in refused.message("zh")


def test_a_slip_in_json_is_found_by_its_place() -> None:
    message = refusal('{"城市": "深圳",\n "a": 1 "b": 2}'.encode())
    assert "it is not valid JSON at line 2, column 9" in message.message("en")
    assert "第 2 行第 9 列不是有效的 JSON。请检查格式和编码。" in message.message("zh")


@pytest.mark.parametrize("content_type", [JSON, "text/plain", ""])
def test_a_mark_of_the_byte_order_is_skipped(content_type: str) -> None:
    assert read_body(content_type, b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


@pytest.mark.parametrize("charset", ["GBK", "gb2312", ' "GB18030"'])
def test_a_chinese_charset_is_honoured_where_it_is_declared(charset: str) -> None:
    body = '{"城市": "深圳"}'.encode("gbk")
    assert read_body(f"{JSON}; charset={charset}", body) == {"城市": "深圳"}
    assert "UTF-8" in refusal(body).message("en")
    assert "GBK" in refusal(b'{"a":"\xff"}', f"{JSON}; charset={charset}").message("en")


@pytest.mark.parametrize("charset", ["iso-8859-1", "us-ascii", "utf-16", "x" * 99])
def test_any_other_declared_charset_means_utf_8(charset: str) -> None:
    assert read_body(f"{JSON}; charset={charset}", '{"a": "深"}'.encode()) == {"a": "深"}


def test_a_name_twice_with_one_value_is_taken_once() -> None:
    assert read_body(JSON, b'{"a":[1,{"b":2}],"a":[1,{"b":2}]}') == {"a": [1, {"b": 2}]}


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"a":1,"a":2}', "a"),
        (b'{"a":1,"a":"1"}', "a"),
        (b'{"a":null,"a":1}', "a"),
        (b'{"a":1,"\\u0061":2}', "a"),
        (b'{"outer":{"inner":1,"inner":2}}', "inner"),
    ],
)
def test_a_name_twice_with_two_values_is_refused_by_name(body: bytes, named: str) -> None:
    refused = refusal(body)
    assert refused.reason is Reason.PARAMETER_REPEATED
    assert refused.values == {"field": named}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ('"\\ud800"', "half of a surrogate pair"),
        ('"a\\u0000b"', "NUL"),
        ("1e999", "not a text"),
        ("9" * 4000, "4000 characters"),
        ("[" * 400 + "]" * 400, "not a text"),
        ("true", "not a text"),
    ],
)
def test_a_value_that_json_allows_but_the_field_does_not_is_reported_by_field(
    value: str, problem: str
) -> None:
    raw = read_body(JSON, f'{{"product_id":{value},"query_date":"2026-01-01"}}'.encode())
    with pytest.raises(Refusal) as refused:
        Decoder(ProductAnalysisRequest).decode(raw)
    assert refused.value.reason is Reason.PARAMETER_INVALID
    assert "product_id" in refused.value.message("en")
    assert problem in refused.value.message("en")


@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=4,
        ),
        max_size=3,
    )
)
def test_what_a_client_encodes_comes_back(values: dict[str, object]) -> None:
    assert read_body(JSON, json.dumps(values).encode()) == values


def test_one_and_true_are_two_values() -> None:
    with pytest.raises(Refusal):
        read_body("application/json", b'{"a":1,"a":true}')


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({f"a{number}": 1 for number in range(101)}).encode(),
        b'{"a":[' + b"{}," * 101 + b"{}]}",
        json.dumps({f"a{number}": {"b": 1} for number in range(51)}).encode(),
    ],
    ids=["names", "empty objects", "names in objects"],
)
def test_more_than_100_parameters_are_refused(body: bytes) -> None:
    assert "more than 100 parameters" in refusal(body).message("en")


def test_100_parameters_are_taken() -> None:
    values = {f"a{number}": number for number in range(100)}
    assert read_body(JSON, json.dumps(values).encode()) == values


@pytest.mark.parametrize("part", [b"0", b"[]", b'""', b"[0]", b"0,\xff"])
def test_a_list_of_thousands_of_parts_is_refused_before_it_is_read(part: bytes) -> None:
    body = b'{"a":[' + b",".join([part] * PARTS_MAX) + b",0]}"
    assert f"it has more than {PARTS_MAX} parts" in refusal(body).message("en")
    body = b'{"a":[' + b",".join([b"0"] * (PARTS_MAX - 1)) + b"]}"
    assert len(read_body(JSON, body)["a"]) == PARTS_MAX - 1  # type: ignore[arg-type]
