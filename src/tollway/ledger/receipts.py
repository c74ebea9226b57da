"""Receipts: found from the rows that a call left, and worded as charged, held or not charged.

A receipt needs no row of its own: a charge, a hold, a use of a grant, a waybill or the record of a
refused call is enough.
"""

from typing import Any

import msgspec
from sqlalchemy import and_, bindparam, select

from tollway.contract.language import Phrase
from tollway.contract.receipt import (
    CAPTURED,
    CHARGED,
    DOUBTFUL,
    FREE_REASONS,
    HELD,
    REFUNDED,
    REFUSED,
    RELEASED,
    FreeReason,
    Outcome,
    Receipt,
    ReceiptConsent,
    ReceiptHold,
    ReceiptRefund,
    ReceiptWaybill,
)
from tollway.ledger.entries import Entry, entries_of_request
from tollway.ledger.holds import HOLD_COLUMNS, Hold
from tollway.ledger.refused_calls import RefusedCall
from tollway.ledger.request_log import time_of
from tollway.store.database import Database, Reader
from tollway.store.query import Query, alike, equals
from tollway.store.schema.carriers import waybill
from tollway.store.schema.consent import consent, consent_use
from tollway.store.schema.ledger import account, hold, refused_call


class Traces(msgspec.Struct, frozen=True):
    """The rows of a call: its record as a refused call, its entries by their kind, and its hold.

    The entries decide the state of a hold, because they were read at one moment; the row of the
    hold may have been read later.
    """

    note: RefusedCall | None
    entries: dict[str, Entry]
    hold: Hold | None


def receipt_of(traces: Traces, language: str) -> Receipt:
    """What follows from the traces alone: without the consent and the waybill."""
    charge, reserved = traces.entries.get("charge"), traces.entries.get("hold")
    if charge is not None:
        return _charged(traces, charge, language)
    if traces.hold is not None and reserved is not None:
        return _held(traces, traces.hold, reserved, language)
    assert traces.note is not None
    return _noted(traces.note, language)


def _charged(traces: Traces, charge: Entry, language: str) -> Receipt:
    note, held, refund = traces.note, traces.hold, traces.entries.get("top_up")
    why = (CHARGED if held is None else CAPTURED).said(language)
    if refund is not None:
        why = REFUNDED.fill(language, {"amount": refund.amount})
    return Receipt(
        charge.request_id or "",
        charge.account_id,
        charge.operation or "",
        # The charge of what was held has the time of its capture.
        charge.at_ms if held is None else held.at_ms,
        Outcome.CHARGED,
        0 if note is None else note.code,
        "SUCCESS" if note is None else note.reason,
        why,
        **_money(charge),
        hold=None if held is None else _shown(held, traces.entries),
        refund=None if refund is None else ReceiptRefund(refund.amount, refund.at_ms),
        owner_kind=None if note is None else note.owner_kind,
        owner_id=None if note is None else note.owner_id,
    )


def _held(traces: Traces, held: Hold, reserved: Entry, language: str) -> Receipt:
    note, is_open = traces.note, "release" not in traces.entries
    money = _money(reserved) if is_open else {"token_id": held.token_id}
    return Receipt(
        held.request_id,
        held.account_id,
        held.operation,
        held.at_ms,
        Outcome.HELD if is_open else Outcome.NOT_CHARGED,
        None if note is None else note.code,
        None if note is None else note.reason,
        (HELD if is_open else RELEASED).said(language),
        **money,
        hold=_shown(held, traces.entries),
    )


def _noted(note: RefusedCall, language: str) -> Receipt:
    if note.code == 0:
        why = FREE_REASONS[FreeReason(note.reason)].said(language)
    else:
        why = REFUSED.fill(language, {"code": note.code, "reason": note.reason})
    return Receipt(
        note.request_id,
        note.account_id,
        note.operation,
        note.at_ms,
        Outcome.NOT_CHARGED,
        note.code,
        note.reason,
        why,
        replay_of=note.replay_of,
        client_request_id=note.client_request_id,
        is_test=bool(note.is_test),
        owner_kind=note.owner_kind,
        owner_id=note.owner_id,
        msg=None if note.said is None else _SAID.decode(note.said).said(language),
    )


_SAID = msgspec.json.Decoder(Phrase)


def _money(entry: Entry) -> dict[str, Any]:
    """What an entry took, and the balance around it."""
    return {
        "amount": -entry.amount,
        "unit": entry.unit,
        "balance_before": entry.balance_after - entry.amount,
        "balance_after": entry.balance_after,
        "token_id": entry.token_id,
    }


def _shown(held: Hold, entries: dict[str, Entry]) -> ReceiptHold:
    release = entries.get("release")
    state, settled_at_ms = "held", None
    if release is not None:
        state, settled_at_ms = "captured" if "charge" in entries else "released", release.at_ms
    return ReceiptHold(held.id, state, held.amount, held.deadline_at_ms, settled_at_ms)


_notes = select(*(refused_call.c[name] for name in RefusedCall.__struct_fields__)).where(
    refused_call.c.request_id == bindparam("wanted")
)
_NOTE_OF_ACCOUNT = Query(lambda: _notes.where(refused_call.c.account_id == bindparam("of_account")))
# Through the accounts, because the key of a refused call begins with one.
_NOTE = Query(lambda: _notes.where(refused_call.c.account_id.in_(select(account.c.id))))
# By time, which a request id begins with: a few seconds have few refused calls.
_NOTE_OF_TIME = Query(
    lambda: _notes.where(
        refused_call.c.at_ms >= bindparam("since_ms"), refused_call.c.at_ms <= bindparam("until_ms")
    )
)
_MOMENT_MS = 5000
_HOLD = Query(
    lambda: select(*HOLD_COLUMNS).where(equals(hold, request_id="wanted", account_id="of_account"))
)
# Through the account's grants, because the key of a use begins with the grant.
_CONSENT = Query(
    lambda: (
        select(consent.c.owner_kind, consent.c.owner_id, consent.c.id)
        .join(
            consent_use,
            and_(
                alike(consent_use, consent, "owner_kind", "owner_id"),
                consent_use.c.consent_id == consent.c.id,
            ),
        )
        .where(
            consent.c.account_id == bindparam("of_account"),
            consent_use.c.request_id == bindparam("wanted"),
        )
    )
)
_facts = ("object_id", "wp_code", "number", "state", "parent_number", "doubtful")
_WAYBILL = Query(
    lambda: select(*(waybill.c[name] for name in _facts)).where(
        equals(waybill, account_id="of_account", request_id="wanted")
    )
)


async def find_receipt(
    database: Database, account_id: str | None, request_id: str, language: str = "en"
) -> Receipt | None:
    """The receipt of a call, of this account only or of any; None if there is none."""
    found = await entries_of_request(database, request_id)
    entries = {each.kind: each for each in found if account_id in (None, each.account_id)}
    if not entries.keys() & {"charge", "hold"}:
        # A refund may outlive its charge, and says too little without it.
        entries = {}
    known = account_id or next((each.account_id for each in entries.values()), None)
    note = await _note(database, known, request_id)
    of_account = note.account_id if note else next((e.account_id for e in entries.values()), None)
    if of_account is None:
        return None
    row = await database.fetch_one(_HOLD, wanted=request_id, of_account=of_account)
    held = None if row is None else Hold(*row)
    receipt = receipt_of(Traces(note, entries, held), language)
    used = await _consent(database, receipt, held)
    return msgspec.structs.replace(
        receipt,
        consent=used,
        owner_kind=receipt.owner_kind if used is None else used.owner_kind,
        owner_id=receipt.owner_id if used is None else used.owner_id,
        waybill=await _waybill(database, receipt, language),
    )


async def _note(reader: Reader, account_id: str | None, request_id: str) -> RefusedCall | None:
    if account_id is None:
        at_ms = min(time_of(request_id), 2**53)
        row = await reader.fetch_one(
            _NOTE_OF_TIME,
            wanted=request_id,
            since_ms=at_ms - _MOMENT_MS,
            until_ms=at_ms + _MOMENT_MS,
        ) or await reader.fetch_one(_NOTE, wanted=request_id)
    else:
        row = await reader.fetch_one(_NOTE_OF_ACCOUNT, wanted=request_id, of_account=account_id)
    return None if row is None else RefusedCall(*row)


async def _consent(
    database: Database, receipt: Receipt, held: Hold | None
) -> ReceiptConsent | None:
    if held is not None:
        if held.owner_kind is None or held.owner_id is None or held.consent_id is None:
            return None
        return ReceiptConsent(held.owner_kind, held.owner_id, held.consent_id)
    if receipt.code != 0:
        return None
    # A long read: an account may have the grants of very many shops.
    rows = await database.fetch_long(
        _CONSENT,
        receipt.account_id,
        of_account=receipt.account_id,
        wanted=receipt.request_id,
    )
    return ReceiptConsent(*rows[0]) if rows else None


async def _waybill(reader: Reader, receipt: Receipt, language: str) -> ReceiptWaybill | None:
    """The waybill of a call; for a repeated request, the one that was issued before."""
    row = await reader.fetch_one(
        _WAYBILL,
        of_account=receipt.account_id,
        wanted=receipt.replay_of or receipt.request_id,
    )
    if row is None:
        return None
    object_id, wp_code, number, state, parent_number, doubtful = row
    fields = (doubtful or "").split()
    warnings = [DOUBTFUL.fill(language, {"field": each}) for each in fields]
    return ReceiptWaybill(object_id, wp_code, number, state, parent_number, warnings)
