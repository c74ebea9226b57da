"""Receipts: everything that is known of one call, put together from what was written of it.

A charged call has no row of its own for this: its receipt follows from its entry in the books. One
that was not charged has a note (`uncharged.py`). A call whose outcome came late can have both.
"""

import msgspec
from sqlalchemy import and_, bindparam, select

from tollway.contract.receipt import Receipt, ReceiptConsent, ReceiptWaybill
from tollway.ledger.entries import entries_of_request
from tollway.ledger.holds import HOLD_COLUMNS, Hold
from tollway.ledger.receipt_writing import Traces, receipt_of
from tollway.ledger.uncharged import UnchargedCall
from tollway.store.consent_tables import consent, consent_use
from tollway.store.database import Database, Reader
from tollway.store.query import Query
from tollway.store.schema import account
from tollway.store.settlement_tables import hold, refused_call
from tollway.store.waybill_tables import waybill

_notes = select(*(refused_call.c[name] for name in UnchargedCall.__struct_fields__)).where(
    refused_call.c.request_id == bindparam("wanted")
)
_NOTE_OF_ACCOUNT = Query(_notes.where(refused_call.c.account_id == bindparam("of_account")))
# By way of the accounts, because the key of a note begins with one.
_NOTE = Query(_notes.where(refused_call.c.account_id.in_(select(account.c.id))))
_HOLD = Query(
    select(*HOLD_COLUMNS).where(
        hold.c.request_id == bindparam("wanted"), hold.c.account_id == bindparam("of_account")
    )
)
# By way of the account's grants, because the key of a use begins with the grant.
_CONSENT = Query(
    select(consent.c.owner_kind, consent.c.owner_id, consent.c.id)
    .join(
        consent_use,
        and_(
            consent_use.c.owner_kind == consent.c.owner_kind,
            consent_use.c.owner_id == consent.c.owner_id,
            consent_use.c.consent_id == consent.c.id,
        ),
    )
    .where(
        consent.c.account_id == bindparam("of_account"),
        consent_use.c.request_id == bindparam("wanted"),
    )
)
_WAYBILL = Query(
    select(*(waybill.c[name] for name in ReceiptWaybill.__struct_fields__)).where(
        waybill.c.account_id == bindparam("of_account"), waybill.c.request_id == bindparam("wanted")
    )
)


async def find_receipt(
    database: Database, account_id: str | None, request_id: str, language: str = "en"
) -> Receipt | None:
    """The receipt of a call, of this account only or of any; None if there is none."""
    found = await entries_of_request(database, request_id)
    entries = {each.kind: each for each in found if account_id in (None, each.account_id)}
    note = await _note(database, account_id, request_id)
    of_account = note.account_id if note else next((e.account_id for e in entries.values()), None)
    if of_account is None:
        return None
    row = await database.fetch_one(_HOLD, wanted=request_id, of_account=of_account)
    held = None if row is None else Hold(*row)
    receipt = receipt_of(Traces(note, entries, held), language)
    return msgspec.structs.replace(
        receipt,
        consent=await _consent(database, receipt, held),
        waybill=await _waybill(database, receipt),
    )


async def _note(reader: Reader, account_id: str | None, request_id: str) -> UnchargedCall | None:
    if account_id is None:
        row = await reader.fetch_one(_NOTE, wanted=request_id)
    else:
        row = await reader.fetch_one(_NOTE_OF_ACCOUNT, wanted=request_id, of_account=account_id)
    return None if row is None else UnchargedCall(*row)


async def _consent(
    database: Database, receipt: Receipt, held: Hold | None
) -> ReceiptConsent | None:
    if held is not None:
        if held.owner_kind is None or held.owner_id is None or held.consent_id is None:
            return None
        return ReceiptConsent(held.owner_kind, held.owner_id, held.consent_id)
    if receipt.code != 0:
        return None
    # Aside: an account may have the grants of very many shops.
    rows = await database.fetch_long(
        _CONSENT,
        receipt.account_id,
        of_account=receipt.account_id,
        wanted=receipt.request_id,
    )
    return ReceiptConsent(*rows[0]) if rows else None


async def _waybill(reader: Reader, receipt: Receipt) -> ReceiptWaybill | None:
    """The waybill of a call; of one that was asked for again, the one that was there already."""
    row = await reader.fetch_one(
        _WAYBILL,
        of_account=receipt.account_id,
        wanted=receipt.replay_of or receipt.request_id,
    )
    return None if row is None else ReceiptWaybill(*row)
