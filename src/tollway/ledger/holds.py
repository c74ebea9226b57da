"""Holds: credits set aside while a carrier decides, then captured or released.

A hold is an entry of its own. Its capture is a release and a charge in one transaction, so that
every success has exactly one charge in the ledger. A hold stays open until it is captured or
released: after its deadline it is reported as overdue, never dropped. A hold of 0 credits has no
entry. A release also frees the Idempotency-Key that was reserved with the hold.
"""

from collections.abc import Sequence

import msgspec
from sqlalchemy import BigInteger, ColumnElement, bindparam, func, literal_column, select

from tollway.ledger import LedgerError
from tollway.ledger.charges import Charge, GrantKey, ShortageError
from tollway.ledger.consent_uses import add_uses, use_of
from tollway.ledger.entries import ADD_ENTRY, Entry, amount_left, taking
from tollway.ledger.idempotency import free_key
from tollway.ledger.request_log import time_of
from tollway.ledger.token_limits import give_back
from tollway.store.database import Reader, Transaction
from tollway.store.query import Query, changed, equals, insert_row
from tollway.store.schema.ledger import IS_HELD, balance, hold


class Hold(msgspec.Struct, frozen=True):
    """Credits that are set aside for one call."""

    account_id: str
    id: str
    unit: str
    amount: int
    operation: str
    request_id: str
    token_id: str
    at_ms: int
    deadline_at_ms: int
    state: str = "held"
    settled_at_ms: int | None = None
    owner_kind: str | None = None
    owner_id: str | None = None
    consent_id: str | None = None
    key: str | None = None


def _moving(entries: int, **moved: ColumnElement[int]) -> Query:
    """Moves what is set aside to another column, and counts the entries that record it."""
    return Query(
        balance.update()
        .where(equals(balance, account_id="of_account", unit="of_unit"))
        .values(
            held=balance.c.held - bindparam("total"), entries=balance.c.entries + entries, **moved
        )
        .returning(balance.c.amount, balance.c.entries)
    )


HOLD_COLUMNS = tuple(hold.c[name] for name in Hold.__struct_fields__)
_INSERT = Query(lambda: insert_row(hold).on_conflict_do_nothing())
_RESERVE = taking(held=balance.c.held + bindparam("total"))
_CAPTURE = _moving(2, posted=balance.c.posted + bindparam("total"))
_RELEASE = _moving(1, amount=balance.c.amount + bindparam("total"))
_unit_of_hold = (
    select(hold.c.unit).where(equals(hold, account_id="of_account", id="of_hold")).scalar_subquery()
)
_LOCK = Query(
    lambda: (
        select(balance.c.unit)
        .where(balance.c.account_id == bindparam("of_account"), balance.c.unit == _unit_of_hold)
        .with_for_update(of=balance)
    )
)
_of_open = (equals(hold, account_id="of_account", id="of_hold"), hold.c.state == "held")
_MOVE_DEADLINE = Query(
    lambda: (
        hold.update()
        .where(*_of_open)
        .values(deadline_at_ms=bindparam("until_ms", type_=BigInteger))
    )
)
_END = Query(
    lambda: (
        changed(hold, state="ended_as", settled_at_ms="ended_at_ms")
        .where(*_of_open)
        .returning(*HOLD_COLUMNS)
    )
)


async def reserve(
    transaction: Transaction, charge: Charge, hold_id: str, deadline_at_ms: int
) -> None:
    """Sets aside what a call owes; raises ShortageError if the balance does not cover it.

    An id that was held before, open or not, is not held again.
    """
    grant = charge.grant
    made = Hold(
        charge.account_id,
        hold_id,
        charge.unit,
        charge.amount,
        charge.operation,
        charge.request_id,
        charge.token_id,
        charge.at_ms,
        deadline_at_ms,
        owner_kind=None if grant is None else grant.owner_kind,
        owner_id=None if grant is None else grant.owner_id,
        consent_id=None if grant is None else grant.consent_id,
        key=None if charge.idempotency_key is None else charge.idempotency_key.key,
    )
    if not await transaction.execute(_INSERT, **msgspec.structs.asdict(made)):
        raise LedgerError(
            "There was a hold {hold_id} before: a new one needs an id of its own.", hold_id=hold_id
        )
    if made.amount:
        await _reserve(transaction, made)


async def lock_balance_of(transaction: Transaction, account_id: str, hold_id: str) -> None:
    """Locks the balance that a hold was taken from. Every transaction that ends a hold does this
    before it changes anything else."""
    await transaction.fetch_one(_LOCK, of_account=account_id, of_hold=hold_id)


async def move_deadline(
    transaction: Transaction, account_id: str, hold_id: str, deadline_at_ms: int
) -> None:
    """For a hold that was taken while a clock was wrong."""
    await transaction.execute(
        _MOVE_DEADLINE, of_account=account_id, of_hold=hold_id, until_ms=deadline_at_ms
    )


async def capture(transaction: Transaction, account_id: str, hold_id: str, at_ms: int) -> Hold:
    """Charges what was set aside, and records the read for the owner of the grant."""
    ended = await _end(transaction, account_id, hold_id, "captured", at_ms)
    amount = ended.amount
    if amount:
        left, number = await _move(transaction, _CAPTURE, ended)
        await _enter(transaction, ended, "release", amount, number - 1, left + amount, at_ms)
        await _enter(transaction, ended, "charge", -amount, number, left, at_ms)
    if ended.owner_kind is not None and ended.owner_id is not None and ended.consent_id is not None:
        grant = GrantKey(ended.owner_kind, ended.owner_id, ended.consent_id)
        # A hold is always for one waybill.
        use = use_of(grant, ended.request_id, at_ms, ended.operation, records=1)
        await add_uses(transaction, [use])
    return ended


async def release(transaction: Transaction, account_id: str, hold_id: str, at_ms: int) -> Hold:
    """Gives back what was set aside."""
    ended = await _end(transaction, account_id, hold_id, "released", at_ms)
    if ended.amount:
        left, number = await _move(transaction, _RELEASE, ended)
        await _enter(transaction, ended, "release", ended.amount, number, left, at_ms)
    # Counted in the day in which the call came in, which may have ended before its hold was taken.
    counted_ms = min(ended.at_ms, time_of(ended.request_id))
    await give_back(transaction, ended.token_id, ended.unit, ended.amount, counted_ms)
    if ended.key is not None:
        await free_key(transaction, account_id, ended.key, ended.request_id)
    return ended


async def _reserve(transaction: Transaction, made: Hold) -> None:
    row = await transaction.fetch_one(
        _RESERVE, of_account=made.account_id, of_unit=made.unit, total=made.amount, count=1
    )
    if row is None:
        raise ShortageError(await amount_left(transaction, made.account_id, made.unit))
    await _enter(transaction, made, "hold", -made.amount, row[1], row[0], made.at_ms)


async def _end(
    transaction: Transaction, account_id: str, hold_id: str, ended_as: str, at_ms: int
) -> Hold:
    row = await transaction.fetch_one(
        _END, of_account=account_id, of_hold=hold_id, ended_as=ended_as, ended_at_ms=at_ms
    )
    if row is None:
        raise LedgerError(
            "Hold {hold_id} is not open: it was captured or released before.", hold_id=hold_id
        )
    return Hold(*row)


async def _move(transaction: Transaction, query: Query, ended: Hold) -> tuple[int, int]:
    row = await transaction.fetch_one(
        query, of_account=ended.account_id, of_unit=ended.unit, total=ended.amount
    )
    assert row is not None
    return row[0], row[1]


async def _enter(
    transaction: Transaction,
    of: Hold,
    kind: str,
    amount: int,
    number: int,
    balance_after: int,
    at_ms: int,
) -> None:
    entry = Entry(
        of.account_id,
        of.unit,
        number,
        kind,
        amount,
        balance_after,
        at_ms,
        of.operation,
        of.request_id,
        of.token_id,
        f"hold {of.id}",
    )
    await transaction.execute(ADD_ENTRY, **msgspec.structs.asdict(entry))


# Written out instead of a parameter, so that the planner knows that the partial index fits.
_is_held: ColumnElement[bool] = literal_column(IS_HELD)
_OPEN = Query(
    lambda: (
        select(*HOLD_COLUMNS)
        .where(_is_held)
        .order_by(hold.c.deadline_at_ms)
        .limit(bindparam("most"))
    )
)
_COUNT = Query(
    lambda: select(
        func.count(),
        func.count().filter(hold.c.deadline_at_ms < bindparam("now_ms")),
    ).where(_is_held)
)


_ONE = Query(
    lambda: select(*HOLD_COLUMNS).where(equals(hold, account_id="of_account", id="of_hold"))
)


async def find_hold(reader: Reader, account_id: str, hold_id: str) -> Hold | None:
    """A hold of this account, open or not."""
    row = await reader.fetch_one(_ONE, of_account=account_id, of_hold=hold_id)
    return None if row is None else Hold(*row)


class OpenHolds(msgspec.Struct, frozen=True):
    """How many holds are open, and how many of them are past their deadline."""

    open: int
    overdue: int


async def open_holds(reader: Reader, most: int) -> Sequence[Hold]:
    """The open holds, those with the earliest deadline first."""
    return [Hold(*row) for row in await reader.fetch_all(_OPEN, most=most)]


async def count_open_holds(reader: Reader, now_ms: int) -> OpenHolds:
    row = await reader.fetch_one(_COUNT, now_ms=now_ms)
    assert row is not None
    return OpenHolds(*map(int, row))
