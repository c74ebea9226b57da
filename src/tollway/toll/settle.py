"""Stage: the one commit. A call that came this far has succeeded, and now pays."""

from collections.abc import Awaitable

from tollway.ledger.posting import Act, Charge
from tollway.ledger.settlement import Settler
from tollway.store.database import Database
from tollway.toll.call import Call


class Settle:
    """Charges the call, and does what the operation left to be done with the charge.

    What is free is not entered in the books. What was done under an owner's grant is written down
    for the owner, also when it is free, but not what is done in the sandbox. A balance that no
    longer covers the call ends it with a ShortageError.
    """

    def __init__(self, settler: Settler, sandbox: Database) -> None:
        self._settler = settler
        self._sandbox = sandbox

    def __call__(self, call: Call) -> Awaitable[object] | None:
        if call.act is not None:
            return self._act(call, call.act)
        if call.price == 0 and (call.grant is None or call.passport.is_test):
            return None
        call.charged = call.price
        return self._settler.settle(_charge(call))

    async def _act(self, call: Call, act: Act) -> None:
        if call.passport.is_test:
            acted = await self._sandbox.write(act)
        else:
            settled = await self._settler.settle(_charge(call))
            assert settled is not None
            acted = settled
        call.data = acted.data
        call.charged = call.price if acted.is_paid else 0


def _charge(call: Call) -> Charge:
    return Charge(
        call.passport.account_id,
        call.operation.balance_unit,
        call.price,
        call.operation_name,
        call.request_id,
        call.passport.token_id,
        int(call.at_s * 1000),
        call.act,
        call.grant,
    )
