"""Waybills by themselves, against the pools of numbers, and against charges.

A number in a pool is taken if and only if it is on a waybill: one transaction writes both. A
waybill's number need not be in a pool.

Each waybill has the charge that it costs, and each charge has a waybill. A pending waybill is not
paid for yet, and a refused one never is.
"""

from sqlalchemy import and_, exists, func, literal, not_, or_, select, text, union_all

from tollway.audit.check import check_each
from tollway.operations.waybills.operation import WAYBILLS
from tollway.store.query import alike
from tollway.store.schema.carriers import IN_FORCE, waybill, waybill_number
from tollway.store.schema.ledger import archived_balance, entry

_NATURAL_KEY = (waybill.c.account_id, waybill.c.owner_id, waybill.c.order_sn, waybill.c.wp_code)
_same_number = alike(waybill, waybill_number, "wp_code", "number")

# Unique indexes prevent both, but an index may have been dropped.
_rivals = (
    select(*_NATURAL_KEY, func.count().label("times"))
    # As literal text without parameters: only then can the planner match the partial index.
    .where(text(IN_FORCE))
    .group_by(*_NATURAL_KEY)
    .having(func.count() > 1)
)
_used_again = (
    select(waybill.c.number, waybill.c.wp_code, func.count().label("times"))
    .where(waybill.c.number.is_not(None))
    .group_by(waybill.c.number, waybill.c.wp_code)
    .having(func.count() > 1)
)
_still_free = (
    select(waybill.c.account_id, waybill.c.object_id, waybill.c.wp_code, waybill.c.number)
    .join_from(waybill, waybill_number, _same_number)
    .where(waybill_number.c.is_taken == 0)
)
_lost = select(waybill_number.c.wp_code, waybill_number.c.number).where(
    waybill_number.c.is_taken == 1, ~exists().where(_same_number)
)
_is_issued = or_(waybill.c.state == "issued", waybill.c.state == "cancelled")
_has_number = and_(waybill.c.number.is_not(None), waybill.c.issued_at_s.is_not(None))
_has_none = and_(waybill.c.number.is_(None), waybill.c.issued_at_s.is_(None))
_is_cancelled, _has_end = waybill.c.state == "cancelled", waybill.c.cancelled_at_s.is_not(None)
_misnumbered = select(waybill.c.account_id, waybill.c.object_id, waybill.c.state).where(
    or_(
        and_(_is_issued, not_(_has_number)),
        and_(not_(_is_issued), not_(_has_none)),
        and_(_is_cancelled, not_(_has_end)),
        and_(not_(_is_cancelled), _has_end),
    )
)
WAYBILLS_IN_FORCE = check_each(
    "waybills_in_force",
    "an order has at most one waybill of a carrier in force",
    waybill,
    _rivals,
    "waybill_twice",
    "order {order_sn} of shop {owner_id} has {times} waybills of {wp_code} in force at once",
)
NUMBERS_ONCE = check_each(
    "numbers_once",
    "no number is on two waybills",
    waybill,
    _used_again,
    "number_used_again",
    "number {number} of {wp_code} is on {times} waybills",
)
NUMBERS_ISSUED = check_each(
    "numbers_issued",
    "a waybill has a number only if it was issued, a time of its end only if it was cancelled",
    waybill,
    _misnumbered,
    "number_state_differs",
    "waybill {object_id} is {state}, which its number or its times contradict",
)
NUMBERS_TAKEN = check_each(
    "numbers_taken",
    "a pool's number that is on a waybill is taken",
    waybill,
    _still_free,
    "number_not_taken",
    "number {number} of {wp_code} is on waybill {object_id} but not marked as taken",
)
NUMBERS_USED = check_each(
    "numbers_used",
    "a number that is taken is on a waybill",
    waybill_number,
    _lost,
    "number_lost",
    "number {number} of {wp_code} is marked as taken but on no waybill",
)

_is_charge = and_(entry.c.kind == "charge", entry.c.operation == WAYBILLS.name)

_its_unit = literal(WAYBILLS.balance_unit).label("unit")
_REPORTED = ("account_id", "object_id", "request_id", "price", "charged")
_charged_for_it = (
    select(func.coalesce(-func.sum(entry.c.amount), 0))
    .where(alike(entry, waybill, "request_id", "account_id"), _is_charge)
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
    # A waybill without a request cannot be compared by itself; the sums below include it.
    .where(_is_issued, waybill.c.request_id.is_not(None))
    .subquery("each")
)
# A summed union instead of a join, because either side may be missing.
_laid_under = union_all(
    select(
        waybill.c.account_id, func.sum(waybill.c.price).label("priced"), literal(0).label("charged")
    )
    .where(_is_issued)
    .group_by(waybill.c.account_id),
    select(entry.c.account_id, literal(0), -func.sum(entry.c.amount))
    .where(_is_charge)
    .group_by(entry.c.account_id),
    select(archived_balance.c.account_id, literal(0), -archived_balance.c.waybills),
).subquery("laid_under")
_priced, _charged = func.sum(_laid_under.c.priced), func.sum(_laid_under.c.charged)
_unequal = (
    select(_laid_under.c.account_id, _priced.label("priced"), _charged.label("charged"), _its_unit)
    .group_by(_laid_under.c.account_id)
    .having(_priced != _charged)
)
# The charge may be among the dropped ones. A waybill's time is a little after its charge's; but a
# clock may have been ahead then: so if the sums are equal, no charge is missing.
_GRACE_MS = 60_000
_is_carried = exists().where(
    archived_balance.c.account_id == _each.c.account_id,
    archived_balance.c.unit == WAYBILLS.balance_unit,
    or_(
        archived_balance.c.at_ms >= _each.c.issued_at_s * 1000 - _GRACE_MS,
        _each.c.account_id.not_in(select(_unequal.subquery().c.account_id)),
    ),
)
_mispaid = select(*(_each.c[name] for name in _REPORTED), _its_unit).where(
    _each.c.price != _each.c.charged, or_(_each.c.charged != 0, ~_is_carried)
)

WAYBILLS_PAID = check_each(
    "waybills_paid",
    "each waybill has the charge that it costs",
    waybill,
    _mispaid,
    "waybill_paid_differs",
    "waybill {object_id} costs {price}, but {charged} was charged for request {request_id}",
)
WAYBILL_CHARGES = check_each(
    "waybill_charges",
    "what was charged for waybills is what they cost",
    waybill,
    _unequal,
    "waybills_paid_differs",
    "its waybills cost {priced} but {charged} was charged for waybills",
)
