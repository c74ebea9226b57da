"""Balances against entries: does every balance follow from its entries? And the entries
themselves: no gap, every step adds up, nothing charged twice or for a test call, nothing refunded
that was not charged.

A new kind of entry is one line in SIGNS; a new column of a balance is one line in FOLLOWS.
"""

from collections.abc import Iterator

import msgspec
from sqlalchemy import ColumnElement, and_, case, exists, func, literal, or_, select, union_all

from tollway.audit.check import Breach, Check, check_each
from tollway.store.database import Database, Row
from tollway.store.query import Query, alike
from tollway.store.schema.ledger import archived_balance, balance, entry, token

# Every kind of entry, and the sign of its amounts.
SIGNS = {"top_up": 1, "correction": -1, "charge": -1, "hold": -1, "release": 1}
# Each column of a balance is the sum of the amounts of these kinds, times the factor.
FOLLOWS: dict[str, tuple[int, tuple[str, ...]]] = {
    "amount": (1, tuple(SIGNS)),
    "held": (-1, ("hold", "release")),
    "posted": (-1, ("charge",)),
}


class UnitFigures(msgspec.Struct, frozen=True):
    """The total of all accounts in one unit, and the sums behind it."""

    unit: str
    topped_up: int
    corrected: int
    charged: int
    held: int
    available: int
    entries: int


def _sum_of(kind: str) -> ColumnElement[int]:
    return func.sum(case((entry.c.kind == kind, entry.c.amount), else_=0))


# Each balance with the sums of its entries, dropped and present: a summed union instead of a join,
# because any side may be missing.
_OF_BALANCE = {
    "balances": literal(1),
    "counted": balance.c.entries,
    **{f"stored_{name}": balance.c[name] for name in FOLLOWS},
}
_OF_ENTRIES = {
    "entries": func.count(),
    "last_number": func.max(entry.c.number),
    **{f"sum_{kind}": _sum_of(kind) for kind in SIGNS},
}
_OF_CARRIED = {
    "entries": archived_balance.c.number,
    "last_number": archived_balance.c.number,
    **{f"sum_{kind}": archived_balance.c[kind] for kind in SIGNS},
}
_laid_under = union_all(
    select(
        balance.c.account_id,
        balance.c.unit,
        *(value.label(name) for name, value in _OF_BALANCE.items()),
        *(literal(0).label(name) for name in _OF_ENTRIES),
    ),
    select(
        entry.c.account_id,
        entry.c.unit,
        *(literal(0).label(name) for name in _OF_BALANCE),
        *(value.label(name) for name, value in _OF_ENTRIES.items()),
    ).group_by(entry.c.account_id, entry.c.unit),
    select(
        archived_balance.c.account_id,
        archived_balance.c.unit,
        *(literal(0).label(name) for name in _OF_BALANCE),
        *(value.label(name) for name, value in _OF_CARRIED.items()),
    ),
).subquery("laid_under")
_ledger = (
    select(
        _laid_under.c.account_id,
        _laid_under.c.unit,
        *(
            (func.max if name == "last_number" else func.sum)(_laid_under.c[name]).label(name)
            for name in (*_OF_BALANCE, *_OF_ENTRIES)
        ),
    )
    .group_by(_laid_under.c.account_id, _laid_under.c.unit)
    .subquery("sums")
)


def _due(column: str) -> ColumnElement[int]:
    """What a column of a balance must be."""
    factor, (first, *others) = FOLLOWS[column]
    total: ColumnElement[int] = _ledger.c[f"sum_{first}"]
    for kind in others:
        total = total + _ledger.c[f"sum_{kind}"]
    return total * factor


_FIGURES = Query(
    lambda: (
        select(
            _ledger.c.unit,
            func.sum(_ledger.c.sum_top_up),
            func.sum(_ledger.c.sum_correction),
            -func.sum(_ledger.c.sum_charge),
            func.sum(_ledger.c.stored_held),
            func.sum(_ledger.c.stored_amount),
            func.sum(_ledger.c.entries),
        )
        .group_by(_ledger.c.unit)
        .order_by(_ledger.c.unit)
    )
)
_columns = {name: (_ledger.c[f"stored_{name}"], _due(name)) for name in FOLLOWS}
_unbalanced = select(
    _ledger.c.account_id,
    _ledger.c.unit,
    _ledger.c.balances,
    _ledger.c.counted,
    _ledger.c.entries,
    _ledger.c.last_number,
    *(value for pair in _columns.values() for value in pair),
).where(
    or_(
        _ledger.c.balances == 0,
        _ledger.c.counted != _ledger.c.entries,
        _ledger.c.counted != _ledger.c.last_number,
        *(or_(stored < 0, stored != due) for stored, due in _columns.values()),
    )
)


async def unit_figures(database: Database) -> list[UnitFigures]:
    # A sum is a Decimal in PostgreSQL and an int in SQLite.
    return [
        UnitFigures(unit, *map(int, figures))
        for unit, *figures in await database.fetch_long(_FIGURES)
    ]


def _describe(row: Row) -> Iterator[Breach]:
    account_id, unit, balances, counted, entries, last_number, *amounts = row
    if not balances:
        yield Breach("balance_missing", account_id, unit, f"{entries} entries but no balance")
        return
    for column, stored, due in zip(FOLLOWS, amounts[::2], amounts[1::2], strict=True):
        subject = "the balance" if column == "amount" else f"what the balance has {column}"
        if stored < 0:
            yield Breach("balance_negative", account_id, unit, f"{subject} is {stored}")
        if stored != due:
            difference = f"{subject} is {stored} but its entries sum up to {due}"
            yield Breach(f"{column}_differs", account_id, unit, difference)
    if not counted == entries == last_number:
        difference = (
            f"the balance counts {counted} entries, there are {entries}, "
            f"and the last has number {last_number}"
        )
        yield Breach("count_differs", account_id, unit, difference)


BALANCES = Check(
    "balances",
    "every balance follows from its entries and is not negative",
    balance,
    _unbalanced,
    _describe,
)

# Each entry with its predecessor in key order, which must also have the preceding number. The first
# entry has none, or follows the archived balance of dropped entries.
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
        alike(archived_balance, _chain, "account_id", "unit"),
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

# First finds repeated ids from their index alone, so that it reads only those rows.
_repeated = (
    select(entry.c.request_id, entry.c.account_id)
    .where(entry.c.request_id.is_not(None))
    .group_by(entry.c.request_id, entry.c.account_id)
    .having(func.count() > 1)
    .subquery("repeated")
)
_charged_twice = (
    select(entry.c.account_id, entry.c.request_id, func.count().label("times"))
    .join_from(_repeated, entry, alike(entry, _repeated, "request_id", "account_id"))
    .where(entry.c.kind == "charge")
    .group_by(entry.c.account_id, entry.c.request_id)
    .having(func.count() > 1)
)

_refund, _other = entry.alias("refund"), entry.alias("other")
_of_same_request = (
    _other.c.request_id == _refund.c.request_id,
    _other.c.account_id == _refund.c.account_id,
    _other.c.unit == _refund.c.unit,
)
_charged = (
    select(func.coalesce(-func.sum(_other.c.amount), 0))
    .where(*_of_same_request, _other.c.kind == "charge")
    .scalar_subquery()
)
_refunds = (
    select(
        _refund.c.account_id,
        _refund.c.unit,
        _refund.c.number,
        _refund.c.request_id,
        _refund.c.amount,
        _charged.label("charged"),
        exists()
        .where(*_of_same_request, _other.c.kind == "top_up", _other.c.number < _refund.c.number)
        .label("is_second"),
    )
    .where(_refund.c.kind == "top_up", _refund.c.request_id.is_not(None))
    .subquery("refunds")
)
# The charge may be among the dropped entries.
_is_carried = exists().where(alike(archived_balance, _refunds, "account_id", "unit"))
_wrong_refunds = select(_refunds).where(
    or_(
        _refunds.c.is_second,
        and_(_refunds.c.amount > _refunds.c.charged, or_(_refunds.c.charged != 0, ~_is_carried)),
    )
)


def _describe_entry(row: Row) -> Iterator[Breach]:
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


ENTRIES = Check(
    "entries",
    "no entry is missing, every step adds up, no test token was charged",
    entry,
    _wrong_entries,
    _describe_entry,
)
CHARGED_ONCE = check_each(
    "charged_once",
    "no request was charged twice",
    entry,
    _charged_twice,
    "charged_twice",
    "request {request_id} was charged {times} times",
)


def _describe_refund(row: Row) -> Iterator[Breach]:
    account_id, unit, number, request_id, amount, charged, is_second = row
    if is_second:
        difference = f"entry {number}: request {request_id} was refunded before"
        yield Breach("refunded_twice", account_id, unit, difference)
    else:
        difference = f"entry {number}: {amount} was refunded of request {request_id}"
        difference = f"{difference}, which was charged {charged}"
        yield Breach("refund_differs", account_id, unit, difference)


REFUNDS = Check(
    "refunds",
    "a request was refunded once at most, and at most what it was charged",
    entry,
    _wrong_refunds,
    _describe_refund,
)
