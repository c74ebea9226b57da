"""Parameters in the query string."""

from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollway.contract.reasons import Reason, Refusal
from tollway.contract.request_parsing import read_query


@pytest.mark.parametrize(
    ("query", "values"),
    [
        (b"", {}),
        (b"a=1&b=2", {"a": "1", "b": "2"}),
        (b"a=1&a=1", {"a": "1"}),
        (b"&&a=1&&", {"a": "1"}),
        (b"a", {"a": ""}),
        (b"a=", {"a": ""}),
        (b"=1", {"": "1"}),
        (b"a=b=c", {"a": "b=c"}),
        (b"a=x+y%2Bz", {"a": "x y+z"}),
        (b"%61=%E4%BD%A0", {"a": "你"}),
        (b"a=1;b=2", {"a": "1;b=2"}),
        (b"a=%00", {"a": "\0"}),
        (b"a=1&a=&a=+&b=&b=2", {"a": "1", "b": "2"}),
        ("a=你".encode(), {"a": "你"}),
        (b"&".join(b"a%d=1" % number for number in range(100)), {f"a{n}": "1" for n in range(100)}),
    ],
)
def test_pairs_are_read(query: bytes, values: dict[str, str]) -> None:
    assert read_query(query) == values


@pytest.mark.parametrize(
    ("query", "reason", "problem"),
    [
        (b"a=1&a=2", Reason.PARAMETER_REPEATED, "Parameter a was sent more than once"),
        (b"a=1&%61=2", Reason.PARAMETER_REPEATED, "Parameter a was sent more than once"),
        (b"a=%", Reason.BODY_UNREADABLE, "%"),
        (b"a=%4", Reason.BODY_UNREADABLE, "%"),
        (b"a=%4g", Reason.BODY_UNREADABLE, "%"),
        (b"%u0041=1", Reason.BODY_UNREADABLE, "%"),
        (b"a=%ff", Reason.BODY_UNREADABLE, "UTF-8"),
        (b"%c0%80=1", Reason.BODY_UNREADABLE, "UTF-8"),
        (b"a=%ed%a0%80", Reason.BODY_UNREADABLE, "UTF-8"),
        (b"a=\xff", Reason.BODY_UNREADABLE, "UTF-8"),
        (b"a=1&" * 101, Reason.BODY_UNREADABLE, "more than 100 parameters"),
    ],
)
def test_what_can_be_misread_is_refused(query: bytes, reason: Reason, problem: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_query(query)
    assert refused.value.reason is reason
    assert problem in refused.value.message("en")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (b"b=1&a=%ff", "parameter a of the query string cannot be read: it is not valid UTF-8"),
        (b"b=1&a=%4", "parameter a of the query string cannot be read: a % is not followed"),
        (b"b=1&%ff=1", "The query string cannot be read: it is not valid UTF-8"),
    ],
)
def test_what_cannot_be_decoded_is_refused_by_name(query: bytes, problem: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_query(query)
    assert problem in refused.value.message("en")


def test_a_repeated_name_is_shown_without_what_cannot_be_printed_and_cut_short() -> None:
    name = quote("\r\n\x1b[31m" + "x" * 500)
    with pytest.raises(Refusal) as refused:
        read_query(f"{name}=1&{name}=2".encode())
    message = refused.value.message("en")
    assert "[31mxxx" in message and len(message) < 200
    assert message.isprintable()


@given(st.dictionaries(st.text(), st.text(), max_size=10))
def test_what_a_client_encodes_comes_back(values: dict[str, str]) -> None:
    assert read_query(urlencode(values).encode()) == values
