"""From raw values to a typed request: spellings, numbers as digits, null, unknown names."""

from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollway.contract.decoding import Decoder, declared_fields
from tollway.contract.fields import Choice, Field, Text, Whole
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.request_parsing import PARAMETERS_MAX
from tollway.operations.account_api import ACCOUNT_OPERATIONS
from tollway.operations.catalogue import OPERATIONS


class Parcel(msgspec.Struct, frozen=True):
    """A request with everything that a request can have."""

    order_sn: Annotated[str, Field(Text(max_length=64, min_length=8), "Order number.")]
    sender_mobile: Annotated[str, Field(Text(max_length=20), "Mobile.", "sender_phone")]
    promotion_id: Annotated[int, Field(Whole(1, 10**9), "Material id.", "material_id")] = 1
    vvtype: Annotated[int, Field(Choice(((1, "enhanced"), (2, "normal"))), "Edition.")] = 1
    remark: Annotated[str | None, Field(Text(max_length=5), "Remark.")] = None


PARCELS = Decoder(Parcel)
DECODE = PARCELS.decode
WHOLE_REQUEST = {"order_sn": "12345678", "sender_mobile": "138"}


def refusal(raw: dict[str, object]) -> Refusal:
    with pytest.raises(Refusal) as refused:
        DECODE(raw)
    return refused.value


def test_what_is_left_out_has_its_default() -> None:
    assert DECODE(WHOLE_REQUEST) == Parcel("12345678", "138", 1, 1, None)


def test_null_is_the_same_as_not_sent() -> None:
    assert DECODE({**WHOLE_REQUEST, "vvtype": None, "remark": None}) == DECODE(WHOLE_REQUEST)
    missing = refusal({**WHOLE_REQUEST, "order_sn": None})
    assert missing.reason is Reason.PARAMETER_MISSING
    assert "order_sn" in missing.message("en") and "8 to 64" in missing.message("en")


def test_a_null_in_one_spelling_leaves_the_other_in_force() -> None:
    raw = {"order_sn": "12345678", "sender_mobile": None, "sender_phone": "139"}
    assert DECODE(raw).sender_mobile == "139"
    missing = refusal({"order_sn": "12345678", "sender_mobile": None, "sender_phone": None})
    assert missing.reason is Reason.PARAMETER_MISSING


@pytest.mark.parametrize("name", ["sender_mobile", "sender_phone"])
def test_either_spelling_is_taken(name: str) -> None:
    assert DECODE({"order_sn": "12345678", name: "138"}).sender_mobile == "138"


@pytest.mark.parametrize(
    ("one", "other"), [("138", "138"), (37104, "37104"), ("37104", 37104), (37104, 37104)]
)
def test_both_spellings_with_one_value_are_taken(one: object, other: object) -> None:
    raw = {**WHOLE_REQUEST, "promotion_id": one, "material_id": other}
    assert DECODE(raw).promotion_id == int(str(one))


@pytest.mark.parametrize(
    ("one", "other"), [("138", "139"), ("138", ["138"]), ([], {}), ("1", "01")]
)
def test_both_spellings_with_different_values_are_refused_naming_both(
    one: object, other: object
) -> None:
    raw = {"order_sn": "12345678", "sender_mobile": one, "sender_phone": other}
    conflict = refusal(raw)
    assert conflict.reason is Reason.SPELLINGS_CONFLICT
    for language in ("en", "zh"):
        assert "sender_mobile" in conflict.message(language)
        assert "sender_phone" in conflict.message(language)


def test_values_nested_as_deep_as_json_can_be_read_still_end_in_a_refusal() -> None:
    one: object = "a"
    other: object = "b"
    for _ in range(900):
        one, other = [one], [other]
    raw = {"order_sn": "12345678", "sender_mobile": one, "sender_phone": other}
    assert refusal(raw).reason is Reason.SPELLINGS_CONFLICT


def test_what_is_blank_is_the_same_as_not_sent() -> None:
    blank = {"vvtype": " ", "remark": "", "promotion_id": "\u3000", "sender_phone": ""}
    assert DECODE({**WHOLE_REQUEST, **blank}) == DECODE(WHOLE_REQUEST)
    missing = refusal({**WHOLE_REQUEST, "order_sn": "  "})
    assert missing.reason is Reason.PARAMETER_MISSING and missing.values["field"] == "order_sn"


@pytest.mark.parametrize("name", ["senderMobile", "senderPhone"])
def test_a_name_is_taken_in_the_other_case_too(name: str) -> None:
    assert DECODE({"orderSn": "12345678", name: "138"}) == DECODE(WHOLE_REQUEST)
    conflict = refusal({**WHOLE_REQUEST, name: "139"})
    assert conflict.reason is Reason.SPELLINGS_CONFLICT


def test_a_declared_name_is_never_the_other_case_of_another() -> None:
    class Both(msgspec.Struct, frozen=True):
        pageSize: Annotated[int, Field(Whole(1, 9), "One.")] = 1  # noqa: N815
        page_size: Annotated[int, Field(Whole(1, 9), "Another.")] = 2

    assert Decoder(Both).decode({"page_size": 5}) == Both(1, 5)


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("Remark", "remark"),
        ("REMARK", "remark"),
        ("re_mark", "remark"),
        ("remarks", "remark"),
        ("remrak", "remark"),
        ("rmark", "remark"),
        ("remork", "remark"),
        ("sender_mobilee", "sender_mobile"),
        ("ordersn", "order_sn"),
        ("Order-SN", "order_sn"),
        ("materialid", "promotion_id"),
        ("vv_type", "vvtype"),
        ("order_sn[]", "order_sn"),
        ("order_sn[0]", "order_sn"),
        ("Remark[text]", "remark"),
        # What comes of a link that is escaped for XML.
        ("amp;remark", "remark"),
        ("amp;material_id", "promotion_id"),
        ("amp;remarks", "remark"),
        ("amp;remark[]", "remark"),
    ],
)
def test_a_name_that_looks_like_a_known_one_is_refused_with_that(sent: str, meant: str) -> None:
    with pytest.raises(Refusal) as refused:
        PARCELS.ignored({**WHOLE_REQUEST, sent: "x"})
    assert refused.value.reason is Reason.PARAMETER_UNKNOWN
    for language in ("en", "zh"):
        message = refused.value.message(language)
        assert sent in message and meant in message


def test_a_misspelled_name_is_found_among_all_that_a_request_can_have() -> None:
    others = {f"other_{number}": "x" for number in range(PARAMETERS_MAX - 1)}
    with pytest.raises(Refusal):
        PARCELS.ignored({**others, "remarks": "x"})


@pytest.mark.parametrize(
    ("operation", "sent", "meant"),
    [
        ("promotion_material", "page", "page_num"),
        ("promotion_material", "page_no", "page_num"),
        ("promotion_material", "per_page", "page_size"),
        ("coupon_claims", "pageSize", "limit"),
        ("coupon_claims", "pageNum", "page"),
        ("orders", "page_index", "page"),
        ("orders", "size", "pageSize"),
        ("orders", "startDate", "start_time"),
        ("account_requests", "page_size", "limit"),
        ("account_requests", "page", "cursor"),
        ("orders", "current", "page"),
        ("orders", "offset", "page"),
        ("orders", "skip", "page"),
        ("orders", "cursor", "page"),
        ("orders", "rows", "pageSize"),
        ("orders", "from", "start_time"),
        ("orders", "since", "start_time"),
        ("orders", "to_time", "end_time"),
        ("orders", "until", "end_time"),
        ("account_usage", "start_date", "from_date"),
        ("account_usage", "to", "to_date"),
    ],
)
def test_what_others_call_a_parameter_is_refused_with_our_name(
    operation: str, sent: str, meant: str
) -> None:
    request_types = {each.name: each.request_type for each in (*OPERATIONS, *ACCOUNT_OPERATIONS)}
    with pytest.raises(Refusal) as refused:
        Decoder(request_types[operation]).ignored({sent: "2"})
    assert refused.value.values == {"field": sent, "known": meant}


@pytest.mark.parametrize(
    "sent", ["", "_", "t", "sign", "app_key", "mark", "remarkable", "order", "amp;t"]
)
def test_any_other_name_is_ignored(sent: str) -> None:
    raw = {**WHOLE_REQUEST, sent: object()}
    assert PARCELS.ignored(raw) == [sent]
    assert DECODE(raw) == DECODE(WHOLE_REQUEST)


def test_an_unfit_value_names_the_field_the_problem_and_what_to_send() -> None:
    unfit = refusal({**WHOLE_REQUEST, "vvtype": "3"})
    assert unfit.reason is Reason.PARAMETER_INVALID
    for part in ("vvtype", "not one of the known values", "1 (enhanced), 2 (normal)"):
        assert part in unfit.message("en")
    assert "vvtype" in unfit.message("zh") and "不是已知取值" in unfit.message("zh")


@pytest.mark.parametrize("sent", ["promotion_id", "material_id", "materialId"])
def test_an_unfit_value_is_reported_under_the_name_that_was_sent(sent: str) -> None:
    unfit = refusal({**WHOLE_REQUEST, sent: "abc"})
    assert (unfit.reason, unfit.values["field"]) == (Reason.PARAMETER_INVALID, sent)
    # Of two spellings with one value, the documented one.
    both = refusal({**WHOLE_REQUEST, "promotion_id": "abc", sent: "abc"})
    assert both.values["field"] == "promotion_id"


def test_the_field_written_first_is_reported_first() -> None:
    assert refusal({"vvtype": "3"}).values["field"] == "order_sn"


def test_a_request_type_must_describe_every_field() -> None:
    class Bare(msgspec.Struct):
        name: str

    with pytest.raises(TypeError, match=r"Bare\.name"):
        declared_fields(Bare)


@given(
    number=st.integers(1, 10**9),
    as_digits=st.booleans(),
    name=st.sampled_from(["promotion_id", "material_id"]),
)
def test_a_number_comes_as_number_or_digits_under_either_name(
    number: int, as_digits: bool, name: str
) -> None:
    raw = {**WHOLE_REQUEST, name: str(number) if as_digits else number}
    assert DECODE(raw).promotion_id == number
