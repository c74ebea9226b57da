"""Waybill issuing: its request, its response, and its descriptor."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec

from tollway.carriers.divisions import PlaceCheck, find_place
from tollway.contract.fields import Choice, Code, Field, Line, Phone, Text, Whole
from tollway.contract.language import Phrase
from tollway.contract.operation import (
    EDITIONS,
    ENHANCED,
    NORMAL,
    ConsentNeed,
    Encoding,
    Operation,
    OwnerKind,
    Unit,
    records_with,
)
from tollway.contract.reasons import Reason, Refusal

_SHOP_CODE = Text(max_length=64)
_ID = Text(max_length=64)
_REGION = Text(max_length=64)
_PHONE = Phone(max_length=32)
# Upstream takes names under 40 and details under 256 characters.
_NAME = Text(max_length=39)
_STREET = Text(max_length=255)
_TYPES = Choice(
    (
        (1, Phrase("single-part waybill, 76×130 mm", "一联单，76×130 mm")),
        (2, Phrase("two-part waybill, 100×180 mm", "二联单，100×180 mm")),
        (3, Phrase("other, 100×150 mm", "其他，100×150 mm")),
    )
)


class WaybillRequest(msgspec.Struct, frozen=True):
    owner_id: Annotated[str, Field(_ID, "Shop owner id.")]
    order_sn: Annotated[
        str, Field(Line(max_length=64, min_length=8), "Order number, as the caller defines it.")
    ]
    sender_name: Annotated[str, Field(_NAME, "Sender name.")]
    sender_mobile: Annotated[str, Field(_PHONE, "Sender mobile.", other_spelling="sender_phone")]
    sender_province: Annotated[str, Field(_REGION, "Sender province.")]
    sender_city: Annotated[str, Field(_REGION, "Sender city.")]
    sender_town: Annotated[str, Field(_REGION, "Sender district.")]
    sender_detail: Annotated[
        str, Field(_STREET, "Sender street address, without province, city and district.")
    ]
    wp_code: Annotated[str, Field(Code(max_length=32), "Carrier short code.")]
    waybill_type: Annotated[int, Field(_TYPES, "Kind of label.")]
    receiver_province: Annotated[str, Field(_REGION, "Receiver province.")]
    receiver_city: Annotated[str, Field(_REGION, "Receiver city.")]
    receiver_town: Annotated[str, Field(_REGION, "Receiver district.")]
    receiver_address: Annotated[str, Field(_STREET, "Receiver street address.")]
    receiver_phone: Annotated[str, Field(_PHONE, "Receiver phone.")]
    receiver_name: Annotated[str, Field(_NAME, "Receiver name.")]
    shopCode: Annotated[
        str | None, Field(_SHOP_CODE, "Shop association code; required when vvtype is 2.")
    ] = None
    vvtype: Annotated[int, Field(EDITIONS, "Edition; the enhanced one when left out.")] = ENHANCED
    parentWaybillCode: Annotated[
        str | None,
        Field(_ID, "For a further parcel of an order: the waybill number of its first one."),
    ] = None
    goods_name: Annotated[
        str | None, Field(Text(max_length=100), "What is in the parcel, for its label.")
    ] = None
    weight_g: Annotated[
        int | None,
        Field(
            Whole(1, 1_000_000),
            "The parcel's weight in grams, for its label.",
            unit=Phrase("grams", "克"),
        ),
    ] = None


class ReceiverRequest(msgspec.Struct, frozen=True):
    """Another receiver for an issued waybill: all of it, in the fields of its request."""

    object_id: Annotated[str, Field(_ID, "The objectId of the waybill's answer.")]
    receiver_province: Annotated[str, Field(_REGION, "Receiver province.")]
    receiver_city: Annotated[str, Field(_REGION, "Receiver city.")]
    receiver_town: Annotated[str, Field(_REGION, "Receiver district.")]
    receiver_address: Annotated[str, Field(_STREET, "Receiver street address.")]
    receiver_phone: Annotated[str, Field(_PHONE, "Receiver phone.")]
    receiver_name: Annotated[str, Field(_NAME, "Receiver name.")]


class WaybillResult(msgspec.Struct, frozen=True):
    """The payload. `code` is the carrier's verdict: 1 issued, 0 refused, for which see errorMsg."""

    orderSn: str | None
    objectId: str
    printData: str
    waybillCode: str
    parentWaybillCode: str | None
    code: int
    errorMsg: str | None
    withholding_money: int


def refused_waybill(order_sn: str, why: str) -> WaybillResult:
    """The payload if the carrier refuses."""
    return WaybillResult(
        orderSn=order_sn,
        objectId="",
        printData="",
        waybillCode="",
        parentWaybillCode=None,
        code=0,
        errorMsg=why,
        withholding_money=0,
    )


_REFUSED_ON_REQUEST = Phrase(
    "The carrier refuses, as the test call asked for.", "应测试调用的要求，快递公司拒绝取号。"
)


def _refused_by_carrier(request: WaybillRequest, language: str) -> WaybillResult:
    return refused_waybill(request.order_sn, _REFUSED_ON_REQUEST.said(language))


_LEVELS = {
    "province": (Phrase("province", "省"), Phrase("China", "中国")),
    "city": (Phrase("city", "市"), Phrase("that province", "该省")),
    "town": (Phrase("district", "区县"), Phrase("that city", "该市")),
}


def check_request(request: WaybillRequest, _: ZoneInfo) -> None:
    if request.vvtype == NORMAL and request.shopCode is None:
        expected = _SHOP_CODE.expected
        raise Refusal(Reason.PARAMETER_MISSING, field="shopCode", expected=expected)
    for party in ("receiver", "sender"):
        check_place(request, party)


def check_place(request: msgspec.Struct, party: str) -> None:
    """Refuses an address whose province, city or district does not exist."""
    found = _place(request, party)
    if found.wrong is not None:
        level, within = _LEVELS[found.wrong]
        raise Refusal(
            Reason.PARAMETER_INVALID,
            field=f"{party}_{found.wrong}",
            problem=Phrase(
                f"there is no such {level.en} in {within.en}", f"{within.zh}没有这个{level.zh}"
            ),
            expected=Phrase(f"the Chinese name of a {level.en}", f"{level.zh}的名称"),
        )


def doubtful_fields(
    request: msgspec.Struct, parties: Iterable[str] = ("receiver", "sender")
) -> list[str]:
    """The parts of addresses that are in no list but may exist all the same."""
    return [f"{party}_{part}" for party in parties for part in _place(request, party).doubtful]


_PARTS_OF = {
    party: attrgetter(*(f"{party}_{part}" for part in _LEVELS)) for party in ("receiver", "sender")
}


def _place(request: msgspec.Struct, party: str) -> PlaceCheck:
    return find_place(*_PARTS_OF[party](request))


WAYBILLS = Operation(
    name="waybills",
    # A refused waybill has an error message, and is not counted.
    count_records=records_with('"errorMsg":null'),
    title="Waybill issuing",
    method="POST",
    path="/papi/tool/erps/getwaybillfreewn",
    encoding=Encoding.JSON,
    request_type=WaybillRequest,
    response_type=WaybillResult,
    unit=Unit.CREDITS,
    default_price=10,
    consent=ConsentNeed(
        whose=OwnerKind.SHOP,
        field="owner_id",
        scope="waybills",
        asks="issue waybills for your shop",
    ),
    check=check_request,
    sandbox_outcomes={"carrier:refused": _refused_by_carrier},
    own_reasons=(
        Reason.SHOP_CODE_WRONG,
        Reason.CARRIER_UNKNOWN,
        Reason.WAYBILL_DIFFERS,
        Reason.RECEIVER_ERASED,
        Reason.WAYBILL_CHANGING,
        Reason.CARRIER_UNREACHABLE,
        Reason.CARRIER_SILENT,
    ),
    may_be_free=True,
    note="Also look at data.code, the carrier's answer: 1 issued, 0 refused, and errorMsg says "
    "why. A refused waybill costs nothing.",
)
