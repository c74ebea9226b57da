"""The envelope is valid JSON, with its five fields in their order, around anything."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tollway.contract.envelope import (
    LIST_TO_COME,
    NO_DATA,
    as_repetition,
    encode_data,
    encode_envelope,
    template_around,
)

PAYLOADS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@given(
    code=st.integers(0, 999),
    msg=st.text(),
    msec=st.integers(0, 10**9),
    time_s=st.integers(0, 10**11),
    data=st.dictionaries(st.text(), PAYLOADS, max_size=3),
)
def test_any_message_and_payload_come_back(
    code: int, msg: str, msec: int, time_s: int, data: dict[str, object]
) -> None:
    body = encode_envelope(code, encode_data(msg), msec, time_s, encode_data(data))
    envelope = json.loads(body)
    assert list(envelope) == ["code", "msg", "msec", "time", "data"]
    assert list(envelope.values()) == [code, msg, msec, time_s, data]


def test_no_data_is_an_empty_object() -> None:
    envelope = json.loads(encode_envelope(404, encode_data('say "no"'), 0, 1, NO_DATA))
    assert envelope == {"code": 404, "msg": 'say "no"', "msec": 0, "time": 1, "data": {}}


def test_a_repetition_takes_nothing_and_no_text_of_a_record_is_changed() -> None:
    said = '"withholding_money":5'
    data = {"content": [{"remark": said, "withholding_money": 7}], said: 1, "withholding_money": 12}
    assert json.loads(as_repetition(encode_data(data))) == {
        "content": [{"remark": said, "withholding_money": 0}],
        said: 1,
        "withholding_money": 0,
    }


def test_lists_are_put_into_a_template_and_percent_signs_stay() -> None:
    template = template_around({"a": LIST_TO_COME, "name": "100 %b %d%", "b": LIST_TO_COME})
    assert template % (b"[1]", b'["%"]') == b'{"a":[1],"name":"100 %b %d%","b":["%"]}'
