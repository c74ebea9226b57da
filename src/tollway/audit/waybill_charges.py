"""Waybills against charges: what an account paid for waybills is what its waybills cost.

A waybill does not yet name the request that paid for it, so sums are compared, account by account.
"""

from collections.abc import Iterator

from sqlalchemy import func, literal, select, union_all

from tollway.audit.check import Breach, Check
from tollway.operations.waybills.descriptor import WAYBILLS
from tollway.store.database import Row
from tollway.store.schema import entry, waybill

# Laid under each other and added up, because either side may be missing.
_laid_under = union_all(
    select(
        waybill.c.account_id,
        func.sum(waybill.c.price).label("priced"),
        literal(0).label("charged"),
    ).group_by(waybill.c.account_id),
    select(entry.c.account_id, literal(0), -func.sum(entry.c.amount))
    .where(entry.c.kind == "charge", entry.c.operation == WAYBILLS.name)
    .group_by(entry.c.account_id),
).subquery("laid_under")
_priced, _charged = func.sum(_laid_under.c.priced), func.sum(_laid_under.c.charged)
_unequal = (
    select(_laid_under.c.account_id, _priced, _charged)
    .group_by(_laid_under.c.account_id)
    .having(_priced != _charged)
)


def _tell(row: Row) -> Iterator[Breach]:
    account_id, priced, charged = row
    difference = f"its waybills cost {priced} but {charged} was charged for waybills"
    yield Breach("waybills_paid_differs", account_id, WAYBILLS.balance_unit, difference)


WAYBILL_CHARGES = Check(
    "waybill_charges",
    "what was charged for waybills is what they cost",
    waybill,
    _unequal,
    _tell,
)
