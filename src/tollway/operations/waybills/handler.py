"""The work of waybill issuing: looks for the waybill, or takes a number and stores one.

All of it happens in the transaction that charges. So a number is gone exactly when its waybill is
there and paid, and of many equal requests at once the first issues and the others find.
"""

from functools import partial

import msgspec

from tollway.carriers.carriers import Carrier, find_carrier
from tollway.carriers.pools import take_number
from tollway.carriers.printing import Address, Label, Party, ShippingOption, print_data, route
from tollway.carriers.shop_codes import ShopCodes
from tollway.carriers.vault import Vault
from tollway.carriers.waybills import (
    StoredWaybill,
    Waybill,
    WaybillKey,
    find_in_force,
    store_waybill,
)
from tollway.contract.envelope import encode_data
from tollway.contract.language import Phrase
from tollway.contract.operation import Caller
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charges import Act, Acted, Charge
from tollway.ledger.identity import World
from tollway.operations.waybills.request import NORMAL, SHOP_CODE, WaybillRequest
from tollway.operations.waybills.response import WaybillResult
from tollway.store.database import Transaction

# What the carrier refuses. The call itself has succeeded, so these are no reasons of the envelope.
_NOT_SERVED = Phrase(
    "The carrier does not deliver to {province}: choose another carrier.",
    "该快递公司不派送至{province}：请更换快递公司。",
)
_NO_NUMBERS = Phrase(
    "The carrier's waybill numbers are used up: load more numbers or choose another carrier.",
    "该快递公司的电子面单号已用完：请补充单号或更换快递公司。",
)
# Who and what the waybill is for, and how the shop was proved: not what stands on it.
_NOT_CONTENT = {"owner_id", "order_sn", "wp_code", "shopCode", "vvtype"}


class WaybillHandler:
    """Issues waybills from the pools of one database."""

    def __init__(
        self, shop_codes: ShopCodes, vault: Vault, world: World, templates_url: str
    ) -> None:
        self._shop_codes = shop_codes
        self._vault = vault
        self._world = world
        self._templates_url = templates_url

    async def __call__(self, request: WaybillRequest, caller: Caller) -> Act:
        await self._check_shop_code(request)
        return partial(self._issue, request, caller)

    async def _check_shop_code(self, request: WaybillRequest) -> None:
        if request.shopCode is None:
            if request.vvtype == NORMAL:
                expected = SHOP_CODE.expected
                raise Refusal(Reason.PARAMETER_MISSING, field="shopCode", expected=expected)
        elif request.shopCode != await self._shop_codes.code_of(request.owner_id):
            raise Refusal(Reason.SHOP_CODE_WRONG)

    async def _issue(
        self, request: WaybillRequest, caller: Caller, transaction: Transaction, charge: Charge
    ) -> Acted:
        key = WaybillKey(caller.account_id, request.owner_id, request.order_sn, request.wp_code)
        stored = await find_in_force(transaction, key)
        if stored is not None:
            return self._again(request, stored)
        carrier = await find_carrier(transaction, request.wp_code)
        if carrier is None:
            raise Refusal(Reason.CARRIER_UNKNOWN)
        province = request.receiver_province
        if not carrier.area.serves(province):
            return _refused(request, _NOT_SERVED.fill(caller.language, {"province": province}))
        number = await take_number(transaction, carrier.wp_code, request.owner_id)
        if number is None:
            return _refused(request, _NO_NUMBERS.fill(caller.language, {}))
        stored = self._waybill(request, key, carrier, number, charge)
        await store_waybill(transaction, stored)
        return Acted(self._answer(stored), is_paid=True)

    def _again(self, request: WaybillRequest, stored: StoredWaybill) -> Acted:
        """The waybill that is there already, free of charge, in the very answer it had before."""
        before = stored.fingerprints
        now = self._vault.fingerprints(_content(request), stored.waybill.context, before.key_id)
        differing = before.differing(now)
        if differing:
            raise Refusal(Reason.WAYBILL_DIFFERS, fields=", ".join(differing))
        return Acted(self._answer(stored), is_paid=False, replay_of=stored.waybill.request_id)

    def _waybill(
        self,
        request: WaybillRequest,
        key: WaybillKey,
        carrier: Carrier,
        number: str,
        charge: Charge,
    ) -> StoredWaybill:
        made = Waybill(
            **key._asdict(),
            object_id=self._world.new_id("wb_"),
            state="issued",
            number=number,
            price=charge.amount,
            request_id=charge.request_id,
            hold_id=None,
            asked_at_s=charge.at_ms // 1000,
            issued_at_s=self._world.at_s(),
        )
        template_url = f"{self._templates_url}/{request.waybill_type}"
        text = print_data(_label(request, carrier, number), self._vault.label_signer, template_url)
        return StoredWaybill(
            made,
            self._vault.fingerprints(_content(request), made.context),
            self._vault.seal(text, made.context),
        )

    def _answer(self, stored: StoredWaybill) -> bytes:
        result = WaybillResult(
            orderSn=stored.waybill.order_sn,
            objectId=stored.waybill.object_id,
            printData=stored.print_data(self._vault),
            waybillCode=stored.waybill.number or "",
            parentWaybillCode=None,
            code=1,
            errorMsg=None,
            withholding_money=stored.waybill.price,
        )
        return encode_data(result)


def _refused(request: WaybillRequest, why: str) -> Acted:
    """What the carrier refuses: nothing is issued, nothing is paid."""
    result = WaybillResult(
        orderSn=request.order_sn,
        objectId="",
        printData="",
        waybillCode="",
        parentWaybillCode=None,
        code=0,
        errorMsg=why,
        withholding_money=0,
    )
    return Acted(encode_data(result), is_paid=False)


def _content(request: WaybillRequest) -> dict[str, str]:
    """The fields in which a second request under the same key may not differ."""
    return {
        name: str(value)
        for name, value in msgspec.structs.asdict(request).items()
        if name not in _NOT_CONTENT
    }


def _label(request: WaybillRequest, carrier: Carrier, number: str) -> Label:
    sender = Address(
        request.sender_province, request.sender_city, request.sender_town, request.sender_detail
    )
    recipient = Address(
        request.receiver_province,
        request.receiver_city,
        request.receiver_town,
        request.receiver_address,
    )
    return Label(
        waybill_code=number,
        order_sn=request.order_sn,
        recipient=Party(request.receiver_name, request.receiver_phone, recipient),
        sender=Party(request.sender_name, request.sender_mobile, sender),
        routing_info=route(sender, recipient),
        shipping_option=ShippingOption(carrier.wp_code, carrier.name, request.waybill_type),
    )
