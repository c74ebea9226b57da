"""Parameters in a form body: multipart and urlencoded, whole and broken."""

import gzip
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollway.contract.reasons import Reason, Refusal
from tollway.contract.request_parsing import (
    UTF8,
    _multipart_pairs,
    _plain_pairs,
    read_body,
    read_form,
    unpacked,
)

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
        (
            MULTIPART,
            part("a", b"\xff") + END,
            "parameter a of the request body cannot be read: it is not valid UTF-8",
        ),
        (MULTIPART, ONE * 101 + END, "more than 100 parameters"),
        (
            URLENCODED,
            b"a=%ff",
            "parameter a of the request body cannot be read: it is not valid UTF-8",
        ),
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


PIECES = [
    b"--cut", b"--cut--", b"--cu", b"\r\n", b"\n", b"--", b"cut", b'"', b"; ", b"x", b"\xff", b"\0",
    b'Content-Disposition: form-data; name="a"', b'content-disposition: form-data; name="b"',
    b'Content-Disposition: form-data; name=""', b"Content-Type: text/plain; charset=gbk", b": ",
    ONE, part("b", b"2"), part("b", b"1\r\n2"), part("b", b"1", '; filename="f"'), END,
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join))
def test_what_is_read_as_a_plain_form_is_what_the_parser_of_all_forms_reads(body: bytes) -> None:
    plain = _plain_pairs(MULTIPART, body)
    if plain:
        assert plain == list(_multipart_pairs("cut", body, UTF8))


@given(st.lists(st.tuples(st.sampled_from(["a", "b_2"]), st.text()), min_size=1, max_size=9))
def test_a_form_of_names_and_values_is_read_as_a_plain_one(pairs: list[tuple[str, str]]) -> None:
    body = b"".join(part(name, value.encode()) for name, value in pairs) + END
    if "cut" not in body.decode().replace("--cut", ""):
        assert _plain_pairs(MULTIPART, body) == pairs


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json", "; ;=;", MULTIPART])
def test_a_form_that_is_not_declared_is_read_if_it_plainly_is_one(content_type: str) -> None:
    assert read_body(content_type, b"a=1&b=%E4%BD%A0+x") == {"a": "1", "b": "你 x"}


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/json", "multipart/form-data", "multipart/mixed; boundary=cut"],
)
def test_parts_that_are_not_declared_are_read_by_their_first_line(content_type: str) -> None:
    assert read_body(content_type, ONE + END) == {"a": "1"}


def test_no_body_at_all_has_no_parameters() -> None:
    assert read_body("", b"") == {}


@pytest.mark.parametrize(
    "boundary", ["----=_Part_0_1.2", "===============123==", "a/b:c(d)?", "a b"]
)
def test_a_boundary_that_would_need_quotes_is_taken_without_them(boundary: str) -> None:
    body = (ONE + END).replace(b"cut", boundary.encode())
    for more in ("", "; charset=utf-8"):
        declared = f"multipart/form-data; boundary={boundary}{more}"
        assert read_body(declared, body) == read_form(declared, body) == {"a": "1"}


def test_parts_with_another_boundary_than_the_declared_one_are_refused() -> None:
    with pytest.raises(Refusal) as refused:
        read_body("multipart/form-data; boundary=other", ONE + END)
    assert "boundary" in refused.value.message("en")


@pytest.mark.parametrize(
    "body", [b"hello", b"a=1\nb=2", b"<a b=1>", b"--\r\n", b"a b=1", b"=1", b"a=1&&b=2"]
)
def test_what_is_neither_a_form_nor_json_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        read_body("text/plain", body)
    assert refused.value.reason is Reason.BODY_UNREADABLE


@pytest.mark.parametrize("kind", ["GBK", "gb18030"])
def test_a_form_in_a_chinese_charset_is_read(kind: str) -> None:
    named = {"城市": "深圳 \\&=+%"}
    whole = part("x", "深圳 \\&=+%".encode("gbk")).replace(b'"x"', '"城市"'.encode("gbk")) + END
    assert read_form(f"{MULTIPART}; charset={kind}", whole) == named
    own = part("a", "深圳".encode("gbk")).replace(
        b"\r\n\r\n", f"\r\nContent-Type: text/plain; charset={kind}\r\n\r\n".encode()
    )
    assert read_form(MULTIPART, own + part("b", "深圳".encode()) + END) == dict.fromkeys(
        "ab", "深圳"
    )
    quoted = urlencode({"城市": "深圳 \\&=+%"}, encoding="gbk").encode()
    assert read_form(f"{URLENCODED}; charset={kind}", quoted) == named
    assert read_form(f"{URLENCODED}; charset={kind}", "a=深圳".encode("gbk")) == {"a": "深圳"}


def transferred(content: bytes, encoding: str, kind: str = "text/plain") -> bytes:
    """A form with a part in an encoding of mail, between two plain ones."""
    heads = f"\r\nContent-Type: {kind}\r\ncontent-transfer-encoding: {encoding}\r\n\r\n"
    encoded = part("b", content).replace(b"\r\n\r\n", heads.encode(), 1)
    return ONE + encoded + part("c", b"=E5") + END


@pytest.mark.parametrize(
    ("encoding", "content", "value"),
    [
        *((same, b"=E5+/8=", "=E5+/8=") for same in ("7bit", "8BIT", "binary", "")),
        ("quoted-printable", b"=E5=8A=a0=E6=80=A5", "加急"),
        (" Quoted-Printable ", b"a=3D1 =\r\n_=\nb=\r\n", "a=1 _b"),
        ("quoted-printable", b"a=", "a"),
        ("quoted-printable", b"", ""),
        ("base64", b"5Yqg5oCl", "加急"),
        ("BASE64", b"5Yqg\r\n5oCl\r\n", "加急"),
        ("base64", b"YQ==", "a"),
        ("base64", b"", ""),
    ],
)
def test_a_part_is_decoded_from_its_transfer_encoding(
    encoding: str, content: bytes, value: str
) -> None:
    read = read_form(MULTIPART, transferred(content, encoding))
    assert read == {"a": "1", "b": value, "c": "=E5"}


def test_a_part_is_decoded_from_its_transfer_encoding_before_its_charset() -> None:
    for encoding, content in (("quoted-printable", b"=BC=D3=BC=B1"), ("base64", b"vNO8sQ==")):
        form = transferred(content, encoding, "text/plain; charset=gbk")
        assert read_form(MULTIPART, form)["b"] == "加急"


@pytest.mark.parametrize(
    ("encoding", "content", "problem"),
    [
        *(("quoted-printable", wrong, "quoted-printable") for wrong in (b"=E", b"a=zz", b"==3D")),
        *(("base64", wrong, "base64") for wrong in (b"5Yqg5oC", b"5Yq=g5oCl", b"5Yqg!oCl")),
        ("base64", b"YQ=", "base64"),
        ("uuencode", b"x", "Content-Transfer-Encoding is not known"),
        ("quoted-printable", b"=FF", "UTF-8"),
    ],
)
def test_a_part_that_is_not_what_its_transfer_encoding_says_is_refused_by_name(
    encoding: str, content: bytes, problem: str
) -> None:
    with pytest.raises(Refusal) as refused:
        read_form(MULTIPART, transferred(content, encoding))
    assert refused.value.reason is Reason.BODY_UNREADABLE
    assert "parameter b of the request body" in refused.value.message("en")
    assert problem in refused.value.message("en")
    assert "请求体中的参数 b" in refused.value.message("zh")


def _packed(body: bytes) -> bytes:
    """The same bytes at any time, so that all processes name a test alike."""
    return gzip.compress(body, mtime=0)


@pytest.mark.parametrize("packing", ["gzip", " X-GZIP "])
def test_a_packed_body_is_unpacked_within_the_limit(packing: str) -> None:
    packed = gzip.compress(b"a" * 1000)
    assert unpacked(packing, packed, 1000) == b"a" * 1000
    with pytest.raises(Refusal) as refused:
        unpacked(packing, packed, 999)
    assert refused.value.reason is Reason.BODY_TOO_LARGE
    assert unpacked("identity", b"x", 10) == b"x"


@pytest.mark.parametrize(
    ("packing", "body"),
    [
        ("gzip", _packed(b"a=1")[:-1]),
        ("gzip", _packed(b"a=1") + b"x"),
        ("gzip", b"a=1"),
        ("gzip", b""),
        ("br", b"a=1"),
        ("gzip, gzip", _packed(_packed(b"a=1"))),
    ],
)
def test_a_body_that_cannot_be_unpacked_is_refused(packing: str, body: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        unpacked(packing, body, 1000)
    assert refused.value.reason is Reason.BODY_UNREADABLE
    assert "gzip" in refused.value.message("en") and "gzip" in refused.value.message("zh")
