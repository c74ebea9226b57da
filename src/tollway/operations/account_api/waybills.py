"""What belongs to an issued waybill, free of charge: its state, its label, changing its receiver,
and cancelling it.

All but the state need the shop's consent, as issuing does: revoking the consent ends them too.
"""

import asyncio
import base64
import logging
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import msgspec

from tollway.carriers import CarrierError
from tollway.carriers.labels.layout import LabelStyle
from tollway.carriers.labels.print_data import Address, Label, Party, label_of
from tollway.carriers.receiver_changes import Receiver, ReceiverChanges
from tollway.carriers.reconciling import CancelDeclinedError, cancel_at_carrier
from tollway.carriers.waybills import (
    StoredWaybill,
    Waybill,
    cancel_waybill,
    find_own,
    print_waybills,
)
from tollway.consent.grants import GrantRequest, held_grant
from tollway.contract.fields import Field, Text, Texts
from tollway.contract.language import Phrase
from tollway.contract.operation import OwnerKind
from tollway.contract.reasons import Reason, Refusal
from tollway.operations.account_api.operation import (
    AccountCall,
    AccountDependencies,
    OneOf,
    endpoint,
)
from tollway.operations.waybills.operation import ReceiverRequest, check_place, doubtful_fields

if TYPE_CHECKING:
    from tollway.carriers.labels.drawing import FontFiles

_log = logging.getLogger("tollway.carriers")
_SCOPE = "waybills"
_OBJECT_ID = Field(Text(max_length=64), "The objectId of the waybill's answer.")
_CONTENT_TYPES = {"pdf": "application/pdf", "png": "image/png", "zpl": "application/zpl"}
_LABELS_MAX = 100
_LABEL_REASONS = (
    Reason.WAYBILL_UNKNOWN,
    Reason.NOT_AUTHORIZED,
    Reason.OPERATION_CLOSED,
    Reason.RECEIVER_ERASED,
    Reason.WAYBILL_CHANGING,
)
# A usual label takes a tenth of a second, and one of rare characters a second. A client that waits
# 30 seconds, as ours do, should get an answer.
_DRAWING_MAX_S = 25
_TOO_SLOW = Phrase("their labels take too long to draw", "绘制这些面单所需时间过长")
_FEWER = Phrase("fewer of them at a time", "更少的面单，分批获取")
_CANCELLABLE = Phrase("that of a waybill which its carrier still cancels", "快递公司仍可取消的面单")


class WaybillRequest(msgspec.Struct, frozen=True):
    object_id: Annotated[str, _OBJECT_ID]


class LabelRequest(msgspec.Struct, frozen=True):
    object_id: Annotated[str, _OBJECT_ID]
    format: Annotated[
        str, Field(OneOf(tuple(_CONTENT_TYPES)), "The kind of file; pdf if left out.")
    ] = "pdf"


class LabelsRequest(msgspec.Struct, frozen=True):
    object_ids: Annotated[
        list[str],
        Field(
            Texts(Text(max_length=64), _LABELS_MAX),
            "The objectIds of the waybills' answers; a page for each, in this order.",
        ),
    ]


class WaybillState(msgspec.Struct, frozen=True):
    """A waybill. `state` is pending, issued, refused or cancelled. Its receiver can be changed
    until `printed_at_s`, when its label was first written."""

    object_id: str
    owner_id: str
    order_sn: str
    wp_code: str
    state: str
    waybill_code: str | None
    price: int
    asked_at_s: int
    issued_at_s: int | None
    cancelled_at_s: int | None
    printed_at_s: int | None


class WaybillLabel(msgspec.Struct, frozen=True):
    """The label as a file; `content` is base64."""

    waybill_code: str
    content_type: str
    content: str


class WaybillLabels(msgspec.Struct, frozen=True):
    """The labels in one file; `content` is base64."""

    waybill_codes: list[str]
    content_type: str
    content: str


async def _find(parts: AccountDependencies, call: AccountCall, object_id: str) -> StoredWaybill:
    found = await find_own(parts.database, call.account_id, object_id)
    if found is None:
        raise Refusal(Reason.WAYBILL_UNKNOWN)
    return found


async def _find_issued(
    parts: AccountDependencies, call: AccountCall, object_id: str
) -> StoredWaybill:
    """An issued waybill of a shop whose consent is valid."""
    found = await _find(parts, call, object_id)
    if found.waybill.state != "issued" or found.waybill.number is None:
        raise Refusal(Reason.WAYBILL_UNKNOWN)
    await _check_consent(parts, call, found.waybill)
    return found


async def _check_consent(parts: AccountDependencies, call: AccountCall, of: Waybill) -> None:
    asked = GrantRequest(call.account_id, OwnerKind.SHOP, of.owner_id, _SCOPE)
    if await held_grant(parts.database, asked, call.at_s) is None:
        link = parts.links.make(asked, call.at_s, is_sandbox=False)
        raise Refusal(
            Reason.NOT_AUTHORIZED,
            data={"authorize_url": link.url, "expires_at": link.expires_at_s},
            owner=Phrase("shop", "店铺"),
            field="object_id",
        )


async def _find_printed(
    parts: AccountDependencies, call: AccountCall, object_ids: Sequence[str]
) -> Sequence[StoredWaybill]:
    """Issued waybills, marked as printed: from now on their receivers cannot change."""
    found = [await _find_issued(parts, call, each) for each in object_ids]
    for each in found:
        each.refuse_erased()
    try:
        printed = await print_waybills(parts.database, found, parts.runtime)
    except CarrierError:
        left_s = (each.waybill.changing_for_s(int(call.at_s)) for each in found)
        raise Refusal(Reason.WAYBILL_CHANGING, wait_s=max(1, *left_s)) from None
    for each in printed:
        if each.waybill.state != "issued":
            # Cancelled meanwhile: no parcel may be sent under its number.
            raise Refusal(Reason.WAYBILL_UNKNOWN)
        each.refuse_erased()
    return printed


def _shown(of: Waybill) -> WaybillState:
    names = {"waybill_code": "number"}
    return WaybillState(
        *(getattr(of, names.get(name, name)) for name in WaybillState.__struct_fields__)
    )


@endpoint("waybills", "The state of a waybill", Reason.WAYBILL_UNKNOWN, needs=_SCOPE)
async def _state(
    parts: AccountDependencies, request: WaybillRequest, call: AccountCall
) -> WaybillState:
    return _shown((await _find(parts, call, request.object_id)).waybill)


@endpoint("waybills/label", "The label of a waybill as a file", *_LABEL_REASONS, needs=_SCOPE)
async def _label(
    parts: AccountDependencies, request: LabelRequest, call: AccountCall
) -> WaybillLabel:
    (code,), content = await _content(parts, call, [request.object_id], request.format)
    return WaybillLabel(code, _CONTENT_TYPES[request.format], content)


@endpoint(
    "waybills/labels",
    "One PDF with the labels of many waybills",
    *_LABEL_REASONS,
    changes=True,
    needs=_SCOPE,
)
async def _labels(
    parts: AccountDependencies, request: LabelsRequest, call: AccountCall
) -> WaybillLabels:
    codes, content = await _content(parts, call, request.object_ids, "pdf")
    return WaybillLabels(codes, _CONTENT_TYPES["pdf"], content)


async def _content(
    parts: AccountDependencies, call: AccountCall, object_ids: Sequence[str], kind: str
) -> tuple[list[str], str]:
    """The numbers of waybills, and their labels as a file of this kind, in base64."""
    # Before they count as printed: without a font, no label is written.
    fonts = await asyncio.to_thread(_fonts)
    printed = await _find_printed(parts, call, object_ids)
    vault = parts.vault
    labels = [label_of(each.own_print_data(vault), vault.label_signer) for each in printed]
    content, began_s = b"", monotonic()
    for label in labels:
        if content and monotonic() - began_s > _DRAWING_MAX_S:
            raise Refusal(
                Reason.PARAMETER_INVALID, field="object_ids", problem=_TOO_SLOW, expected=_FEWER
            )
        # For each page by itself, so that another account waits for one of them at most.
        async with parts.drawing.taken(parts.call_timeout_s, by=call.account_id):
            content = await asyncio.to_thread(
                _drawn, content, label, kind, fonts, parts.label_style
            )
    return [each.waybill.number or "" for each in printed], base64.b64encode(content).decode()


def _fonts() -> "FontFiles":
    # The drawing code is loaded with the first label.
    from tollway.carriers.labels.drawing import find_fonts  # noqa: PLC0415

    try:
        return find_fonts()
    except CarrierError as error:
        # The machine lacks a font, which the operator must install.
        _log.error("labels cannot be drawn: %s", error)
        raise Refusal(Reason.OPERATION_CLOSED) from None


def _drawn(
    document: bytes, label: Label, kind: str, fonts: "FontFiles", style: LabelStyle
) -> bytes:
    """A label as a file, or as one more page of a document."""
    from tollway.carriers.labels.formats import WRITERS, pdf_with  # noqa: PLC0415

    if kind == "pdf":
        return pdf_with(document, label, fonts, style)
    return WRITERS[f".{kind}"](label, fonts, style)


@endpoint(
    "waybills/cancel",
    "Cancel a waybill",
    Reason.WAYBILL_UNKNOWN,
    Reason.NOT_AUTHORIZED,
    Reason.CARRIER_UNREACHABLE,
    changes=True,
    needs=_SCOPE,
)
async def _cancel(
    parts: AccountDependencies, request: WaybillRequest, call: AccountCall
) -> WaybillState:
    of = (await _find_issued(parts, call, request.object_id)).waybill
    try:
        await cancel_at_carrier(parts.database, parts.remotes, parts.vault.sealer, of)
    except CancelDeclinedError as error:
        raise Refusal(
            Reason.PARAMETER_INVALID, field="object_id", problem=error.why, expected=_CANCELLABLE
        ) from None
    except CarrierError:
        # The error's text is for the operator.
        raise Refusal(Reason.CARRIER_UNREACHABLE) from None
    try:
        cancelled = await cancel_waybill(parts.database, of.number or "", of.wp_code, parts.runtime)
    except CarrierError:
        raise Refusal(Reason.WAYBILL_UNKNOWN) from None
    return _shown(cancelled)


@endpoint(
    "waybills/receiver",
    "Change the receiver of a waybill that is not printed yet",
    Reason.WAYBILL_UNKNOWN,
    Reason.NOT_AUTHORIZED,
    Reason.WAYBILL_FINAL,
    Reason.RECEIVER_ERASED,
    Reason.WAYBILL_CHANGING,
    Reason.CARRIER_UNREACHABLE,
    changes=True,
    needs=_SCOPE,
)
async def _change_receiver(
    parts: AccountDependencies, request: ReceiverRequest, call: AccountCall
) -> WaybillState:
    changes = ReceiverChanges(parts.database, parts.remotes, parts.vault, parts.runtime)
    check_place(request, "receiver")
    stored = await _find(parts, call, request.object_id)
    await _check_consent(parts, call, stored.waybill)
    place = (request.receiver_province, request.receiver_city, request.receiver_town)
    address = Address(*place, request.receiver_address)
    party = Party(request.receiver_name, request.receiver_phone, address)
    receiver = Receiver(party, doubtful_fields(request, ["receiver"]))
    return _shown((await changes.change(stored, receiver)).waybill)


ENDPOINTS = (_state, _label, _labels, _cancel, _change_receiver)
