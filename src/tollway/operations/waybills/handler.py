"""The work of waybill issuing: finds the waybill of an order, or has one issued.

With a pool of this gateway all of it happens in the transaction that charges. So a number is taken
exactly when its waybill is stored and paid, and of many equal requests at once the first issues and
the others find its waybill. A remote carrier is asked between two commits (`remote_issue.py`).
"""

from functools import partial
from typing import NamedTuple

import msgspec
from sqlalchemy import bindparam, select

from tollway.carriers.carrier_links import LinkedCarrier, OpenedCarrierLink, find_linked_carrier
from tollway.carriers.carriers import Carrier
from tollway.carriers.labels.layout import TEMPLATES_PATH
from tollway.carriers.labels.print_data import (
    Address,
    Label,
    Parcel,
    Party,
    ShippingOption,
    print_data,
)
from tollway.carriers.pending import Draft, seal_draft
from tollway.carriers.pools import TakeNumber
from tollway.carriers.routes import find_routing
from tollway.carriers.vault import Vault
from tollway.carriers.waybills import (
    StoredWaybill,
    Waybill,
    WaybillKey,
    find_in_force,
    is_parent,
    store_waybill,
)
from tollway.contract.language import Phrase
from tollway.contract.operation import CallInfo, OwnerKind
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charges import Act, ActResult, Charge
from tollway.ledger.runtime import Runtime
from tollway.operations.waybills.answers import issued, refused
from tollway.operations.waybills.operation import WaybillRequest, doubtful_fields
from tollway.operations.waybills.remote_issue import RemoteIssuer
from tollway.store.database import Reader, Transaction
from tollway.store.query import Query
from tollway.store.schema.consent import owner

_NO_NUMBERS = Phrase(
    "The carrier's waybill numbers are used up: load more numbers or choose another carrier.",
    "该快递公司的电子面单号已用完：请补充单号或更换快递公司。",
)
_NO_PARENT = Phrase(
    "this shop has no such waybill of this carrier, or it is one of a further parcel",
    "该店铺没有此快递公司的这张运单，或其本身为子单",
)
_A_PARENT = Phrase("the waybill number of the order's first parcel", "该订单第一个包裹的运单号")
_FIND = Query(
    select(owner.c.shop_code).where(
        owner.c.kind == bindparam("of_kind"), owner.c.id == bindparam("wanted")
    )
)


class ShopCodes:
    """Knows each shop's code."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def code_of(self, owner_id: str) -> str | None:
        row = await self._reader.fetch_one(_FIND, of_kind=OwnerKind.SHOP, wanted=owner_id)
        return None if row is None else row[0]


# Who and what the waybill is for, and how the shop was checked: not what is printed on it.
_NOT_CONTENT = {"owner_id", "order_sn", "wp_code", "shopCode", "vvtype"}


class _CarriersRead(NamedTuple):
    """The carriers that were read in one transaction: the waybills of a batch have few.

    It holds the transaction, even after its end, until the next one issues a waybill: otherwise a
    new one could have the address of the old one, and be taken for it.
    """

    transaction: Transaction
    found: dict[str, LinkedCarrier | None]


class WaybillHandler:
    """Issues waybills of the carriers of one database."""

    def __init__(
        self,
        shop_codes: ShopCodes,
        issuer: RemoteIssuer,
        vault: Vault,
        runtime: Runtime,
        public_address: str,
        take_number: TakeNumber,
    ) -> None:
        self._shop_codes = shop_codes
        self._issuer = issuer
        self._vault = vault
        self._runtime = runtime
        self._take_number = take_number
        self._templates_url = f"{public_address}{TEMPLATES_PATH}"
        self._read: _CarriersRead | None = None

    async def __call__(self, request: WaybillRequest, call: CallInfo) -> Act:
        await self._check_shop_code(request)
        return partial(self._issue, request, call)

    async def _check_shop_code(self, request: WaybillRequest) -> None:
        code = request.shopCode
        if code is not None and code != await self._shop_codes.code_of(request.owner_id):
            raise Refusal(Reason.SHOP_CODE_WRONG)

    async def _issue(
        self, request: WaybillRequest, call: CallInfo, transaction: Transaction, charge: Charge
    ) -> ActResult:
        key = WaybillKey(call.account_id, request.owner_id, request.order_sn, request.wp_code)
        stored = await find_in_force(transaction, key)
        if stored is not None:
            return self._again(request, call, stored)
        found = await self._find_carrier(transaction, request.wp_code)
        if found is None:
            raise Refusal(Reason.CARRIER_UNKNOWN)
        carrier, opened = found
        refusal = carrier.area.refusal(request.receiver_province, call.language)
        if refusal is not None:
            return refused(request.order_sn, refusal)
        parent = request.parentWaybillCode
        if parent is not None and not await is_parent(transaction, parent, key):
            raise _no_parent()
        waybill = self._pending(request, key, charge)
        if opened is None:
            return await self._from_pool(request, call, waybill, carrier, transaction)
        return await self._from_carrier(
            request, call, waybill, carrier, opened, transaction, charge
        )

    async def _find_carrier(self, transaction: Transaction, wp_code: str) -> LinkedCarrier | None:
        read = self._read
        if read is None or read.transaction is not transaction:
            read = self._read = _CarriersRead(transaction, {})
        if wp_code not in read.found:
            read.found[wp_code] = await find_linked_carrier(
                transaction, self._vault.sealer, wp_code
            )
        return read.found[wp_code]

    def _again(self, request: WaybillRequest, call: CallInfo, stored: StoredWaybill) -> ActResult:
        """The waybill that was issued before, free of charge, with the same answer."""
        changing_until_s = stored.waybill.changing_until_s
        if changing_until_s is not None:
            wait_s = max(1, changing_until_s - self._runtime.at_s())
            raise Refusal(Reason.WAYBILL_CHANGING, wait_s=wait_s)
        stored.refuse_erased()
        before = stored.fingerprints
        now = self._vault.fingerprints(_content(request), stored.waybill.context, before.key_id)
        differing = before.differing(now)
        if differing:
            raise Refusal(Reason.WAYBILL_DIFFERS, fields=", ".join(differing))
        if stored.waybill.state == "pending":
            again = partial(self._issue, request, call)
            join = partial(self._issuer.join, stored, again, call.language)
            return ActResult(b"", is_paid=False, then=join)
        answer = issued(stored.waybill, stored.print_data(self._vault))
        return ActResult(answer, is_paid=False, replay_of=stored.waybill.request_id)

    def _pending(self, request: WaybillRequest, key: WaybillKey, charge: Charge) -> Waybill:
        return Waybill(
            **key._asdict(),
            object_id=self._runtime.new_id("wb_"),
            state="pending",
            number=None,
            price=charge.amount,
            request_id=charge.request_id,
            hold_id=None,
            asked_at_s=self._runtime.at_s(),
            issued_at_s=None,
            parent_number=request.parentWaybillCode,
            doubtful=" ".join(doubtful_fields(request)) or None,
        )

    async def _from_pool(
        self,
        request: WaybillRequest,
        call: CallInfo,
        pending: Waybill,
        carrier: Carrier,
        transaction: Transaction,
    ) -> ActResult:
        number = await self._take_number(transaction, carrier.wp_code, request.owner_id)
        if number is None:
            return refused(request.order_sn, _NO_NUMBERS.fill(call.language, {}))
        made = msgspec.structs.replace(
            pending, state="issued", number=number, issued_at_s=pending.asked_at_s
        )
        draft = await _label(transaction, request, carrier)
        label = msgspec.structs.replace(
            draft, waybill_code=number, issued_at_s=made.issued_at_s or 0
        )
        text = print_data(label, self._vault.label_signer, self._template_url(request))
        stored = self._stored(request, made, self._vault.seal(text, made.context))
        await store_waybill(transaction, stored)
        return ActResult(issued(made, text), is_paid=True)

    async def _from_carrier(
        self,
        request: WaybillRequest,
        call: CallInfo,
        pending: Waybill,
        carrier: Carrier,
        opened: OpenedCarrierLink,
        transaction: Transaction,
        charge: Charge,
    ) -> ActResult:
        made = msgspec.structs.replace(pending, hold_id=self._runtime.new_id("hold_"))
        label = await _label(transaction, request, carrier)
        draft = Draft(label, self._template_url(request))
        sealed = seal_draft(draft, self._vault, made.context)
        stored = self._stored(request, made, sealed)
        return await self._issuer.begin(transaction, stored, carrier, opened, charge, call.language)

    def _stored(self, request: WaybillRequest, made: Waybill, sealed: bytes) -> StoredWaybill:
        prints = self._vault.fingerprints(_content(request), made.context)
        return StoredWaybill(made, prints, sealed)

    def _template_url(self, request: WaybillRequest) -> str:
        return f"{self._templates_url}/{request.waybill_type}"


def _no_parent() -> Refusal:
    field = "parentWaybillCode"
    return Refusal(Reason.PARAMETER_INVALID, field=field, problem=_NO_PARENT, expected=_A_PARENT)


def _content(request: WaybillRequest) -> dict[str, str]:
    """The fields in which a second request under the same key may not differ."""
    return {
        name: str(value)
        for name, value in msgspec.structs.asdict(request).items()
        if name not in _NOT_CONTENT
    }


async def _label(reader: Reader, request: WaybillRequest, carrier: Carrier) -> Label:
    """The label, but for the number and the time."""
    sender = Address(
        request.sender_province, request.sender_city, request.sender_town, request.sender_detail
    )
    recipient = Address(
        request.receiver_province,
        request.receiver_city,
        request.receiver_town,
        request.receiver_address,
    )
    parcel = Parcel(request.goods_name, request.weight_g, request.parentWaybillCode)
    return Label(
        waybill_code="",
        order_sn=request.order_sn,
        recipient=Party(request.receiver_name, request.receiver_phone, recipient),
        sender=Party(request.sender_name, request.sender_mobile, sender),
        routing_info=await find_routing(reader, carrier.wp_code, sender, recipient),
        shipping_option=ShippingOption(carrier.wp_code, carrier.name, request.waybill_type),
        parcel=None if parcel == Parcel() else parcel,
    )
