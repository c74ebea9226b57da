"""Waybills among themselves and against the pools of numbers.

A number that is in a pool and on a waybill is taken, and one that is taken is on a waybill: both
are written in one transaction. A waybill's number need not be in a pool.
"""

from collections.abc import Iterator

from sqlalchemy import and_, exists, func, select, text

from tollway.audit.check import Breach, Check
from tollway.store.database import Row
from tollway.store.schema.carriers import IN_FORCE, waybill, waybill_number

_NATURAL_KEY = (waybill.c.account_id, waybill.c.owner_id, waybill.c.order_sn, waybill.c.wp_code)
_same_number = and_(
    waybill.c.wp_code == waybill_number.c.wp_code, waybill.c.number == waybill_number.c.number
)

# The database has an index against either; it may have been dropped.
_rivals = (
    select(*_NATURAL_KEY, func.count())
    # Written out, and not a parameter: only then does the planner know that the index fits.
    .where(text(IN_FORCE))
    .group_by(*_NATURAL_KEY)
    .having(func.count() > 1)
)
_used_again = (
    select(waybill.c.number, waybill.c.wp_code, func.count())
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


def _tell_rivals(row: Row) -> Iterator[Breach]:
    account_id, owner_id, order_sn, wp_code, times = row
    difference = (
        f"order {order_sn} of shop {owner_id} has {times} waybills of {wp_code} in force at once"
    )
    yield Breach("waybill_twice", account_id, None, difference)


def _tell_used_again(row: Row) -> Iterator[Breach]:
    number, wp_code, times = row
    difference = f"number {number} of {wp_code} is on {times} waybills"
    yield Breach("number_used_again", None, None, difference)


def _tell_still_free(row: Row) -> Iterator[Breach]:
    account_id, object_id, wp_code, number = row
    difference = f"number {number} of {wp_code} is on waybill {object_id} but not marked as taken"
    yield Breach("number_not_taken", account_id, None, difference)


def _tell_lost(row: Row) -> Iterator[Breach]:
    wp_code, number = row
    difference = f"number {number} of {wp_code} is marked as taken but on no waybill"
    yield Breach("number_lost", None, None, difference)


WAYBILLS_IN_FORCE = Check(
    "waybills_in_force",
    "an order has at most one waybill of a carrier in force",
    waybill,
    _rivals,
    _tell_rivals,
)
NUMBERS_ONCE = Check(
    "numbers_once", "no number is on two waybills", waybill, _used_again, _tell_used_again
)
NUMBERS_TAKEN = Check(
    "numbers_taken",
    "a pool's number that is on a waybill is taken",
    waybill,
    _still_free,
    _tell_still_free,
)
NUMBERS_USED = Check(
    "numbers_used", "a number that is taken is on a waybill", waybill_number, _lost, _tell_lost
)
