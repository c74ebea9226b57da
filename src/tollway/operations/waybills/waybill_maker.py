"""Makes a waybill from its request: the stored row and the label; and the answers to a request."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tollway.carriers.carriers import Carrier
from tollway.carriers.labels.layout import TEMPLATES_PATH
from tollway.carriers.labels.print_data import (
    Address,
    Label,
    Parcel,
    Party,
    RoutingInfo,
    ShippingOption,
    print_data,
)
from tollway.carriers.pending_waybills import Draft, seal_draft
from tollway.carriers.vault import Vault
from tollway.carriers.waybills import StoredWaybill, Waybill, WaybillKey
from tollway.contract.envelope import encode_data
from tollway.ledger.charges import ActResult, Charge
from tollway.ledger.runtime import Runtime
from tollway.operations.waybills.operation import (
    WaybillRequest,
    WaybillResult,
    doubtful_fields,
    refused_waybill,
)


class Numbered(NamedTuple):
    """A request, and what its waybill is made with."""

    request: WaybillRequest
    key: WaybillKey
    charge: Charge
    carrier: Carrier
    number: str
    routing: RoutingInfo


class WaybillMaker:
    """Makes waybills with the keys of one database."""

    def __init__(self, vault: Vault, runtime: Runtime, public_address: str) -> None:
        self._vault = vault
        self._runtime = runtime
        self._templates_url = f"{public_address}{TEMPLATES_PATH}"

    def from_pool(self, numbered: Sequence[Numbered]) -> list[tuple[StoredWaybill, str]]:
        """Waybills with numbers from this gateway's pools, each with its print data."""
        vault, at_s = self._vault, self._runtime.at_s()
        ids = self._runtime.new_ordered_ids("wb_", len(numbered))
        waybills, contexts, printed = [], [], []
        for object_id, (request, key, charge, carrier, number, routing) in zip(
            ids, numbered, strict=True
        ):
            waybills.append(_waybill(object_id, request, key, charge, "issued", number, at_s))
            contexts.append(key.context(object_id))
            label = label_of(request, carrier, routing, number, at_s)
            printed.append(print_data(label, vault.label_signer, self._template_url(request)))
        sealed = vault.sealer.seal_many(printed, contexts)
        return [
            (StoredWaybill(waybill, seal), text.decode())
            for waybill, seal, text in zip(waybills, sealed, printed, strict=True)
        ]

    def pending(
        self,
        request: WaybillRequest,
        key: WaybillKey,
        charge: Charge,
        carrier: Carrier,
        routing: RoutingInfo,
    ) -> StoredWaybill:
        """A waybill whose number the carrier has yet to issue."""
        (object_id,) = self._runtime.new_ordered_ids("wb_", 1)
        at_s = self._runtime.at_s()
        waybill = _waybill(object_id, request, key, charge, "pending", None, at_s)
        waybill = msgspec.structs.replace(waybill, hold_id=self._runtime.new_id("hold_"))
        draft = Draft(label_of(request, carrier, routing), self._template_url(request))
        return StoredWaybill(waybill, seal_draft(draft, self._vault, waybill.context))

    def _template_url(self, request: WaybillRequest) -> str:
        return f"{self._templates_url}/{request.waybill_type}"


def _waybill(
    object_id: str,
    request: WaybillRequest,
    key: WaybillKey,
    charge: Charge,
    state: str,
    number: str | None,
    at_s: int,
) -> Waybill:
    return Waybill(
        account_id=key.account_id,
        owner_id=key.owner_id,
        order_sn=key.order_sn,
        wp_code=key.wp_code,
        object_id=object_id,
        state=state,
        number=number,
        price=charge.amount,
        request_id=charge.request_id,
        hold_id=None,
        asked_at_s=at_s,
        issued_at_s=None if number is None else at_s,
        parent_number=request.parentWaybillCode,
        doubtful=" ".join(doubtful_fields(request)) or None,
    )


def addresses_of(request: WaybillRequest) -> tuple[Address, Address]:
    """The addresses of the sender and of the recipient."""
    sender = Address(
        request.sender_province, request.sender_city, request.sender_town, request.sender_detail
    )
    recipient = Address(
        request.receiver_province,
        request.receiver_city,
        request.receiver_town,
        request.receiver_address,
    )
    return sender, recipient


def label_of(
    request: WaybillRequest,
    carrier: Carrier,
    routing: RoutingInfo,
    number: str = "",
    issued_at_s: int = 0,
) -> Label:
    """The label; until the waybill is issued, without number and time."""
    sender, recipient = addresses_of(request)
    parcel = Parcel(request.goods_name, request.weight_g, request.parentWaybillCode)
    return Label(
        waybill_code=number,
        order_sn=request.order_sn,
        recipient=Party(request.receiver_name, request.receiver_phone, recipient),
        sender=Party(request.sender_name, request.sender_mobile, sender),
        routing_info=routing,
        shipping_option=ShippingOption(carrier.wp_code, carrier.name, request.waybill_type),
        issued_at_s=issued_at_s,
        parcel=None if parcel == Parcel() else parcel,
    )


def differing_fields(request: WaybillRequest, label: Label) -> list[str]:
    """The names of the printed fields in which a request differs from a label. The others identify
    the waybill or check the shop."""
    parcel = label.parcel or Parcel()
    printed = {
        **_printed_of("sender", label.sender, mobile="sender_mobile", street="sender_detail"),
        "waybill_type": label.shipping_option.waybill_type,
        **_printed_of(
            "receiver", label.recipient, mobile="receiver_phone", street="receiver_address"
        ),
        "parentWaybillCode": parcel.parent_waybill_code,
        "goods_name": parcel.goods_name,
        "weight_g": parcel.weight_g,
    }
    return [name for name, value in printed.items() if getattr(request, name) != value]


def _printed_of(party: str, of: Party, mobile: str, street: str) -> dict[str, str]:
    place = of.address
    return {
        f"{party}_name": of.name,
        mobile: of.mobile,
        f"{party}_province": place.province,
        f"{party}_city": place.city,
        f"{party}_town": place.district,
        street: place.detail,
    }


def issued(waybill: Waybill, print_data: str) -> bytes:
    """The answer for an issued waybill; a repetition gets the same, with `withholding_money` 0."""
    result = WaybillResult(
        orderSn=waybill.order_sn,
        objectId=waybill.object_id,
        printData=print_data,
        waybillCode=waybill.number or "",
        parentWaybillCode=waybill.parent_number,
        code=1,
        errorMsg=None,
        withholding_money=waybill.price,
    )
    return encode_data(result)


def refused(order_sn: str, why: str) -> ActResult:
    """The answer if the carrier refuses: nothing is issued, nothing is paid."""
    return ActResult(encode_data(refused_waybill(order_sn, why)), is_paid=False)
