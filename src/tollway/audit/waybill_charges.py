"""Waybills against charges: each has the charge that it costs, and no charge is without one.

One that is pending is not paid yet, and one that was refused never is.
"""

from collections.abc import Iterator

from sqlalchemy import and_, exists, func, literal, or_, select, union_all

from tollway.audit.check import Breach, Check
from tollway.operations.waybills.operation import WAYBILLS
from tollway.store.database import Row
from tollway.store.schema.carriers import waybill
from tollway.store.schema.ledger import archived_balance, entry

_is_paid = or_(waybill.c.state == "issued", waybill.c.state == "cancelled")
_is_charge = and_(entry.c.kind == "charge", entry.c.operation == WAYBILLS.name)

_REPORTED = ("account_id", "object_id", "request_id", "price", "charged")
_charged_for_it = (
    select(func.coalesce(-func.sum(entry.c.amount), 0))
    .where(
        entry.c.request_id == waybill.c.request_id,
        entry.c.account_id == waybill.c.account_id,
        _is_charge,
    )
    .scalar_subquery()
)
_each = (
    select(
        waybill.c.account_id,
        waybill.c.object_id,
        waybill.c.request_id,
        waybill.c.price,
        _charged_for_it.label("charged"),
        waybill.c.issued_at_s,
    )
    # Without a request it cannot be compared alone; the sums below include it.
    .where(_is_paid, waybill.c.request_id.is_not(None))
    .subquery("each")
)
# The charge may be among those that were dropped. The time of a waybill is a little after its own.
_GRACE_MS = 60_000
_is_carried = exists().where(
    archived_balance.c.account_id == _each.c.account_id,
    archived_balance.c.unit == WAYBILLS.balance_unit,
    archived_balance.c.at_ms >= _each.c.issued_at_s * 1000 - _GRACE_MS,
)
_mispaid = select(*(_each.c[name] for name in _REPORTED)).where(
    _each.c.price != _each.c.charged, or_(_each.c.charged != 0, ~_is_carried)
)

# A union that is added up, and not a join, because either side may be missing.
_laid_under = union_all(
    select(
        waybill.c.account_id,
        func.sum(waybill.c.price).label("priced"),
        literal(0).label("charged"),
    )
    .where(_is_paid)
    .group_by(waybill.c.account_id),
    select(entry.c.account_id, literal(0), -func.sum(entry.c.amount))
    .where(_is_charge)
    .group_by(entry.c.account_id),
    select(archived_balance.c.account_id, literal(0), -archived_balance.c.waybills),
).subquery("laid_under")
_priced, _charged = func.sum(_laid_under.c.priced), func.sum(_laid_under.c.charged)
_unequal = (
    select(_laid_under.c.account_id, _priced, _charged)
    .group_by(_laid_under.c.account_id)
    .having(_priced != _charged)
)


def _tell_mispaid(row: Row) -> Iterator[Breach]:
    account_id, object_id, request_id, price, charged = row
    difference = (
        f"waybill {object_id} costs {price}, but {charged} was charged for request {request_id}"
    )
    yield Breach("waybill_paid_differs", account_id, WAYBILLS.balance_unit, difference)


def _tell_unequal(row: Row) -> Iterator[Breach]:
    account_id, priced, charged = row
    difference = f"its waybills cost {priced} but {charged} was charged for waybills"
    yield Breach("waybills_paid_differs", account_id, WAYBILLS.balance_unit, difference)


WAYBILLS_PAID = Check(
    "waybills_paid",
    "each waybill has the charge that it costs",
    waybill,
    _mispaid,
    _tell_mispaid,
)
WAYBILL_CHARGES = Check(
    "waybill_charges",
    "what was charged for waybills is what they cost",
    waybill,
    _unequal,
    _tell_unequal,
)
