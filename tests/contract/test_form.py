"""Parameters in a form body: multipart and urlencoded, whole and broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollway.contract.parsing import read_form
from tollway.contract.reasons import Reason, Refusal

MULTIPART = "multipart/form-data; boundary=cut"
URLENCODED = "application/x-www-form-urlencoded"
END = b"--cut--\r\n"


def part(name: str, value: bytes, more: str = "") -> bytes:
    head = f'--cut\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + value + b"\r\n"


ONE = part("a", b"1")


@pytest.mark.parametrize(
    ("content_type", "body", "values"),
    [
        (MULTIPART, ONE + part("b", "你 &=+%".encode()) + END, {"a": "1", "b": "你 &=+%"}),
        (MULTIPART, ONE + ONE + END, {"a": "1"}),
        (MULTIPART, ONE + b"--cut--", {"a": "1"}),
        (MULTIPART, END, {}),
        (MULTIPART, part("a", b"") + END, {"a": ""}),
        (MULTIPART, part("a", b"x\r\n--cu") + END, {"a": "x\r\n--cu"}),
        (MULTIPART, part("a", b"1\0") + END, {"a": "1\0"}),
        (MULTIPART, part("名", b"1") + END, {"名": "1"}),
        (MULTIPART, part("a", b"1", '; filename="a.txt"') + END, {"a": "1"}),
        (MULTIPART, b"".join(part(f"a{n}", b"") for n in range(100)) + END, None),
        ('Multipart/Form-Data; charset=utf-8; Boundary="cut"', ONE + END, {"a": "1"}),
        (URLENCODED, b"a=1&b=%E4%BD%A0+x", {"a": "1", "b": "你 x"}),
        (URLENCODED, b"", {}),
        (f"{URLENCODED.upper()}; charset=UTF-8", b"a=1", {"a": "1"}),
    ],
)
def test_a_whole_form_is_read(
    content_type: str, body: bytes, values: dict[str, str] | None
) -> None:
    read = read_form(content_type, body)
    assert read == values if values is not None else len(read) == 100


@pytest.mark.parametrize(
    ("content_type", "body", "problem"),
    [
        ("multipart/form-data", ONE + END, "boundary"),
        ("multipart/form-data; boundary=", ONE + END, "boundary"),
        ("multipart/form-data; boundary=other", ONE + END, "boundary"),
        (f"multipart/form-data; boundary={'x' * 2000}", ONE + END, "boundary"),
        ('multipart/form-data; boundary="a\nb"', ONE + END, "boundary"),
        ("multipart/form-data; boundary=\xff", ONE + END, "boundary"),
        (MULTIPART, b"", "not whole"),
        (MULTIPART, ONE, "not whole"),
        (MULTIPART, ONE[:-2], "not whole"),
        (MULTIPART, ONE + b"--cut", "not whole"),
        (MULTIPART, b"a=1&b=2", "not whole"),
        (MULTIPART, ONE.replace(b"\r\n", b"\n") + END, "not whole"),
        (MULTIPART, b"--cut\r\n\r\n1\r\n" + END, "not whole"),
        (MULTIPART, b"--cut\r\nContent-Disposition: form-data\r\n\r\n1\r\n" + END, "not whole"),
        (MULTIPART, ONE.replace(b"form-data", b"attachment") + END, "not whole"),
        (MULTIPART, ONE.replace(b"name=", b"x: y\r\n" * 50 + b"name=") + END, "not whole"),
        (MULTIPART, ONE.replace(b'"a"', b'"\xff"') + END, "cannot be read"),
        (MULTIPART, part("a", b"\xff") + END, "UTF-8"),
        (MULTIPART, ONE * 101 + END, "more than 100 parameters"),
        (URLENCODED, b"a=%ff", "UTF-8"),
        (URLENCODED, b"a=%f", "%"),
        (URLENCODED, b"a=1&" * 101, "more than 100 parameters"),
        ("text/plain", b"a=1", "Content-Type"),
        ("application/json", b"{}", "Content-Type"),
        ("multipart/mixed; boundary=cut", ONE + END, "Content-Type"),
        ("", b"a=1", "Content-Type"),
        ("; ;=;", b"a=1", "Content-Type"),
    ],
)
def test_a_broken_form_is_refused_with_what_is_wrong(
    content_type: str, body: bytes, problem: str
) -> None:
    with pytest.raises(Refusal) as refused:
        read_form(content_type, body)
    assert refused.value.reason is Reason.BODY_UNREADABLE
    assert problem in refused.value.message("en")
    assert "请求体" in refused.value.message("zh")


@pytest.mark.parametrize(
    ("content_type", "body"),
    [(MULTIPART, ONE + part("a", b"2") + END), (URLENCODED, b"a=1&a=2")],
)
def test_a_name_with_two_values_is_refused_by_name(content_type: str, body: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        read_form(content_type, body)
    assert refused.value.reason is Reason.PARAMETER_REPEATED
    assert refused.value.values == {"field": "a"}


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters='"\\')).filter(
            str.strip
        ),
        st.text(),
        max_size=5,
    )
)
def test_what_a_client_sends_in_parts_comes_back(values: dict[str, str]) -> None:
    body = b"".join(part(name, value.encode()) for name, value in values.items()) + END
    assert read_form(MULTIPART, body) == values
