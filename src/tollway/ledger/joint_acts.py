"""Acts that are done together: a whole batch takes a few statements, instead of a few per act.

If a call of the group cannot be paid, the group is rolled back and retried without that call. A
call that the group leaves out, because it differs from the others, is done alone.
"""

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec.structs import replace

from tollway.contract.reasons import Refusal
from tollway.ledger.charges import ActResult, Charge, JointAct, Together
from tollway.store.database import DuplicateKeyError, StoreError, Transaction
from tollway.store.key_file import SealError

logger = logging.getLogger(__name__)
# Debits charges that have no act; returns why some were refused, by position.
Pay = Callable[[Sequence[Charge]], Awaitable[Mapping[int, ActResult | Exception]]]


class _RefusedError(Exception):
    """Some calls of a group were refused; says why, by their position in it."""

    def __init__(self, refused: Mapping[int, ActResult | Exception]) -> None:
        self.refused = refused


def is_joint(charge: Charge) -> bool:
    """Whether a charge can be done with others. Keys and caps are checked one by one."""
    has_own_rules = charge.idempotency_key is not None or charge.cap is not None
    return isinstance(charge.act, JointAct) and not has_own_rules


def alone(charge: Charge) -> Charge:
    """The charge, to be done by itself."""
    return replace(charge, act=charge.act.alone) if isinstance(charge.act, JointAct) else charge


async def post_joint(
    transaction: Transaction, charges: Sequence[Charge], pay: Pay
) -> dict[int, ActResult | Exception]:
    """Does and charges the acts that can be done together; the others get no result."""
    groups: defaultdict[Together, list[int]] = defaultdict(list)
    for position, charge in enumerate(charges):
        if is_joint(charge):
            assert isinstance(charge.act, JointAct)
            groups[charge.act.together].append(position)
    results: dict[int, ActResult | Exception] = {}
    for together, positions in groups.items():
        group = [charges[position] for position in positions]
        found = await _post_group(transaction, together, group, pay)
        results |= {positions[nth]: result for nth, result in found.items()}
    return results


async def _post_group(
    transaction: Transaction, together: Together, group: Sequence[Charge], pay: Pay
) -> dict[int, ActResult | Exception]:
    results: dict[int, ActResult | Exception] = {}
    left = list(range(len(group)))
    while left:
        try:
            async with transaction.savepoint():
                done = await _do(transaction, together, [group[nth] for nth in left], pay)
        except _RefusedError as error:
            results |= {left[nth]: why for nth, why in error.refused.items()}
            left = [nth for nth in left if nth not in results]
        except (Refusal, DuplicateKeyError, SealError):
            # Each act is then done alone, so that only the faulty one fails.
            return results
        except StoreError:
            raise
        except Exception:
            logger.exception("%d acts could not be done together", len(left))
            return results
        else:
            return results | {left[nth]: result for nth, result in done.items()}
    return results


async def _do(
    transaction: Transaction, together: Together, group: Sequence[Charge], pay: Pay
) -> dict[int, ActResult]:
    found = await together(transaction, group)
    done = {nth: result for nth, result in enumerate(found) if result is not None}
    refused = await pay([_owed(group[nth], result) for nth, result in done.items()])
    if refused:
        positions = list(done)
        raise _RefusedError({positions[nth]: why for nth, why in refused.items()})
    return done


def _owed(charge: Charge, result: ActResult) -> Charge:
    """What a call owes after its act, and what the owner of its grant gets to see of it: nothing
    yet if it goes on after the commit."""
    count, is_over = charge.count_records, result.then is None
    return replace(
        charge,
        act=None,
        amount=charge.amount if result.is_paid else 0,
        grant=charge.grant if is_over else None,
        replay_of=result.replay_of,
        records=count(result.data) if is_over and count is not None else None,
    )
