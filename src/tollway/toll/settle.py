"""Stage: the one commit. A call that came this far has succeeded, and now pays."""

from collections.abc import Awaitable

import msgspec

from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.charges import Acted, Charge
from tollway.ledger.settlement import Settler
from tollway.store.database import StoreError
from tollway.toll.call import Call


class Settle:
    """Charges the call, and does what the operation left to be done with the charge.

    What is free is not entered in the books. What was done under an owner's grant is written down
    for the owner, also when it is free, but not what is done in the sandbox. A balance that no
    longer covers the call ends it with a ShortageError, a key that was used before with KeptBefore,
    and what all nodes have admitted, where they share a database, with an OverLimitError; there a
    free call is settled too, to be counted, and so is one that failed or repeats an answer.
    """

    def __init__(self, live: Settler, sandbox: Settler) -> None:
        self._live = live
        self._sandbox = sandbox

    def __call__(self, call: Call) -> Awaitable[object] | None:
        if call.act is not None:
            return self._act(call)
        settler = self._settler(call)
        is_told = call.grant is not None and not call.passport.is_test
        is_free = call.price == 0 and not is_told and call.keeping is None
        if is_free and not settler.counts_calls:
            return None
        call.charged = call.price
        return settler.settle(_charge(call, settler))

    def count(self, call: Call) -> Awaitable[object] | None:
        """Counts a call that was admitted here and was not settled, where nodes share a limit."""
        if call.admission is None or call.is_settled:
            return None
        settler = self._settler(call)
        if not settler.counts_calls:
            return None
        free = msgspec.structs.replace(
            _charge(call, settler), amount=0, act=None, grant=None, keeping=None
        )
        return settler.settle(free)

    async def _act(self, call: Call) -> None:
        settler = self._settler(call)
        charge = _charge(call, settler)
        acted = await settler.settle(charge)
        call.is_settled = True
        assert acted is not None
        while acted.then is not None:
            act = await acted.then()
            was_held = acted.is_held
            # A hold that is committed carries the grant from there on.
            grant = None if was_held else charge.grant
            # And the key. Whoever has only waited for another call must find it free, or theirs.
            keeping = charge.keeping
            if keeping is not None:
                keeping = msgspec.structs.replace(keeping, late=was_held)
            # And it was counted by the first commit.
            charge = msgspec.structs.replace(
                charge, act=act, grant=grant, keeping=keeping, limit=None
            )
            acted = await self._go_on(settler, charge, is_held=was_held)
        call.data = acted.data
        call.replay_of = acted.replay_of
        call.charged = call.price if acted.is_paid else acted.captured or 0

    @staticmethod
    async def _go_on(settler: Settler, charge: Charge, *, is_held: bool) -> Acted:
        """Posts the next act of a call; one whose credits are held may still be charged later."""
        try:
            acted = await settler.settle(charge)
        except StoreError:
            if is_held:
                raise Refusal(Reason.CARRIER_SILENT, cost=charge.amount) from None
            raise
        assert acted is not None
        return acted

    def _settler(self, call: Call) -> Settler:
        return self._sandbox if call.passport.is_test else self._live


def _charge(call: Call, settler: Settler) -> Charge:
    keeping = call.keeping
    if keeping is not None and call.act is None:
        keeping = msgspec.structs.replace(keeping, data=call.data)
    return Charge(
        call.passport.account_id,
        call.operation.balance_unit,
        call.price,
        call.operation_name,
        call.request_id,
        call.passport.token_id,
        int(call.at_s * 1000),
        call.act,
        None if call.passport.is_test else call.grant,
        keeping,
        call.admission.limit if settler.counts_calls and call.admission is not None else None,
    )
