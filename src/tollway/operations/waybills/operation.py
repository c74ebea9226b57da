"""Waybill issuing: its request, its response, and its descriptor."""

from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec

from tollway.contract.fields import Choice, Code, Field, Text
from tollway.contract.operation import ConsentNeed, Encoding, Operation, OwnerKind, Unit
from tollway.contract.reasons import Reason, Refusal

ENHANCED, NORMAL = 1, 2
_SHOP_CODE = Text(max_length=64)
_ID = Text(max_length=64)
_REGION = Text(max_length=64)
_PHONE = Text(max_length=32)
# Upstream takes names under 40 and details under 256 characters.
_NAME = Text(max_length=39)
_STREET = Text(max_length=255)
_TYPES = Choice(
    (
        (1, "single-part waybill, 76×130 mm"),
        (2, "two-part waybill, 100×180 mm"),
        (3, "other, 100×150 mm"),
    )
)
_EDITIONS = Choice(((ENHANCED, "enhanced"), (NORMAL, "normal")))


class WaybillRequest(msgspec.Struct, frozen=True):
    owner_id: Annotated[str, Field(_ID, "Shop owner id.")]
    order_sn: Annotated[
        str, Field(Text(max_length=64, min_length=8), "Order number, as the caller defines it.")
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
    vvtype: Annotated[int, Field(_EDITIONS, "Edition; the enhanced one when left out.")] = ENHANCED


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


def _refused_by_carrier(request: WaybillRequest) -> WaybillResult:
    return refused_waybill(request.order_sn, "The carrier refuses, as the test call asked for.")


def check_shop_code(request: WaybillRequest, _: ZoneInfo) -> None:
    if request.vvtype == NORMAL and request.shopCode is None:
        expected = _SHOP_CODE.expected
        raise Refusal(Reason.PARAMETER_MISSING, field="shopCode", expected=expected)


WAYBILLS = Operation(
    name="waybills",
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
    check=check_shop_code,
    sandbox_outcomes={"carrier:refused": _refused_by_carrier},
    own_reasons=(
        Reason.SHOP_CODE_WRONG,
        Reason.CARRIER_UNKNOWN,
        Reason.WAYBILL_DIFFERS,
        Reason.CARRIER_UNREACHABLE,
        Reason.CARRIER_SILENT,
    ),
    may_be_free=True,
)
