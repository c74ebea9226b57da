"""From what a call has left behind to what its receipt says: charged, held or not charged."""

from typing import Any

import msgspec

from tollway.contract.receipt import (
    CAPTURED,
    CHARGED,
    HELD,
    REFUSED,
    RELEASED,
    UNCHARGED,
    Outcome,
    Receipt,
    ReceiptHold,
    Uncharged,
)
from tollway.ledger.entries import Entry
from tollway.ledger.holds import Hold
from tollway.ledger.uncharged import UnchargedCall


class Traces(msgspec.Struct, frozen=True):
    """What a call has left behind: its note, its entries by their kind, and its hold.

    What became of a hold is told by the entries, which were read at one moment; its row may have
    been read at a later one.
    """

    note: UnchargedCall | None
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
    note, held = traces.note, traces.hold
    return Receipt(
        charge.request_id or "",
        charge.account_id,
        charge.operation or "",
        # The charge of what was held has the time of its capture.
        charge.at_ms if held is None else held.at_ms,
        Outcome.CHARGED,
        0 if note is None else note.code,
        "SUCCESS" if note is None else note.reason,
        (CHARGED if held is None else CAPTURED).fill(language, {}),
        **_money(charge),
        hold=None if held is None else _shown(held, traces.entries),
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
        (HELD if is_open else RELEASED).fill(language, {}),
        **money,
        hold=_shown(held, traces.entries),
    )


def _noted(note: UnchargedCall, language: str) -> Receipt:
    if note.code == 0:
        why = UNCHARGED[Uncharged(note.reason)].fill(language, {})
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
    )


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
