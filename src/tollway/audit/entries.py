"""Entries among themselves: no gap, every step adds up, nothing charged twice or for a test."""

from collections.abc import Iterator

from sqlalchemy import and_, case, func, or_, select

from tollway.audit.check import Breach, Check
from tollway.audit.ledger import SIGNS
from tollway.store.database import Row
from tollway.store.schema.ledger import archived_balance, entry, token

# Each entry with the one before it in the order of its key, which must also be the one numbered
# before it. Before the first there is nothing, or the archived balance of dropped entries.
_of_balance = (entry.c.account_id, entry.c.unit)
_chain = select(
    entry.c.account_id,
    entry.c.unit,
    entry.c.number,
    entry.c.kind,
    entry.c.amount,
    entry.c.balance_after,
    entry.c.token_id,
    func.lag(entry.c.number, 1, 0)
    .over(partition_by=_of_balance, order_by=entry.c.number)
    .label("number_before"),
    func.lag(entry.c.balance_after, 1, 0)
    .over(partition_by=_of_balance, order_by=entry.c.number)
    .label("balance_before"),
).subquery("chain")
_carried = (
    select(archived_balance.c.balance_after)
    .where(
        archived_balance.c.account_id == _chain.c.account_id,
        archived_balance.c.unit == _chain.c.unit,
        archived_balance.c.number == _chain.c.number - 1,
    )
    .scalar_subquery()
)
_balance_before = case(
    (_chain.c.number_before == _chain.c.number - 1, _chain.c.balance_before),
    (_chain.c.number_before == 0, _carried),
)
_is_sandbox = _chain.c.token_id.in_(select(token.c.id).where(token.c.kind == "test"))
_wrong_entries = select(
    _chain.c.account_id,
    _chain.c.unit,
    _chain.c.number,
    _chain.c.kind,
    _chain.c.amount,
    _balance_before,
    _chain.c.balance_after,
    _is_sandbox,
).where(
    or_(
        _balance_before.is_(None),
        _chain.c.balance_after != _balance_before + _chain.c.amount,
        _chain.c.balance_after < 0,
        *(and_(_chain.c.kind == kind, _chain.c.amount * sign < 0) for kind, sign in SIGNS.items()),
        _is_sandbox,
    )
)

# First the ids that occur twice at all, from their index alone; only those rows are looked at.
_repeated = (
    select(entry.c.request_id, entry.c.account_id)
    .where(entry.c.request_id.is_not(None))
    .group_by(entry.c.request_id, entry.c.account_id)
    .having(func.count() > 1)
    .subquery("repeated")
)
_charged_twice = (
    select(entry.c.account_id, entry.c.request_id, func.count())
    .join_from(
        _repeated,
        entry,
        and_(
            entry.c.request_id == _repeated.c.request_id,
            entry.c.account_id == _repeated.c.account_id,
        ),
    )
    .where(entry.c.kind == "charge")
    .group_by(entry.c.account_id, entry.c.request_id)
    .having(func.count() > 1)
)


def _tell_entry(row: Row) -> Iterator[Breach]:
    account_id, unit, number, kind, amount, before, after, is_sandbox = row
    if before is None:
        yield Breach("entry_missing", account_id, unit, f"there is no entry before entry {number}")
    elif after != before + amount:
        difference = f"entry {number}: {before} and {amount:+} do not make {after}"
        yield Breach("step_differs", account_id, unit, difference)
    if after < 0:
        difference = f"entry {number}: the balance after it is {after}"
        yield Breach("balance_negative", account_id, unit, difference)
    if amount * SIGNS[kind] < 0:
        yield Breach("sign_wrong", account_id, unit, f"entry {number}: a {kind} of {amount:+}")
    if is_sandbox:
        difference = f"entry {number}: a test token was charged"
        yield Breach("sandbox_charged", account_id, unit, difference)


def _tell_twice(row: Row) -> Iterator[Breach]:
    account_id, request_id, times = row
    difference = f"request {request_id} was charged {times} times"
    yield Breach("charged_twice", account_id, None, difference)


ENTRIES = Check(
    "entries",
    "no entry is missing, every step adds up, no test token was charged",
    entry,
    _wrong_entries,
    _tell_entry,
)
CHARGED_ONCE = Check(
    "charged_once", "no request was charged twice", entry, _charged_twice, _tell_twice
)
