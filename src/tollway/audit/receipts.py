"""Receipts against charges: a call that is told as not charged has no charge in the books.

The receipt of a charged call follows from its entry, so there is nothing to compare it with. What
some calls came to was not known when they were answered: those may have been charged all the same.
"""

from collections.abc import Iterator

from sqlalchemy import and_, exists, select

from tollway.audit.check import Breach, Check
from tollway.contract.reasons import Reason
from tollway.store.database import Row
from tollway.store.schema import entry
from tollway.store.settlement_tables import refused_call

_UNKNOWN_THEN = [Reason.CARRIER_SILENT.name, Reason.COMMIT_IN_DOUBT.name, Reason.TIMED_OUT.name]
_is_charged = exists().where(
    and_(
        entry.c.request_id == refused_call.c.request_id,
        entry.c.account_id == refused_call.c.account_id,
        entry.c.kind == "charge",
    )
)


def _tell(row: Row) -> Iterator[Breach]:
    account_id, request_id, code, reason = row
    difference = f"request {request_id} was charged, and told as not charged ({code} {reason})"
    yield Breach("charged_and_not", account_id, None, difference)


UNCHARGED = Check(
    "uncharged",
    "a call that is told as not charged has no charge",
    refused_call,
    select(
        refused_call.c.account_id,
        refused_call.c.request_id,
        refused_call.c.code,
        refused_call.c.reason,
    ).where(*(refused_call.c.reason != each for each in _UNKNOWN_THEN), _is_charged),
    _tell,
)
