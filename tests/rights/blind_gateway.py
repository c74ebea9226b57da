"""`python -m tests.rights.blind_gateway OF_PAID_CALLS ARGUMENTS`: `tollway`, blind to changes.

For controls: a node that was not notified of a change does not look for it either when it charges,
or before it does what is free.
"""

import sys
from typing import Any

from tests.support.forks import Fork
from tests.support.gateway import Gateway
from tollway.__main__ import main
from tollway.ledger import charge_postgresql
from tollway.pipeline.authenticate import Recheck


class BlindGateway(Gateway):
    """A gateway like any other, but for what it does not look for."""

    of_paid_calls = True

    def _start(self, *command: str, **where: Any) -> Any:
        return Fork(__name__, str(self.of_paid_calls), *command[1:], **where)


class BlindToFreeCalls(BlindGateway):
    of_paid_calls = False


def blind(*, of_paid_calls: bool) -> None:
    packed = charge_postgresql._packed

    async def for_any_version(charges: Any) -> dict[str, object]:
        return {**await packed(charges), "directories": []}

    if of_paid_calls:
        charge_postgresql._packed = for_any_version
        charge_postgresql._outdated = lambda *_: {}  # type: ignore[assignment]
    else:
        Recheck._is_not_charged = lambda *_: False  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    blind(of_paid_calls=sys.argv[1] == str(True))
    main(sys.argv[2:])
