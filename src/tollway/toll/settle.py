"""Stage: the one commit. A call that came this far has succeeded, and now pays."""

from collections.abc import Awaitable

from tollway.ledger.settlement import Charge, Settler
from tollway.toll.call import Call


class Settle:
    """Charges the call; what is free is not entered in the books.

    A read under an owner's grant is written down for the owner, also when it is free, but not one
    of the sandbox. A balance that no longer covers the call ends it with a ShortageError.
    """

    def __init__(self, settler: Settler) -> None:
        self._settler = settler

    def __call__(self, call: Call) -> Awaitable[None] | None:
        grant = None if call.passport.is_test else call.grant
        if call.price == 0 and grant is None:
            return None
        call.charged = call.price
        return self._settler.settle(
            Charge(
                call.passport.account_id,
                call.operation.balance_unit,
                call.price,
                call.operation_name,
                call.request_id,
                call.passport.token_id,
                int(call.at_s * 1000),
                grant,
            )
        )
