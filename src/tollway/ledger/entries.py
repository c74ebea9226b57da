"""The ledger: balances, and the entries that explain them.

Entries are append-only. Each carries the balance after it and a number without gaps, so that an
account's whole history can be checked from its rows alone.
"""

from collections.abc import Sequence

import msgspec
from sqlalchemy import ColumnElement, bindparam, select

from tollway.contract.language import Sentence
from tollway.ledger import LedgerError
from tollway.ledger.accounts import Account, find_account
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import newest_acts_on, record_act
from tollway.store.cache_versions import directory_changed
from tollway.store.database import Database, Reader, Row, Transaction
from tollway.store.query import Query, insert, insert_row
from tollway.store.schema.ledger import balance, entry

# Far above any real purchase. With one more of them than it may have, a balance still fits into 64
# bits: beyond, an embedded database would go on with a number that is not exact.
AMOUNT_MAX = 10**15
BALANCE_MAX = 10**18
# As much as a row of a list can show.
NOTE_MAX = 200


class Balance(msgspec.Struct, frozen=True):
    """What an account has of one unit: `credits`, or `calls:<operation>`.

    `amount` is available; `held` is set aside for calls that are still undecided; `posted` is the
    total charged.
    """

    unit: str
    amount: int
    held: int
    posted: int
    entries: int


class Entry(msgspec.Struct, frozen=True):
    """One line of the ledger. `amount` is what became available: a charge is negative."""

    account_id: str
    unit: str
    number: int
    kind: str
    amount: int
    balance_after: int
    at_ms: int
    operation: str | None = None
    request_id: str | None = None
    token_id: str | None = None
    note: str | None = None


ADD_ENTRY = Query(lambda: insert_row(entry))
_insert_balance = insert(balance).values(
    account_id=bindparam("account_id"),
    unit=bindparam("unit"),
    amount=bindparam("amount"),
    held=0,
    posted=0,
    entries=1,
)
_ADD = Query(
    lambda: _insert_balance.on_conflict_do_update(
        index_elements=["account_id", "unit"],
        set_={
            "amount": balance.c.amount + _insert_balance.excluded.amount,
            "entries": balance.c.entries + 1,
        },
    ).returning(balance.c.amount, balance.c.entries)
)


def taking(**also: ColumnElement[int]) -> Query:
    """Takes `total` from what is available, in `count` entries, and changes other columns with it.

    One statement checks and changes the balance, so it cannot be spent twice.
    """
    return Query(
        balance.update()
        .where(
            balance.c.account_id == bindparam("of_account"),
            balance.c.unit == bindparam("of_unit"),
            balance.c.amount >= bindparam("total"),
        )
        .values(
            amount=balance.c.amount - bindparam("total"),
            entries=balance.c.entries + bindparam("count"),
            **also,
        )
        .returning(balance.c.amount, balance.c.entries)
    )


TAKE = taking(posted=balance.c.posted + bindparam("total"))
_TAKE_BACK = taking()
AMOUNT_LEFT = Query(
    lambda: select(balance.c.amount).where(
        balance.c.account_id == bindparam("of_account"), balance.c.unit == bindparam("of_unit")
    )
)
_BALANCES = Query(
    lambda: (
        select(*(balance.c[name] for name in Balance.__struct_fields__))
        .where(balance.c.account_id == bindparam("account_id"))
        .order_by(balance.c.unit)
    )
)
_COLUMNS = tuple(entry.c[name] for name in Entry.__struct_fields__)
_PAGE = Query(
    lambda: (
        select(*_COLUMNS)
        .where(
            entry.c.account_id == bindparam("account_id"),
            entry.c.unit == bindparam("unit"),
            entry.c.number < bindparam("before_number"),
        )
        .order_by(entry.c.number.desc())
        .limit(bindparam("count"))
    )
)
_OF_REQUEST = Query(lambda: select(*_COLUMNS).where(entry.c.request_id == bindparam("wanted")))


# How the trail names a top-up.
_TOP_UP = "credit add"
# More top-ups than one account sees between the two submissions of a form.
_TOP_UPS_SEEN = 20


def checked_note(note: str) -> str:
    """A note without the spaces around it; raises LedgerError if no list could show it."""
    note = note.strip()
    if len(note) > NOTE_MAX:
        raise LedgerError("A note has {most} characters at most.", most=NOTE_MAX)
    return note


async def top_up(
    database: Database,
    runtime: Runtime,
    account_wanted: str,
    unit: str,
    amount: int,
    note: str = "",
    *,
    once: str = "",
    refund_of: str | None = None,
) -> Entry:
    """Adds to a balance; a negative amount corrects it, never below zero. `once` makes it
    idempotent: a form that is submitted twice is entered once. A refund names its request: at most
    what that was charged, and one refund for each."""
    if amount == 0:
        raise LedgerError("An amount is a whole number, and not 0.")
    if abs(amount) > AMOUNT_MAX:
        raise LedgerError("The amount is too large: send {most:,} at most.", most=AMOUNT_MAX)
    note = checked_note(note)

    async def work(transaction: Transaction) -> Entry:
        found = await _open_account(transaction, account_wanted)
        row = await _change_balance(transaction, found, unit, amount)
        # The balance row is locked by now, so that of two concurrent top-ups one sees the other.
        if once and await _is_entered(transaction, found.id, once):
            raise LedgerError("This was entered already: the ledger has it.")
        operation = None
        if refund_of is not None:
            operation = await _refunded_operation(transaction, found, unit, amount, refund_of)
        added = Entry(
            account_id=found.id,
            unit=unit,
            number=row[1],
            kind="top_up" if amount > 0 else "correction",
            amount=amount,
            balance_after=row[0],
            at_ms=runtime.at_ms(),
            operation=operation,
            request_id=refund_of,
            note=note or None,
        )
        await transaction.execute(ADD_ENTRY, **msgspec.structs.asdict(added))
        await directory_changed(transaction, found.id)
        # Once more: it may have been closed while this waited for the balance. To close it now
        # waits for the version.
        await _open_account(transaction, found.id)
        await _record_top_up(transaction, runtime, added, once)
        return added

    return await database.write(work)


async def _open_account(reader: Reader, wanted: str) -> Account:
    found = await find_account(reader, wanted)
    if found.closed_at_s is not None:
        raise LedgerError(
            "Account {account} is closed: its ledger can only be read.", account=found.name
        )
    return found


async def _record_top_up(
    transaction: Transaction, runtime: Runtime, added: Entry, once: str
) -> None:
    await record_act(
        transaction,
        runtime,
        _TOP_UP,
        f"account {added.account_id}",
        before={"unit": added.unit, "amount": added.balance_after - added.amount},
        after={
            "unit": added.unit,
            "amount": added.balance_after,
            "note": added.note,
            **({"once": once} if once else {}),
            **({"refund_of": added.request_id} if added.request_id else {}),
        },
    )


async def _change_balance(
    transaction: Transaction, account: Account, unit: str, amount: int
) -> Row:
    """The balance and the number of its new entry."""
    if amount > 0:
        row = await transaction.fetch_one(_ADD, account_id=account.id, unit=unit, amount=amount)
    else:
        row = await transaction.fetch_one(
            _TAKE_BACK, of_account=account.id, of_unit=unit, total=-amount, count=1
        )
    if row is None:
        raise LedgerError(
            "Account {account} has fewer {unit} than {amount:,}.",
            account=account.name,
            amount=-amount,
            unit=Sentence(unit),
        )
    if amount > 0 and row[0] > BALANCE_MAX:
        raise LedgerError(
            "Account {account} can have {most:,} {unit} at most.",
            account=account.name,
            most=BALANCE_MAX,
            unit=Sentence(unit),
        )
    return row


async def _refunded_operation(
    reader: Reader, account: Account, unit: str, amount: int, request_id: str
) -> str | None:
    """The operation of the refunded call; LedgerError if it cannot be refunded. A top-up with an
    operation is a refund, in the sums by day too."""
    entries = await entries_of_request(reader, request_id)
    of_account = [each for each in entries if each.account_id == account.id]
    own = {each.kind: each for each in of_account if each.unit == unit}
    charge = own.get("charge")
    if charge is None:
        raise _not_paid_in(unit, account, of_account, request_id)
    if "top_up" in own:
        raise LedgerError("Request {request_id} was refunded already.", request_id=request_id)
    if not 0 < amount <= -charge.amount:
        raise LedgerError(
            "Request {request_id} cost {cost}: a refund is 1 to {cost}.",
            request_id=request_id,
            cost=-charge.amount,
        )
    return charge.operation


def _not_paid_in(
    unit: str, account: Account, entries: Sequence[Entry], request_id: str
) -> LedgerError:
    """Says what a call was paid in, if it was paid at all."""
    paid = next((each for each in entries if each.kind == "charge"), None)
    if paid is None:
        return LedgerError(
            "Account {account} was charged no {unit} for request {request_id}: "
            "`tollway receipt {request_id}` shows what it cost.",
            account=account.name,
            unit=Sentence(unit),
            request_id=request_id,
        )
    if paid.unit == "credits":
        return LedgerError(
            "Request {request_id} was paid in credits: leave out --calls to refund it.",
            request_id=request_id,
        )
    return LedgerError(
        "Request {request_id} was paid in calls: add --calls {operation} to refund it.",
        request_id=request_id,
        operation=paid.operation,
    )


async def _is_entered(reader: Reader, account_id: str, once: str) -> bool:
    """Whether a top-up of this name is among the last ones of the account."""
    acts = await newest_acts_on(reader, f"account {account_id}", _TOP_UP, _TOP_UPS_SEEN)
    named = f'"once":"{once}"'
    return any(each.after is not None and named in each.after for each in acts)


async def add_entries(transaction: Transaction, entries: Sequence[tuple[object, ...]]) -> None:
    """Adds entries, given in the order of the table's columns."""
    if transaction.is_shared:
        await transaction.execute_many(ADD_ENTRY, entries)
    else:
        # Few statements: for each one, the writing thread must wait for the serving thread.
        await transaction.insert_rows(entry, entries)


async def amount_left(reader: Reader, account_id: str, unit: str) -> int:
    row = await reader.fetch_one(AMOUNT_LEFT, of_account=account_id, of_unit=unit)
    return 0 if row is None else int(row[0])


async def list_balances(reader: Reader, account_id: str) -> list[Balance]:
    return [Balance(*row) for row in await reader.fetch_all(_BALANCES, account_id=account_id)]


async def amounts_by_unit(reader: Reader, account_id: str) -> dict[str, int]:
    """What is available of each unit that the account has."""
    return {each.unit: each.amount for each in await list_balances(reader, account_id)}


async def newest_entries(
    reader: Reader, account_id: str, unit: str, count: int, before_number: int = 2**62
) -> Sequence[Entry]:
    """Entries before a number, newest first."""
    rows = await reader.fetch_all(
        _PAGE, account_id=account_id, unit=unit, before_number=before_number, count=count
    )
    return [Entry(*row) for row in rows]


async def entries_of_request(reader: Reader, request_id: str) -> Sequence[Entry]:
    return [Entry(*row) for row in await reader.fetch_all(_OF_REQUEST, wanted=request_id)]
