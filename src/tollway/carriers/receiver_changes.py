"""Changes the receiver of an issued waybill, until its label is printed.

A waybill from a pool is changed in one commit. A remote carrier is asked between two commits: the
first reserves the waybill, so that no label shows one receiver while the carrier expects another.
Without an answer it stays reserved for as long as the message may still arrive. After that the
change can be sent again, which is idempotent: it names the whole receiver. Only a change that the
carrier confirms ends the doubt: one that is declined or not sent says nothing about an earlier one.
"""

from typing import NamedTuple

import msgspec
from sqlalchemy import BigInteger, bindparam, func, literal_column, null, or_

from tollway.carriers import CarrierError
from tollway.carriers.carrier_links import OpenedCarrierLink, keep_link
from tollway.carriers.carriers import Carrier, find_carrier
from tollway.carriers.connectors.connector import ConnectorError, Declined, NotSentError, Updated
from tollway.carriers.connectors.remote_carriers import Remotes
from tollway.carriers.labels.print_data import Label, Party, label_of, with_recipient
from tollway.carriers.pending_waybills import order_for
from tollway.carriers.sorting_codes import find_routing
from tollway.carriers.vault import Vault
from tollway.carriers.waybills import (
    CHANGING_S_MAX,
    WHOLE,
    PrintDataOfBoth,
    StoredWaybill,
    Waybill,
    find_own,
    refuse_several,
    stored_waybill,
)
from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import record_act
from tollway.store.clock import common_ms, earlier_ms
from tollway.store.database import Database, Transaction, transactional
from tollway.store.query import Query, equals
from tollway.store.schema.carriers import IS_CHANGING, waybill

_NOT_SERVED = Phrase("the carrier does not deliver there", "该快递公司不派送该地区")
_SERVED = Phrase("a province that it delivers to", "其派送的省份")
_PRINTED = Phrase("its label was printed", "面单已打印")
_CANCELLED = Phrase("it is cancelled", "已取消")
_NOT_CONNECTED = Phrase("its carrier is no longer connected", "快递公司已断开连接")

_its_key = (
    equals(waybill, account_id="of_account", object_id="wanted"),
    waybill.c.state == "issued",
)
_until, _now = (bindparam(name, type_=BigInteger) for name in ("until_s", "now_s"))
_reserve = (
    waybill.update()
    .where(*_its_key, waybill.c.printed_at_s.is_(None), func.length(waybill.c.sealed) > 0)
    .values(changing_until_s=_until)
)
_RESERVE = Query(lambda: _reserve.where(waybill.c.changing_until_s.is_(None)))
_RESERVE_AGAIN = Query(
    lambda: _reserve.where(
        # As `Waybill.changing_for_s` says.
        or_(
            waybill.c.changing_until_s <= _now,
            waybill.c.changing_until_s > bindparam("latest_s", type_=BigInteger),
        )
    )
)
_RELEASE = Query(
    lambda: (
        waybill.update()
        .where(*_its_key, waybill.c.changing_until_s == _until)
        .values(changing_until_s=bindparam("before_s", type_=BigInteger))
    )
)
_IN_DOUBT = Query(
    lambda: WHOLE.where(
        literal_column(IS_CHANGING),
        or_(
            waybill.c.order_sn == bindparam("of_order"),
            waybill.c.object_id == bindparam("of_order"),
        ),
    )
)
# In doubt, but no message can arrive any more.
_IN_DOUBT_S = 0
_change = waybill.update().values(
    changing_until_s=null(),
    doubtful=bindparam("new_doubtful"),
    sealed=bindparam("new_sealed"),
)
# A waybill of a pool is never reserved.
_CHANGE = Query(
    lambda: _change.where(
        *_its_key, waybill.c.printed_at_s.is_(None), func.length(waybill.c.sealed) > 0
    )
)
_CHANGE_RESERVED = Query(lambda: _change.where(*_its_key, waybill.c.changing_until_s == _until))


class _Reservation(NamedTuple):
    """Until when a waybill is reserved, which also identifies the reservation; and what its release
    restores: None, or the doubt about an earlier change."""

    until_s: int
    before_s: int | None


class Receiver(NamedTuple):
    """A receiver as the label shows it, and the names of its fields that are in no list of
    places."""

    party: Party
    doubtful: list[str]


class ReceiverChanges:
    """Changes receivers in one database."""

    def __init__(
        self, database: Database, remotes: Remotes, vault: Vault, runtime: Runtime
    ) -> None:
        self._database = database
        self._remotes = remotes
        self._vault = vault
        self._runtime = runtime

    async def change(self, stored: StoredWaybill, to: Receiver) -> StoredWaybill:
        """The waybill with its new receiver; the same receiver again changes nothing."""
        of = stored.waybill
        is_settled = of.state == "issued" and of.changing_until_s is None and stored.sealed
        if is_settled and self._label(stored).recipient == to.party:
            return stored
        self._refuse_final(stored)
        carrier = await find_carrier(self._database, of.wp_code)
        if carrier is not None and not carrier.area.serves(to.party.address.province):
            raise Refusal(
                Reason.PARAMETER_INVALID,
                field="receiver_province",
                problem=_NOT_SERVED,
                expected=_SERVED,
            )
        if of.hold_id is None:
            return await self._database.write(lambda tx: self._store(tx, stored, to, Updated()))
        if carrier is None:
            raise Refusal(Reason.WAYBILL_FINAL, why=_NOT_CONNECTED)
        return await self._at_carrier(stored, to, carrier)

    async def _at_carrier(
        self, stored: StoredWaybill, to: Receiver, carrier: Carrier
    ) -> StoredWaybill:
        of = stored.waybill
        opened, reserved = await self._database.write(lambda tx: self._reserve(tx, stored))
        wait_s = opened.link.settle_after_s
        order = order_for(of, self._label(stored), to.party)
        try:
            connector = self._remotes.connector(carrier, opened)
            answer = await connector.update(order, of.number or "")
        except NotSentError:
            await self._release(stored, reserved)
            raise Refusal(Reason.CARRIER_UNREACHABLE) from None
        except ConnectorError:
            raise Refusal(Reason.WAYBILL_CHANGING, wait_s=wait_s) from None
        if isinstance(answer, Declined):
            await self._release(stored, reserved)
            raise Refusal(Reason.WAYBILL_FINAL, why=answer.clause)
        return await self._database.write(
            lambda tx: self._store(tx, stored, to, answer, until_s=reserved.until_s)
        )

    async def _reserve(
        self, transaction: Transaction, stored: StoredWaybill
    ) -> tuple[OpenedCarrierLink, _Reservation]:
        of = stored.waybill
        opened = await keep_link(transaction, self._vault.sealer, of.wp_code)
        if opened is None:
            raise Refusal(Reason.WAYBILL_FINAL, why=_NOT_CONNECTED)
        now_s = await common_ms(transaction, self._runtime.at_ms()) // 1000
        until_s = now_s + opened.link.settle_after_s + 1
        values = {"of_account": of.account_id, "wanted": of.object_id, "until_s": until_s}
        if await transaction.execute(_RESERVE, **values):
            return opened, _Reservation(until_s, None)
        latest_s = now_s + CHANGING_S_MAX
        if await transaction.execute(_RESERVE_AGAIN, **values, now_s=now_s, latest_s=latest_s):
            return opened, _Reservation(until_s, _IN_DOUBT_S)
        raise await self._refusal(transaction, stored, now_s)

    async def _release(self, stored: StoredWaybill, reserved: _Reservation) -> None:
        of = stored.waybill
        await self._database.write_statement(
            _RELEASE, of_account=of.account_id, wanted=of.object_id, **reserved._asdict()
        )

    async def _store(
        self,
        transaction: Transaction,
        stored: StoredWaybill,
        to: Receiver,
        answer: Updated,
        *,
        until_s: int | None = None,
    ) -> StoredWaybill:
        of, vault = stored.waybill, self._vault
        routing = answer.routing or await find_routing(
            transaction, of.wp_code, self._label(stored).sender.address, to.party.address
        )
        own = with_recipient(stored.own_print_data(vault), vault.label_signer, to.party, routing)
        text = own
        if answer.print_data is not None:
            text = msgspec.json.encode(PrintDataOfBoth(answer.print_data, own)).decode()
        others = [each for each in (of.doubtful or "").split() if not each.startswith("receiver_")]
        values = {
            "of_account": of.account_id,
            "wanted": of.object_id,
            "new_doubtful": " ".join([*to.doubtful, *others]) or None,
            "new_sealed": vault.seal(text, of.context),
        }
        if until_s is None:
            is_stored = await transaction.execute(_CHANGE, **values)
        else:
            is_stored = await transaction.execute(_CHANGE_RESERVED, **values, until_s=until_s)
        if not is_stored:
            raise await self._refusal(transaction, stored, 0)
        changed = await find_own(transaction, of.account_id, of.object_id)
        assert changed is not None
        subject, after = f"account {of.account_id}", {"number": of.number, "receiver": "changed"}
        await record_act(
            transaction, self._runtime, "waybill change", subject, before=of, after=after
        )
        return changed

    async def _refusal(
        self, transaction: Transaction, stored: StoredWaybill, now_s: int
    ) -> Refusal:
        """Why the waybill cannot be changed now, after another call was faster."""
        of = stored.waybill
        found = await find_own(transaction, of.account_id, of.object_id)
        if found is None:
            return Refusal(Reason.WAYBILL_UNKNOWN)
        self._refuse_final(found)
        wait_s = max(1, found.waybill.changing_for_s(now_s)) if now_s else 1
        return Refusal(Reason.WAYBILL_CHANGING, wait_s=wait_s)

    def _refuse_final(self, stored: StoredWaybill) -> None:
        of = stored.waybill
        if of.state == "cancelled":
            raise Refusal(Reason.WAYBILL_FINAL, why=_CANCELLED)
        if of.state != "issued" or of.number is None:
            raise Refusal(Reason.WAYBILL_UNKNOWN)
        stored.refuse_erased()
        if of.printed_at_s is not None:
            raise Refusal(Reason.WAYBILL_FINAL, why=_PRINTED)

    def _label(self, stored: StoredWaybill) -> Label:
        return label_of(stored.own_print_data(self._vault), self._vault.label_signer)


@transactional
async def decide_kept(
    transaction: Transaction, order_sn: str, wp_code: str | None, runtime: Runtime
) -> Waybill:
    """Ends the doubt about a waybill's receiver: the operator found out that the carrier has the
    one that is stored here."""
    rows = await transaction.fetch_all(_IN_DOUBT, of_order=order_sn)
    found = [stored_waybill(row).waybill for row in rows]
    found = [each for each in found if wp_code in (None, each.wp_code)]
    if not found:
        raise CarrierError(
            "No waybill of order {order_sn} waits for another receiver.", order_sn=order_sn
        )
    refuse_several(order_sn, found)
    (of,) = found
    until_s = of.changing_until_s or 0
    left_s = of.changing_for_s(await earlier_ms(transaction, runtime.at_ms()) // 1000)
    if left_s:
        raise CarrierError("The change may still arrive: try again in {left_s:,} s.", left_s=left_s)
    values = {"of_account": of.account_id, "wanted": of.object_id}
    # No row matches if the change was sent again meanwhile.
    if not await transaction.execute(_RELEASE, **values, until_s=until_s, before_s=None):
        raise CarrierError("Order {order_sn} is being changed again: try later.", order_sn=order_sn)
    subject, after = f"account {of.account_id}", {"number": of.number, "receiver": "kept"}
    await record_act(transaction, runtime, "waybill decide", subject, before=of, after=after)
    return of
