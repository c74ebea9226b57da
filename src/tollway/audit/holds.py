"""Holds against balances, against their waybills, their keys and the clock."""

from collections.abc import Iterator

from sqlalchemy import (
    BigInteger,
    and_,
    bindparam,
    case,
    func,
    literal,
    literal_column,
    or_,
    select,
    union_all,
)

from tollway.audit.check import Breach, Check, check_each
from tollway.store.database import Row
from tollway.store.query import alike
from tollway.store.schema.carriers import waybill
from tollway.store.schema.ledger import IS_HELD, balance, hold, idempotency_key, is_reserved

# A gateway checks pending waybills at intervals, and the carrier needs time to answer.
_GRACE_MS = 60_000
HOLD_OVERDUE = "hold_overdue"

_set_aside = (
    select(func.coalesce(func.sum(hold.c.amount), 0))
    .where(alike(hold, balance, "account_id", "unit"), literal_column(IS_HELD))
    .scalar_subquery()
)
_balances = select(
    balance.c.account_id, balance.c.unit, balance.c.held, _set_aside.label("set_aside")
).subquery("balances")


HOLDS = check_each(
    "holds",
    "what is held of a balance is what its open holds set aside",
    hold,
    select(_balances).where(_balances.c.held != _balances.c.set_aside),
    "holds_differ",
    "{held} is held of the balance, but its open holds set aside {set_aside}",
)

_late_ms = bindparam("now_ms", type_=BigInteger) - hold.c.deadline_at_ms
HOLDS_IN_TIME = check_each(
    "holds_in_time",
    "no hold is open past its deadline",
    hold,
    select(hold.c.account_id, hold.c.unit, hold.c.id, (_late_ms // 1000).label("late_s"))
    .where(literal_column(IS_HELD), _late_ms > _GRACE_MS)
    .order_by(hold.c.deadline_at_ms),
    HOLD_OVERDUE,
    "hold {id} should have been settled {late_s:,} s ago",
)

# The state of a hold by the state of its waybill.
_EXPECTED = {
    "pending": "held",
    "issued": "captured",
    "cancelled": "captured",
    "refused": "released",
}
_beside = (
    select(
        waybill.c.account_id,
        waybill.c.object_id,
        waybill.c.state,
        func.coalesce(hold.c.state, "not there").label("hold_state"),
        case(_EXPECTED, value=waybill.c.state).label("expected"),
        waybill.c.price,
        hold.c.amount,
        waybill.c.request_id,
        hold.c.request_id.label("held_for"),
    )
    .select_from(
        waybill.outerjoin(
            hold, and_(hold.c.account_id == waybill.c.account_id, hold.c.id == waybill.c.hold_id)
        )
    )
    .where(waybill.c.hold_id.is_not(None))
    .subquery("beside")
)


def _describe_beside(row: Row) -> Iterator[Breach]:
    account_id, object_id, state, hold_state, expected, price, amount, request_id, held_for = row
    which = f"waybill {object_id}"
    if hold_state != expected:
        difference = f"{which} is {state}, so its hold is {expected}, but it is {hold_state}"
        yield Breach("hold_state_differs", account_id, None, difference)
    elif price != amount:
        difference = f"{which} costs {price}, but its hold is of {amount}"
        yield Breach("hold_amount_differs", account_id, None, difference)
    else:
        difference = f"{which} is of request {request_id}, but its hold is of {held_for}"
        yield Breach("hold_request_differs", account_id, None, difference)


WAYBILL_HOLDS = Check(
    "waybill_holds",
    "a waybill's hold has its price, and is open, captured or released as the waybill says",
    waybill,
    select(_beside).where(
        or_(
            _beside.c.hold_state != _beside.c.expected,
            _beside.c.amount != _beside.c.price,
            _beside.c.held_for.is_distinct_from(_beside.c.request_id),
        )
    ),
    _describe_beside,
)

# A summed union instead of a join, because either side may be missing.
_counted = union_all(
    select(waybill.c.account_id, func.count().label("waybills"), literal(0).label("holds"))
    .where(waybill.c.hold_id.is_not(None))
    .group_by(waybill.c.account_id),
    select(hold.c.account_id, literal(0), func.count()).group_by(hold.c.account_id),
).subquery("counted")
_waybills, _holds = func.sum(_counted.c.waybills), func.sum(_counted.c.holds)


HOLD_WAYBILLS = check_each(
    "hold_waybills",
    "every hold has its waybill",
    hold,
    select(_counted.c.account_id, _waybills.label("waybills"), _holds.label("holds"))
    .group_by(_counted.c.account_id)
    .having(_waybills != _holds),
    "hold_without_waybill",
    "there are {holds} holds for {waybills} waybills with a hold",
)

# A captured hold has its key until the caller fetches the answer, or the key expires after a day.
_holder = (
    select(hold.c.id)
    .where(
        alike(hold, idempotency_key, "request_id", "account_id", "key"), hold.c.state != "released"
    )
    .exists()
)


RESERVED_KEYS = check_each(
    "reserved_keys",
    "a key without an answer is that of a hold which was not released",
    idempotency_key,
    select(idempotency_key.c.account_id, idempotency_key.c.request_id).where(is_reserved, ~_holder),
    "key_without_hold",
    "request {request_id} has reserved its key, but nothing is held for it any more",
)
