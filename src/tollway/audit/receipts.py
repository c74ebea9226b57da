"""Receipts against charges: a call that is told as not charged has no charge in the books.

The receipt of a charged call follows from its entry, so there is nothing to compare it with. A call
that was answered with 101, because its carrier was silent, may have been charged later.
"""

from collections.abc import Iterator

from sqlalchemy import and_, exists, select

from tollway.audit.check import Breach, Check
from tollway.store.database import Row
from tollway.store.schema import entry
from tollway.store.settlement_tables import uncharged_call

_TIMED_OUT = 101
_is_charged = exists().where(
    and_(
        entry.c.request_id == uncharged_call.c.request_id,
        entry.c.account_id == uncharged_call.c.account_id,
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
    uncharged_call,
    select(
        uncharged_call.c.account_id,
        uncharged_call.c.request_id,
        uncharged_call.c.code,
        uncharged_call.c.reason,
    ).where(uncharged_call.c.code != _TIMED_OUT, _is_charged),
    _tell,
)
