"""Posting charges: debits, entries and acts, in one transaction.

The condition and the change of a balance are one statement, so nothing is spent twice; an act and
its charge are there together or not at all. What a call did under an owner's grant is written down
for the owner in the same transaction.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from sqlalchemy import bindparam

from tollway.ledger.entries import ADD_ENTRY, TAKE, amount_left
from tollway.store.consent_tables import consent_use
from tollway.store.database import StoreError, Transaction
from tollway.store.query import Query

_ADD_USE = Query(consent_use.insert().values({c.name: bindparam(c.name) for c in consent_use.c}))


class Acted(msgspec.Struct, frozen=True):
    """What an act came to: the payload of the answer, and whether it is to be paid."""

    data: bytes
    is_paid: bool


# Something an operation does in the very transaction that charges for it, so that neither is ever
# there without the other.
Act = Callable[[Transaction], Awaitable[Acted]]


class GrantKey(msgspec.Struct, frozen=True, gc=False):
    """The grant that a call was made under."""

    owner_kind: str
    owner_id: str
    consent_id: str


class Charge(msgspec.Struct, frozen=True, gc=False):
    """What one call owes, which may be nothing when it was made under a grant."""

    account_id: str
    unit: str
    amount: int
    operation: str
    request_id: str
    token_id: str
    at_ms: int
    act: Act | None = None
    grant: GrantKey | None = None


class ShortageError(Exception):
    """A charge was refused, because the balance does not cover it."""

    def __init__(self, left: int) -> None:
        super().__init__(left)
        self.left = left


# By position in a batch, what is more to tell of a charge than that it was posted: what its act
# came to, or why it was not posted.
Remarks = dict[int, Acted | Exception]


async def post_charges(transaction: Transaction, charges: Sequence[Charge]) -> Remarks:
    """Posts charges in one transaction; each is posted whole, with its act, or not at all."""
    remarks: Remarks = {}
    entries: list[tuple[object, ...]] = []
    await _post_plain(transaction, charges, remarks, entries)
    for position, charge in enumerate(charges):
        if charge.act is not None:
            remarks[position] = await _post_with_act(transaction, charge, charge.act, entries)
    await transaction.execute_many(ADD_ENTRY, entries)
    uses = [
        _use(charge, charge.grant)
        for position, charge in enumerate(charges)
        if charge.grant is not None and not isinstance(remarks.get(position), Exception)
    ]
    if uses:
        await transaction.execute_many(_ADD_USE, uses)
    return remarks


def _use(charge: Charge, grant: GrantKey) -> tuple[object, ...]:
    """What the owner is told of a call, in the order of the table's columns."""
    return (
        grant.owner_kind,
        grant.owner_id,
        grant.consent_id,
        charge.request_id,
        charge.at_ms,
        charge.operation,
    )


async def _post_plain(
    transaction: Transaction,
    charges: Sequence[Charge],
    remarks: Remarks,
    entries: list[tuple[object, ...]],
) -> None:
    by_balance: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for position, charge in enumerate(charges):
        if charge.act is None and charge.amount:
            by_balance[charge.account_id, charge.unit].append(position)
    # In one order for all nodes, so that nobody waits for one who waits for them.
    for (account_id, unit), positions in sorted(by_balance.items()):
        # Almost always the balance covers the whole group, and one debit does. When it does not,
        # each call is tried alone, in the order of arrival.
        group = [charges[position] for position in positions]
        if await _take(transaction, group, entries):
            continue
        for position in positions:
            if not await _take(transaction, [charges[position]], entries):
                remarks[position] = ShortageError(await amount_left(transaction, account_id, unit))


async def _post_with_act(
    transaction: Transaction, charge: Charge, act: Act, entries: list[tuple[object, ...]]
) -> Acted | Exception:
    """Acts and charges, or does neither; one act's failure leaves the rest of the batch alone."""
    try:
        async with transaction.savepoint():
            acted = await act(transaction)
            if acted.is_paid and charge.amount and not await _take(transaction, [charge], entries):
                left = await amount_left(transaction, charge.account_id, charge.unit)
                raise ShortageError(left)
    except StoreError:
        raise
    except Exception as error:
        return error
    return acted


async def _take(
    transaction: Transaction, charges: Sequence[Charge], entries: list[tuple[object, ...]]
) -> bool:
    """Debits charges of one balance together, or none of them; adds their entries."""
    first = charges[0]
    total = sum([charge.amount for charge in charges])
    row = await transaction.fetch_one(
        TAKE,
        of_account=first.account_id,
        of_unit=first.unit,
        total=total,
        count=len(charges),
    )
    if row is None:
        return False
    left, number = row[0] + total, row[1] - len(charges)
    for charge in charges:
        left -= charge.amount
        number += 1
        # In the order of the table's columns.
        entries.append(
            (
                charge.account_id,
                charge.unit,
                number,
                "charge",
                -charge.amount,
                left,
                charge.at_ms,
                charge.operation,
                charge.request_id,
                charge.token_id,
                None,
            )
        )
    return True
