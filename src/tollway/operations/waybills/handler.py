"""The work of waybill issuing: finds the waybill of an order, or has one issued.

With a pool of this gateway everything happens in the transaction that charges. So a number is taken
exactly when its waybill is stored and paid, and of many equal concurrent requests the first issues
the waybill and the others find it. The waybills of a batch are issued together, by a few statements
for all of them; special cases are left to be issued one by one. A remote carrier is asked between
two commits (`remote_issue.py`).
"""

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import NamedTuple

from tollway.carriers.carrier_links import LinkedCarrier, find_linked_carrier, keep_link
from tollway.carriers.carriers import Carrier, list_carriers
from tollway.carriers.pending_waybills import label_in
from tollway.carriers.pools import TakeNumbers, TryAgain, are_held_elsewhere
from tollway.carriers.sorting_codes import find_routing, find_routings
from tollway.carriers.vault import Vault
from tollway.carriers.waybills import (
    StoredWaybill,
    WaybillKey,
    find_cancelled,
    find_in_force,
    is_parent,
    keys_in_force,
    store_waybills,
)
from tollway.consent.owners import credential_of
from tollway.contract.language import Phrase
from tollway.contract.operation import CallInfo, OwnerKind
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charges import Act, ActResult, Charge, JointAct
from tollway.ledger.runtime import Runtime
from tollway.operations.waybills.operation import WaybillRequest
from tollway.operations.waybills.remote_issue import RemoteIssuer
from tollway.operations.waybills.waybill_maker import (
    Numbered,
    WaybillMaker,
    addresses_of,
    differing_fields,
    issued,
    refused,
)
from tollway.store.database import Reader, Transaction

# With more, the message would not be readable.
_CARRIERS_NAMED_MAX = 20
_NO_NUMBERS = Phrase(
    "The carrier's waybill numbers are used up: choose another carrier, or ask the operator for "
    "more.",
    "该快递公司的电子面单号已用完：请更换快递公司，或请运营方补充单号。",
)
_NO_PARENT = Phrase(
    "this shop has no such waybill of this carrier, or it is one of a further parcel",
    "该店铺没有此快递公司的这张面单，或其本身为子单",
)
_A_PARENT = Phrase("the waybill number of the order's first parcel", "该订单第一个包裹的运单号")


class _Asked(NamedTuple):
    """A request, and the call that it came with."""

    request: WaybillRequest
    call: CallInfo

    @property
    def key(self) -> WaybillKey:
        request = self.request
        return WaybillKey(self.call.account_id, request.owner_id, request.order_sn, request.wp_code)


class _Chosen(NamedTuple):
    """A charge of a batch whose waybill can be issued."""

    position: int
    asked: _Asked
    key: WaybillKey
    carrier: Carrier


class _CarriersRead(NamedTuple):
    """A cache of the carriers read in one transaction: the waybills of a batch have few.

    It keeps a reference to the transaction even after its end, until the next one issues a waybill:
    otherwise a new transaction could get the address of the old one, and be taken for it.
    """

    transaction: Transaction
    found: dict[str, LinkedCarrier | None]


class WaybillHandler:
    """Issues waybills of the carriers of one database."""

    def __init__(
        self,
        reader: Reader,
        issuer: RemoteIssuer,
        vault: Vault,
        runtime: Runtime,
        public_address: str,
        take_numbers: TakeNumbers,
    ) -> None:
        self._reader = reader
        self._issuer = issuer
        self._vault = vault
        self._runtime = runtime
        self._take_numbers = take_numbers
        self._maker = WaybillMaker(vault, runtime, public_address)
        # Carriers that issued their own numbers when last read: their waybills cannot be issued
        # together.
        self._remote: set[str] = set()
        self._read: _CarriersRead | None = None

    def __call__(self, request: WaybillRequest, call: CallInfo) -> Awaitable[Act] | Act:
        act = self._act(request, call)
        return act if request.shopCode is None else self._checked(act, request)

    async def _checked(self, act: Act, request: WaybillRequest) -> Act:
        shop = await credential_of(self._reader, OwnerKind.SHOP, request.owner_id)
        if shop is None or request.shopCode != shop.owner.shop_code:
            raise Refusal(Reason.SHOP_CODE_WRONG)
        return act

    def _act(self, request: WaybillRequest, call: CallInfo) -> Act:
        alone = partial(self._issue, request, call)
        # A further parcel needs its parent first.
        if request.parentWaybillCode is not None or request.wp_code in self._remote:
            return alone
        return JointAct(alone, self._issue_together, _Asked(request, call))

    async def _issue(
        self, request: WaybillRequest, call: CallInfo, transaction: Transaction, charge: Charge
    ) -> ActResult:
        key = _Asked(request, call).key
        stored = await find_in_force(transaction, key)
        if stored is not None:
            return self._again(request, call, stored)
        cancelled = await _paid_and_cancelled(transaction, charge)
        if cancelled is not None:
            return self._repeated(cancelled)
        found = await self._find_carrier(transaction, request.wp_code)
        if found is None:
            raise Refusal(Reason.CARRIER_UNKNOWN, carriers=await _named_carriers(transaction))
        carrier, opened = found
        refusal = carrier.area.refusal(request.receiver_province, call.language)
        if refusal is not None:
            return refused(request.order_sn, refusal)
        parent = request.parentWaybillCode
        if parent is not None and not await is_parent(transaction, parent, key):
            raise _no_parent()
        if opened is not None:
            opened = await keep_link(transaction, self._vault.sealer, carrier.wp_code)
        if opened is None:
            return await self._from_pool(_Asked(request, call), carrier, transaction, charge)
        routing = await find_routing(transaction, carrier.wp_code, *addresses_of(request))
        pending = self._maker.pending(request, key, charge, carrier, routing)
        return await self._issuer.begin(
            transaction, pending, carrier, opened, charge, call.language
        )

    async def _find_carrier(self, transaction: Transaction, wp_code: str) -> LinkedCarrier | None:
        read = self._read
        if read is None or read.transaction is not transaction:
            read = self._read = _CarriersRead(transaction, {})
        if wp_code not in read.found:
            found = await find_linked_carrier(transaction, self._vault.sealer, wp_code)
            read.found[wp_code] = found
            if found is not None and found[1] is not None:
                self._remote.add(wp_code)
            else:
                self._remote.discard(wp_code)
        return read.found[wp_code]

    def _again(self, request: WaybillRequest, call: CallInfo, stored: StoredWaybill) -> ActResult:
        """The waybill that was issued before, free of charge, with the same answer."""
        if stored.waybill.changing_until_s is not None:
            wait_s = max(1, stored.waybill.changing_for_s(self._runtime.at_s()))
            raise Refusal(Reason.WAYBILL_CHANGING, wait_s=wait_s)
        stored.refuse_erased()
        differing = differing_fields(request, label_in(stored, self._vault))
        if differing:
            raise Refusal(Reason.WAYBILL_DIFFERS, fields=", ".join(differing))
        if stored.waybill.state == "pending":
            again = partial(self._issue, request, call)
            join = partial(self._issuer.join, stored, again, call.language)
            return ActResult(b"", is_paid=False, then=join)
        return self._repeated(stored)

    def _repeated(self, stored: StoredWaybill) -> ActResult:
        stored.refuse_erased()
        answer = issued(stored.waybill, stored.print_data(self._vault))
        return ActResult(answer, is_paid=False, replay_of=stored.waybill.request_id)

    async def _from_pool(
        self, asked: _Asked, carrier: Carrier, transaction: Transaction, charge: Charge
    ) -> ActResult:
        request = asked.request
        pool = carrier.wp_code, request.owner_id
        (number,) = await self._take_numbers(transaction, [pool])
        if isinstance(number, TryAgain):
            return self._once_more(asked)
        if number is None:
            if await are_held_elsewhere(transaction, pool):
                raise Refusal(Reason.STORE_UNAVAILABLE)
            return refused(request.order_sn, _NO_NUMBERS.said(asked.call.language))
        routing = await find_routing(transaction, carrier.wp_code, *addresses_of(request))
        made = Numbered(request, asked.key, charge, carrier, number, routing)
        ((stored, print_data),) = self._maker.from_pool([made])
        await store_waybills(transaction, [stored])
        return ActResult(issued(stored.waybill, print_data), is_paid=True)

    def _once_more(self, asked: _Asked) -> ActResult:
        """Asks again after the commit, which keeps the passed-over numbers marked as taken."""

        async def next_act() -> Act:
            return self._act(asked.request, asked.call)

        return ActResult(b"", is_paid=False, then=next_act)

    async def _issue_together(
        self, transaction: Transaction, charges: Sequence[Charge]
    ) -> list[ActResult | None]:
        """Issues the new waybills that it can; the others get None and are answered one by one."""
        results: list[ActResult | None] = [None] * len(charges)
        chosen = await self._issuable(transaction, charges)
        if not chosen:
            return results
        requests = [each.asked.request for each in chosen]
        pools = [(each.wp_code, each.owner_id) for each in requests]
        numbers = await self._take_numbers(transaction, pools)
        labels = [(each.wp_code, *addresses_of(each)) for each in requests]
        routings = await find_routings(transaction, labels)
        positions, numbered = [], []
        for each, number, routing in zip(chosen, numbers, routings, strict=True):
            position, asked, key, carrier = each
            if isinstance(number, TryAgain):
                results[position] = self._once_more(asked)
            elif number is not None:
                positions.append(position)
                charge = charges[position]
                numbered.append(Numbered(asked.request, key, charge, carrier, number, routing))
        made = self._maker.from_pool(numbered)
        for position, (stored, print_data) in zip(positions, made, strict=True):
            results[position] = ActResult(issued(stored.waybill, print_data), is_paid=True)
        await store_waybills(transaction, [stored for stored, _ in made])
        return results

    async def _issuable(self, transaction: Transaction, charges: Sequence[Charge]) -> list[_Chosen]:
        """The charges whose key is free, and whose carrier has a pool and serves the place."""
        first: dict[WaybillKey, tuple[int, _Asked]] = {}
        for position, charge in enumerate(charges):
            assert isinstance(charge.act, JointAct)
            asked: _Asked = charge.act.asked
            first.setdefault(asked.key, (position, asked))
        taken = await keys_in_force(transaction, list(first)) if first else set()
        # Only for free keys: an issued waybill is answered again, whatever became of its carrier.
        carriers = {
            wp_code: await self._find_carrier(transaction, wp_code)
            for wp_code in dict.fromkeys([key.wp_code for key in first if key not in taken])
        }
        chosen = []
        for key, (position, asked) in first.items():
            found = None if key in taken else carriers[key.wp_code]
            if found is None or found[1] is not None:
                continue
            carrier = found[0]
            if carrier.area.serves(asked.request.receiver_province):
                chosen.append(_Chosen(position, asked, key, carrier))
        return chosen


async def _paid_and_cancelled(transaction: Transaction, charge: Charge) -> StoredWaybill | None:
    """The waybill that was issued under the charge's key after its call had ended, and cancelled
    before the call was repeated: the key has no answer yet, and is paid for."""
    key = charge.idempotency_key
    if key is None or key.reserved_by is None:
        return None
    return await find_cancelled(transaction, charge.account_id, key.reserved_by)


async def _named_carriers(reader: Reader) -> Phrase:
    """What to send instead of an unknown wp_code."""
    codes = [each.wp_code for each in await list_carriers(reader)]
    if not codes or len(codes) > _CARRIERS_NAMED_MAX:
        return Phrase("check the carrier code", "请检查快递公司编码")
    return Phrase(f"send one of {', '.join(codes)}", f"请传入 {'、'.join(codes)} 之一")


def _no_parent() -> Refusal:
    field = "parentWaybillCode"
    return Refusal(Reason.PARAMETER_INVALID, field=field, problem=_NO_PARENT, expected=_A_PARENT)
