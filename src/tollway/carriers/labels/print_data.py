"""The print data of a waybill: one JSON text with the label's data, signed, and its template.

Everything a label shows is in it, so a label can be printed again from it alone.
"""

import msgspec

from tollway.carriers import CarrierError
from tollway.store.keys import KeyedSigner

# The longest texts for sorters, in a routing table and from a carrier: longer ones fit on no label.
PLACE_NAME_MAX = 40
SORTING_CODE_MAX = 24


class Address(msgspec.Struct, frozen=True):
    province: str
    city: str
    district: str
    detail: str

    def __str__(self) -> str:
        return f"{self.province} {self.city} {self.district} {self.detail}"


class Party(msgspec.Struct, frozen=True):
    """A sender or receiver, with the address."""

    name: str
    mobile: str
    address: Address


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place in the carrier's network, and its code if it has one."""

    name: str = ""
    code: str = ""


class RoutingInfo(msgspec.Struct, frozen=True, rename="camel"):
    """What a sorter reads first: destination, hub and origin, and the three-part route code
    (三段码). Carriers leave out what they do not use."""

    sortation: Place = Place()
    consolidation: Place = Place()
    origin: Place = Place()
    route_code: str = ""


class ShippingOption(msgspec.Struct, frozen=True, rename="camel"):
    """The carrier, and the kind of label: 1, 2 or 3."""

    code: str
    title: str
    waybill_type: int


class Parcel(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is known of the parcel itself: its content, its weight, and the waybill number of the
    order's first parcel if this is a further one."""

    goods_name: str | None = None
    weight_g: int | None = None
    parent_waybill_code: str | None = None


class Label(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a label says. The time is that of the waybill, in seconds."""

    waybill_code: str
    order_sn: str
    recipient: Party
    sender: Party
    routing_info: RoutingInfo
    shipping_option: ShippingOption
    issued_at_s: int = 0
    parcel: Parcel | None = None


class _PrintData(msgspec.Struct, frozen=True, rename={"template_url": "templateURL"}):
    data: msgspec.Raw
    signature: str
    template_url: str


def route(sender: Address, recipient: Address) -> RoutingInfo:
    """Routing from the two addresses, where neither the carrier nor a routing table has codes."""
    return RoutingInfo(
        sortation=Place(f"{recipient.province} {recipient.city}"),
        consolidation=Place(recipient.city),
        origin=Place(sender.city),
        route_code=f"{recipient.city} {recipient.district}",
    )


def print_data(label: Label, signer: KeyedSigner, template_url: str) -> bytes:
    """The text that goes into the answer, encoded."""
    data = msgspec.json.encode(label)
    made = _PrintData(msgspec.Raw(data), _signature(data, signer), template_url)
    return msgspec.json.encode(made)


def label_of(text: str, signer: KeyedSigner) -> Label:
    """The label behind print data; refuses what was not signed here."""
    read = msgspec.json.decode(text, type=_PrintData)
    key_id = read.signature.split(":")[1]
    if not key_id.isdecimal() or _signature(read.data, signer, int(key_id)) != read.signature:
        raise CarrierError("The signature of this print data is wrong: it was altered.")
    return msgspec.json.decode(read.data, type=Label)


def with_recipient(text: str, signer: KeyedSigner, recipient: Party, routing: RoutingInfo) -> str:
    """Print data for another receiver, signed again."""
    label = msgspec.structs.replace(
        label_of(text, signer), recipient=recipient, routing_info=routing
    )
    template_url = msgspec.json.decode(text, type=_PrintData).template_url
    return print_data(label, signer, template_url).decode()


class _CarriersData(msgspec.Struct, frozen=True, rename="camel"):
    routing_info: RoutingInfo


class _CarriersPrintData(msgspec.Struct, frozen=True):
    data: _CarriersData


def routing_of(carriers_print_data: str) -> RoutingInfo | None:
    """The sorting codes in a carrier's own print data, if it is not encrypted."""
    try:
        return msgspec.json.decode(carriers_print_data, type=_CarriersPrintData).data.routing_info
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _signature(data: bytes | msgspec.Raw, signer: KeyedSigner, key_id: int | None = None) -> str:
    """Names the method and the key, so that both can be changed."""
    signed = signer.sign(bytes(data), key_id)
    return f"HS256:{signed.key_id}:{signed.digest.hex()}"
