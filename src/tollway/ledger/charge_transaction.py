"""Posting charges: debits, entries and acts, in one transaction.

One statement checks and changes a balance, so nothing is spent twice; an act and its charge are
committed together or not at all. The same transaction records, for the owner, what a call did under
the owner's grant.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tollway.ledger.charges import ActResult, Charge, GrantKey, ShortageError
from tollway.ledger.consent_uses import add_uses, use_of
from tollway.ledger.entries import TAKE, add_entries, amount_left
from tollway.ledger.idempotency import KeptAnswer, find_kept, keep
from tollway.ledger.joint_acts import post_joint
from tollway.ledger.token_limits import spend
from tollway.store.database import DuplicateKeyError, StoreError, Transaction
from tollway.store.key_file import SealError


class AlreadyAnswered(Exception):  # noqa: N818 - it is a finding, not a fault
    """An answer was stored under a charge's key before: nothing was done, nothing was paid."""

    def __init__(self, kept: KeptAnswer) -> None:
        super().__init__(kept.request_id)
        self.kept = kept


# By position in a batch: the result of a charge's act, or why the charge was not posted. There is
# none for a plain charge that was posted.
ChargeResults = dict[int, ActResult | Exception]


async def post_charges(transaction: Transaction, charges: Sequence[Charge]) -> ChargeResults:
    """Posts charges in one transaction; each is posted whole, with its act, or not at all."""
    results: ChargeResults = {}
    entries: list[tuple[object, ...]] = []

    async def pay(owed: Sequence[Charge]) -> ChargeResults:
        refused: ChargeResults = {}
        added: list[tuple[object, ...]] = []
        await _post_plain(transaction, owed, refused, added)
        if not refused:
            entries.extend(added)
        return refused

    alone = await _post_plain(transaction, charges, results, entries)
    if alone:
        results |= await post_joint(transaction, charges, pay)
    left = [position for position in alone if position not in results]
    # An act that is done alone may change anything.
    transaction.keeps_records = not left
    for position in left:
        results[position] = await _post_alone(transaction, charges[position], entries)
    await add_entries(transaction, entries)
    uses = [
        use_of(grant, charge.request_id, charge.at_ms, charge.operation, replay_of, records)
        for grant, charge, replay_of, records in _done_under_grants(charges, results)
    ]
    await add_uses(transaction, uses)
    return results


def _done_under_grants(
    charges: Sequence[Charge], results: ChargeResults
) -> Iterator[tuple[GrantKey, Charge, str | None, int | None]]:
    """The calls that succeeded under a grant, what each repeats, and how many records it got. A
    call that waits for a carrier is recorded later."""
    for position, charge in enumerate(charges):
        grant = charge.grant
        if grant is None:
            continue
        result = results.get(position)
        if result is None:
            yield grant, charge, charge.replay_of, charge.records
        elif isinstance(result, ActResult) and result.then is None:
            records, count = charge.records, charge.count_records
            # Known before the charge, unless an act made the answer.
            if records is None and count is not None:
                records = count(result.data)
            yield grant, charge, result.replay_of, records


async def _post_plain(
    transaction: Transaction,
    charges: Sequence[Charge],
    results: ChargeResults,
    entries: list[tuple[object, ...]],
) -> list[int]:
    """Debits the charges that can be debited together; returns the positions of the others."""
    by_balance: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    alone: list[int] = []
    for position, charge in enumerate(charges):
        if charge.act is not None or charge.idempotency_key is not None or charge.cap is not None:
            alone.append(position)
        elif charge.amount:
            by_balance[charge.account_id, charge.unit].append(position)
    # A fixed lock order prevents deadlocks between nodes.
    for (account_id, unit), positions in sorted(by_balance.items()):
        # Almost always the balance covers the whole group, and one debit is enough. Otherwise each
        # call is tried alone, in the order of arrival.
        group = [charges[position] for position in positions]
        if await _take(transaction, group, entries):
            continue
        for position in positions:
            if not await _take(transaction, [charges[position]], entries):
                results[position] = ShortageError(await amount_left(transaction, account_id, unit))
    return alone


async def _post_alone(
    transaction: Transaction, charge: Charge, entries: list[tuple[object, ...]]
) -> ActResult | Exception:
    """Acts, charges and stores the answer, or does nothing; the rest of the batch is unaffected."""
    is_second = False
    try:
        while True:
            found = await _with_reservation(transaction, charge)
            added: list[tuple[object, ...]] = []
            try:
                async with transaction.savepoint():
                    result = await _act(transaction, found, added)
            except _KeptMeanwhileError:
                pass  # The next round finds the other transaction's answer.
            except DuplicateKeyError as error:
                # Another transaction may have stored the row meanwhile: the act finds it on retry.
                if is_second:
                    raise DuplicateKeyError(str(error)) from error
                is_second = True
            else:
                entries.extend(added)
                return result
    except SealError as error:
        # The database is fine: only one record of this call cannot be decrypted.
        return error
    except StoreError:
        raise
    except Exception as error:
        return error


class _KeptMeanwhileError(Exception):
    """Another transaction stored an answer under the same key first: roll back and look again."""


async def _with_reservation(transaction: Transaction, charge: Charge) -> Charge:
    """The charge, with the request that has reserved its key, if it is the same one repeated."""
    idempotency_key = charge.idempotency_key
    if idempotency_key is None:
        return charge
    reserved_by = charge.request_id
    if not idempotency_key.late:
        kept = await find_kept(transaction, charge.account_id, idempotency_key.key, charge.at_ms)
        if kept is None:
            return charge
        if not kept.is_reserved_for(idempotency_key):
            raise AlreadyAnswered(kept)
        reserved_by = kept.request_id
    return replace(charge, idempotency_key=replace(idempotency_key, reserved_by=reserved_by))


async def _act(
    transaction: Transaction, charge: Charge, entries: list[tuple[object, ...]]
) -> ActResult:
    result = await act_result(transaction, charge)
    if charge.cap is not None and (result.is_paid or result.is_held):
        await spend(transaction, charge.token_id, charge.cap, charge.unit, charge.amount)
    if result.is_paid and charge.amount and not await _take(transaction, [charge], entries):
        raise ShortageError(await amount_left(transaction, charge.account_id, charge.unit))
    idempotency_key = charge.idempotency_key
    if (
        idempotency_key is not None
        and (result.is_success or result.is_held)
        and not await keep(transaction, charge, idempotency_key, result)
        and not idempotency_key.late
    ):
        raise _KeptMeanwhileError
    return result


async def act_result(transaction: Transaction, charge: Charge) -> ActResult:
    """The result of a charge's act; a charge without one only has to be paid."""
    if charge.act is not None:
        return await charge.act(transaction, charge)
    key = charge.idempotency_key
    return ActResult((key and key.data) or b"", is_paid=True)


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
