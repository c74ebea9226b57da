"""Waybills that wait for their carrier: begun with a hold, ended by its capture or its release.

Each end is one transaction together with the ledger, and happens once: a second attempt finds that
the waybill is no longer pending.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import ColumnElement, bindparam, literal_column, or_, select, tuple_

from tollway.carriers import CarrierError
from tollway.carriers.connectors.connector import Issued, IssueOrder, OrderRef
from tollway.carriers.labels.print_data import Label, Party, label_of, print_data
from tollway.carriers.pools import take_given
from tollway.carriers.vault import Vault
from tollway.carriers.waybills import (
    WAYBILL_COLUMNS,
    WHOLE,
    PrintDataOfBoth,
    StoredWaybill,
    Waybill,
    find_own,
    store_waybills,
    stored_waybill,
)
from tollway.ledger.charges import Charge
from tollway.ledger.holds import capture, lock_balance_of, move_deadline, release, reserve
from tollway.store.database import Reader, Row, Transaction
from tollway.store.query import Query, changed, equals, listed, pieces
from tollway.store.schema.carriers import IS_PENDING, waybill

# A literal, not a parameter: otherwise the planner does not use the partial index.
_is_pending: ColumnElement[bool] = literal_column(IS_PENDING)
_CARRIERS = Query(lambda: select(waybill.c.wp_code).where(_is_pending).distinct())
_position = (waybill.c.asked_at_s, waybill.c.object_id)
_PENDING = WHOLE.where(_is_pending, waybill.c.wp_code == bindparam("of_carrier"))
_OLDEST = Query(lambda: _PENDING.order_by(*_position).limit(bindparam("most")))
_AFTER = Query(
    lambda: (
        _PENDING.where(tuple_(*_position) > tuple_(bindparam("last_at_s"), bindparam("last_id")))
        .order_by(*_position)
        .limit(bindparam("most"))
    )
)
_OF_ORDER = Query(
    lambda: WHOLE.where(
        _is_pending,
        or_(
            waybill.c.order_sn == bindparam("of_order"),
            waybill.c.object_id == bindparam("of_order"),
        ),
    )
)
_listed = listed(64)
_OF_REQUESTS = Query(
    lambda: select(*WAYBILL_COLUMNS).where(_is_pending, waybill.c.request_id.in_(_listed))
)
_GIVEN = Query(
    lambda: select(waybill.c.object_id).where(equals(waybill, number="given", wp_code="of_carrier"))
)
_of_pending = (
    equals(waybill, account_id="of_account", object_id="of_object"),
    waybill.c.state == "pending",
)
_ISSUE = Query(
    lambda: (
        waybill.update()
        .where(*_of_pending)
        .values(
            state="issued",
            number=bindparam("given"),
            issued_at_s=bindparam("at_s"),
            sealed=bindparam("print_data"),
        )
    )
)
_REFUSE = Query(
    lambda: waybill.update().where(*_of_pending).values(state="refused", refusal=bindparam("why"))
)
_DATE = Query(lambda: changed(waybill, asked_at_s="then_s").where(*_of_pending))


class Draft(msgspec.Struct, frozen=True):
    """A label that waits for its number, and where its template is described."""

    label: Label
    template_url: str


async def begin(
    transaction: Transaction, stored: StoredWaybill, charge: Charge, deadline_at_ms: int
) -> None:
    """Stores a pending waybill and holds its price."""
    hold_id = stored.waybill.hold_id
    assert hold_id is not None
    await reserve(transaction, charge, hold_id, deadline_at_ms)
    await store_waybills(transaction, [stored])


async def end_issued(
    transaction: Transaction, stored: StoredWaybill, issued: Issued, vault: Vault, at_ms: int
) -> bool:
    """Gives a pending waybill its number and captures its price; False if it is not pending."""
    pending = stored.waybill
    await _refuse_given_twice(transaction, pending, issued.number)
    draft = _draft(stored, vault)
    label = msgspec.structs.replace(
        draft.label, waybill_code=issued.number, issued_at_s=at_ms // 1000
    )
    if issued.routing is not None:
        label = msgspec.structs.replace(label, routing_info=issued.routing)
    text = print_data(label, vault.label_signer, draft.template_url).decode()
    if issued.print_data is not None:
        text = msgspec.json.encode(PrintDataOfBoth(issued.print_data, text)).decode()
    await lock_balance_of(transaction, pending.account_id, _hold_id(pending))
    changed = await transaction.execute(
        _ISSUE,
        of_account=pending.account_id,
        of_object=pending.object_id,
        given=issued.number,
        at_s=at_ms // 1000,
        print_data=vault.seal(text, pending.context),
    )
    if changed:
        await take_given(transaction, pending.wp_code, issued.number)
        await capture(transaction, pending.account_id, _hold_id(pending), at_ms)
    return bool(changed)


async def end_refused(
    transaction: Transaction, stored: StoredWaybill, why: str, at_ms: int
) -> bool:
    """Frees a pending waybill's key and releases its price; False if it is not pending."""
    pending = stored.waybill
    await lock_balance_of(transaction, pending.account_id, _hold_id(pending))
    changed = await transaction.execute(
        _REFUSE, of_account=pending.account_id, of_object=pending.object_id, why=why
    )
    if changed:
        await release(transaction, pending.account_id, _hold_id(pending), at_ms)
    return bool(changed)


async def date_back(
    transaction: Transaction, stored: StoredWaybill, asked_at_s: int, now_ms: int
) -> StoredWaybill:
    """Dates a pending waybill that was asked for while a clock was ahead; its hold has been open
    for long enough."""
    pending = stored.waybill
    await lock_balance_of(transaction, pending.account_id, _hold_id(pending))
    await transaction.execute(
        _DATE, of_account=pending.account_id, of_object=pending.object_id, then_s=asked_at_s
    )
    await move_deadline(transaction, pending.account_id, _hold_id(pending), now_ms)
    return stored._replace(waybill=msgspec.structs.replace(pending, asked_at_s=asked_at_s))


async def carriers_pending(reader: Reader) -> list[str]:
    """The carriers that waybills wait for."""
    return [str(wp_code) for (wp_code,) in await reader.fetch_all(_CARRIERS)]


class Position(NamedTuple):
    """The position of a waybill among those that wait for a carrier, the oldest first."""

    asked_at_s: int
    object_id: str

    @classmethod
    def of(cls, pending: Waybill) -> "Position":
        return cls(pending.asked_at_s, pending.object_id)


async def list_pending(
    reader: Reader, wp_code: str, last: Position | None, most: int
) -> Sequence[StoredWaybill]:
    """The waybills that wait for a carrier: those after `last`, then again from the oldest."""
    rows: list[Row] = []
    if last is not None:
        after = {"last_at_s": last.asked_at_s, "last_id": last.object_id}
        rows += await reader.fetch_all(_AFTER, of_carrier=wp_code, most=most, **after)
    pending = [stored_waybill(row) for row in rows]
    if len(pending) < most:
        oldest = await reader.fetch_all(_OLDEST, of_carrier=wp_code, most=most - len(pending))
        seen = {each.waybill.object_id for each in pending}
        pending += [
            each for each in map(stored_waybill, oldest) if each.waybill.object_id not in seen
        ]
    return pending


async def pending_of_order(reader: Reader, order_sn: str) -> Sequence[StoredWaybill]:
    """The waybills of an order that wait for their carriers, of any account and shop; or the one
    with this object id."""
    return [stored_waybill(row) for row in await reader.fetch_all(_OF_ORDER, of_order=order_sn)]


async def pending_of_requests(reader: Reader, request_ids: Sequence[str]) -> list[Waybill]:
    """The waybills that these calls asked for and that wait for their carriers."""
    found: list[Waybill] = []
    for values in pieces(request_ids, _listed):
        found += [Waybill(*row) for row in await reader.fetch_all(_OF_REQUESTS, **values)]
    return found


async def is_pending(reader: Reader, of: Waybill) -> bool:
    found = await find_own(reader, of.account_id, of.object_id)
    return found is not None and found.waybill.state == "pending"


def seal_draft(draft: Draft, vault: Vault, context: bytes) -> bytes:
    return vault.seal(msgspec.json.encode(draft).decode(), context)


def label_in(stored: StoredWaybill, vault: Vault) -> Label:
    """The label of a waybill that is pending or issued: all that its request wanted printed."""
    if stored.waybill.state == "pending":
        return _draft(stored, vault).label
    return label_of(stored.own_print_data(vault), vault.label_signer)


def order_of(stored: StoredWaybill, vault: Vault) -> IssueOrder:
    """The message for the carrier."""
    label = _draft(stored, vault).label
    return order_for(stored.waybill, label, label.recipient)


def order_for(of: Waybill, label: Label, recipient: Party) -> IssueOrder:
    """The message for a waybill with this label, but for this receiver."""
    goods_name = label.parcel.goods_name if label.parcel else None
    kind = label.shipping_option.waybill_type
    return IssueOrder(ref_of(of), label.sender, recipient, kind, goods_name)


def ref_of(of: Waybill) -> OrderRef:
    return OrderRef(of.object_id, of.owner_id, of.order_sn)


def _draft(stored: StoredWaybill, vault: Vault) -> Draft:
    return msgspec.json.decode(stored.print_data(vault), type=Draft)


async def _refuse_given_twice(transaction: Transaction, pending: Waybill, number: str) -> None:
    """Checked before the update, so that the carrier's mistake fails only this waybill."""
    row = await transaction.fetch_one(_GIVEN, given=number, of_carrier=pending.wp_code)
    if row is not None and row[0] != pending.object_id:
        raise CarrierError(
            "Carrier {wp_code} gave number {number} to waybill {object_id}, which waybill "
            "{other_id} has already.",
            wp_code=pending.wp_code,
            number=number,
            object_id=pending.object_id,
            other_id=row[0],
        )


def _hold_id(pending: Waybill) -> str:
    assert pending.hold_id is not None
    return pending.hold_id
