"""Checks the books from their rows alone: does every balance follow from its entries?

Every check is one statement, and so sees one moment of the database: it can run while calls are
charged. Entries are read in the order of their key and neither sorted nor held in memory, so that
the length of the books costs time only.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from sqlalchemy import Label, Table, and_, case, func, literal, not_, or_, select, union_all
from sqlalchemy.sql import Select

from tollway.store.database import Reader, Row
from tollway.store.query import Query
from tollway.store.schema import account, balance, entry, permission, token

# A ruined database would have millions: the first of each check tell what happened.
BREACHES_TOLD_MAX = 100
# The kinds of entries that add to what is available; the others take from it.
_ADDING = ("top_up", "release")


class UnitFigures(msgspec.Struct, frozen=True):
    """What all accounts together have of one unit, and how they came to it."""

    unit: str
    topped_up: int
    corrected: int
    charged: int
    available: int
    entries: int


class Breach(msgspec.Struct, frozen=True):
    """One thing in the books that cannot be right."""

    name: str
    account_id: str
    unit: str | None
    difference: str


class AuditReport(msgspec.Struct, frozen=True):
    """What an audit found."""

    accounts: int
    tokens: int
    entries: int
    units: list[UnitFigures]
    breaches: list[Breach]


def _amount_of_kind(kind: str) -> Label[Any]:
    return func.sum(case((entry.c.kind == kind, entry.c.amount), else_=0)).label(kind)


def _zero(name: str) -> Label[int]:
    return literal(0).label(name)


# Each balance beside what its entries come to. The two are laid under each other and added up,
# rather than joined, because either side may be missing.
_FROM_ENTRIES = ("amount", "entries", "last_number", "top_up", "correction", "charge")
_laid_under = union_all(
    select(
        balance.c.account_id,
        balance.c.unit,
        literal(1).label("balances"),
        balance.c.amount.label("available"),
        balance.c.entries.label("counted"),
        *map(_zero, _FROM_ENTRIES),
    ),
    select(
        entry.c.account_id,
        entry.c.unit,
        *map(_zero, ("balances", "available", "counted")),
        func.sum(entry.c.amount),
        func.count(),
        func.max(entry.c.number),
        _amount_of_kind("top_up"),
        _amount_of_kind("correction"),
        _amount_of_kind("charge"),
    ).group_by(entry.c.account_id, entry.c.unit),
).subquery("laid_under")
_books = (
    select(
        _laid_under.c.account_id,
        _laid_under.c.unit,
        *[
            func.sum(_laid_under.c[name]).label(name)
            for name in ("balances", "available", "counted", *_FROM_ENTRIES)
        ],
    )
    .group_by(_laid_under.c.account_id, _laid_under.c.unit)
    .subquery("books")
)

_COUNTS = Query(
    select(
        select(func.count()).select_from(account).scalar_subquery(),
        select(func.count()).select_from(token).scalar_subquery(),
    )
)
_FIGURES = Query(
    select(
        _books.c.unit,
        func.sum(_books.c.top_up),
        func.sum(_books.c.correction),
        -func.sum(_books.c.charge),
        func.sum(_books.c.available),
        func.sum(_books.c.entries),
    )
    .group_by(_books.c.unit)
    .order_by(_books.c.unit)
)
_UNBALANCED = Query(
    select(
        _books.c.account_id,
        _books.c.unit,
        _books.c.balances,
        _books.c.available,
        _books.c.counted,
        _books.c.amount,
        _books.c.entries,
        _books.c.last_number,
    )
    .where(
        or_(
            _books.c.balances == 0,
            _books.c.available < 0,
            _books.c.available != _books.c.amount,
            _books.c.counted != _books.c.entries,
            _books.c.counted != _books.c.last_number,
        )
    )
    .limit(BREACHES_TOLD_MAX)
)

# Each entry beside the one numbered before it, found by its key: a window over all entries takes
# longer. Before the first one there was nothing.
_before = entry.alias("before")
_balance_before = case((entry.c.number == 1, 0), else_=_before.c.balance_after)
_is_sandbox = entry.c.token_id.in_(select(token.c.id).where(token.c.kind == "test"))
_adds = or_(*(entry.c.kind == kind for kind in _ADDING))
_WRONG_ENTRIES = Query(
    select(
        entry.c.account_id,
        entry.c.unit,
        entry.c.number,
        entry.c.kind,
        entry.c.amount,
        _balance_before,
        entry.c.balance_after,
        _is_sandbox,
    )
    .select_from(
        entry.outerjoin(
            _before,
            and_(
                _before.c.account_id == entry.c.account_id,
                _before.c.unit == entry.c.unit,
                _before.c.number == entry.c.number - 1,
            ),
        )
    )
    .where(
        or_(
            _balance_before.is_(None),
            entry.c.balance_after != _balance_before + entry.c.amount,
            entry.c.balance_after < 0,
            and_(_adds, entry.c.amount <= 0),
            and_(not_(_adds), entry.c.amount >= 0),
            _is_sandbox,
        )
    )
    .limit(BREACHES_TOLD_MAX)
)

# First the ids that occur twice at all, from their index alone; only those rows are looked at.
_repeated = (
    select(entry.c.request_id, entry.c.account_id)
    .where(entry.c.request_id.is_not(None))
    .group_by(entry.c.request_id, entry.c.account_id)
    .having(func.count() > 1)
    .subquery("repeated")
)
_CHARGED_TWICE = Query(
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
    .limit(BREACHES_TOLD_MAX)
)


def _without_account(table: Table) -> Select[Any]:
    return (
        select(table.c.account_id, literal(table.name), func.count())
        .where(table.c.account_id.not_in(select(account.c.id)))
        .group_by(table.c.account_id)
    )


_WITHOUT_ACCOUNT = Query(
    union_all(*map(_without_account, (token, permission, balance))).limit(BREACHES_TOLD_MAX)
)


async def audit(reader: Reader) -> AuditReport:
    """Checks all of the books; tells at most BREACHES_TOLD_MAX rows of each check."""
    counts = await reader.fetch_one(_COUNTS)
    assert counts is not None
    # A sum is a decimal in one engine and a whole number in the other.
    units = [
        UnitFigures(unit, *map(int, figures)) for unit, *figures in await reader.fetch_all(_FIGURES)
    ]
    breaches: list[Breach] = []
    for query, told in (
        (_UNBALANCED, _unbalanced),
        (_WRONG_ENTRIES, _wrong_entry),
        (_CHARGED_TWICE, _charged_twice),
        (_WITHOUT_ACCOUNT, _without_its_account),
    ):
        breaches += [breach for row in await reader.fetch_all(query) for breach in told(row)]
    accounts, tokens = counts
    return AuditReport(accounts, tokens, sum(unit.entries for unit in units), units, breaches)


def _unbalanced(row: Row) -> Iterator[Breach]:
    account_id, unit, balances, available, counted, amount, entries, last_number = row
    if not balances:
        yield Breach("balance_missing", account_id, unit, f"{entries} entries but no balance")
        return
    if available < 0:
        yield Breach("balance_negative", account_id, unit, f"the balance is {available}")
    if available != amount:
        difference = f"the balance is {available} but its entries sum up to {amount}"
        yield Breach("amount_differs", account_id, unit, difference)
    if not counted == entries == last_number:
        difference = (
            f"the balance counts {counted} entries, {entries} are there, "
            f"and the last has number {last_number}"
        )
        yield Breach("count_differs", account_id, unit, difference)


def _wrong_entry(row: Row) -> Iterator[Breach]:
    account_id, unit, number, kind, amount, before, after, is_sandbox = row
    if before is None:
        yield Breach("entry_missing", account_id, unit, f"there is no entry before entry {number}")
    elif after != before + amount:
        difference = f"entry {number}: {before} and {amount:+} do not make {after}"
        yield Breach("step_differs", account_id, unit, difference)
    if after < 0:
        difference = f"entry {number}: the balance after it is {after}"
        yield Breach("balance_negative", account_id, unit, difference)
    if amount <= 0 if kind in _ADDING else amount >= 0:
        yield Breach("sign_wrong", account_id, unit, f"entry {number}: a {kind} of {amount:+}")
    if is_sandbox:
        difference = f"entry {number}: a test token was charged"
        yield Breach("sandbox_charged", account_id, unit, difference)


def _charged_twice(row: Row) -> Iterator[Breach]:
    account_id, request_id, times = row
    difference = f"request {request_id} was charged {times} times"
    yield Breach("charged_twice", account_id, None, difference)


def _without_its_account(row: Row) -> Iterator[Breach]:
    account_id, table, rows = row
    difference = f"rows of no account in table {table}: {rows}"
    yield Breach("account_missing", account_id, None, difference)
