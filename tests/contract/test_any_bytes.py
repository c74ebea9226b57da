"""Whatever bytes arrive, reading them ends in values or in a refusal with a message."""

import gzip
import json
from collections.abc import Callable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from tollway.contract.decoding import Decoder
from tollway.contract.envelope import encode_data
from tollway.contract.reasons import Refusal
from tollway.contract.request_parsing import read_body, read_form, read_query, unpacked
from tollway.operations.product_analysis.operation import ProductAnalysisRequest

DECODE = Decoder(ProductAnalysisRequest).decode
NAMES = st.sampled_from(["product_id", "query_date", "\ud800", "\0", ""]) | st.text(max_size=5)


def is_read_or_refused(read: Callable[[], Mapping[str, object]]) -> None:
    """Any other exception fails the test by itself."""
    try:
        DECODE(read())
    except Refusal as refusal:
        for language in ("en", "zh"):
            assert json.loads(encode_data(refusal.message(language)))


@given(st.binary())
def test_of_a_query(query: bytes) -> None:
    is_read_or_refused(lambda: read_query(query))


@given(st.lists(st.sampled_from([b"&", b"=", b"%", b"+", b"00", b"\xff", b"product_id"])))
def test_of_a_query_made_of_what_matters_in_one(pieces: list[bytes]) -> None:
    is_read_or_refused(lambda: read_query(b"".join(pieces)))


@given(st.text(st.characters(max_codepoint=255)), st.binary())
def test_of_a_form(content_type: str, body: bytes) -> None:
    is_read_or_refused(lambda: read_form(content_type, body))


@given(
    st.sampled_from(["", "text/plain", "application/json; charset=gbk"]),
    st.binary() | st.lists(st.sampled_from([b"--x\r\n", b"{", b"=", b"&", b"a"])).map(b"".join),
)
def test_of_a_body_of_any_kind(content_type: str, body: bytes) -> None:
    is_read_or_refused(lambda: read_body(content_type, body))


@given(st.binary(), st.integers(0, 20))
def test_of_a_packed_body(body: bytes, cut: int) -> None:
    for packed in (body, gzip.compress(body)[: -cut or None]):
        is_read_or_refused(lambda packed=packed: read_body("", unpacked("gzip", packed, 50)))


@given(
    st.text(st.characters(max_codepoint=255)),
    st.lists(
        st.sampled_from(
            [b"--cut", b"--", b"\r\n", b"\n", b'Content-Disposition: form-data; name="a"', b"\xff"]
        )
        | st.binary(max_size=5)
    ),
)
def test_of_a_form_made_of_what_matters_in_one(parameter: str, pieces: list[bytes]) -> None:
    content_type = f"multipart/form-data; boundary=cut;{parameter}"
    is_read_or_refused(lambda: read_form(content_type, b"".join(pieces)))


@given(st.binary())
def test_of_a_json_body(body: bytes) -> None:
    is_read_or_refused(lambda: read_body("application/json", body))


@given(st.lists(st.sampled_from('{}[],:"\\0e.-1') | st.sampled_from(["NaN", "null", "\\ud800"])))
def test_of_a_json_body_made_of_what_matters_in_one(pieces: list[str]) -> None:
    is_read_or_refused(lambda: read_body("application/json", "".join(pieces).encode()))


@given(
    st.lists(
        st.tuples(
            NAMES,
            st.recursive(
                st.none() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
                lambda inner: (
                    st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
                ),
                max_leaves=3,
            ),
        ),
        max_size=4,
    )
)
def test_of_a_json_object_with_names_that_repeat(pairs: list[tuple[str, object]]) -> None:
    members = ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs)
    is_read_or_refused(lambda: read_body("application/json", f"{{{members}}}".encode()))
