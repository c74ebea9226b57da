"""What a call owes, what it does in the transaction that charges it, and what came of that."""

from collections.abc import Awaitable, Callable
from typing import Union

import msgspec

from tollway.store.database import Transaction


class ActResult(msgspec.Struct, frozen=True):
    """What an act came to: the payload of the answer, and whether it is still to be paid.

    An act that captured a hold has paid by itself: `captured`. `replay_of` is the request whose
    answer this is, if it was given before. `then` is what is to be done outside once all this is
    committed; the act that it gives comes in place of this one. `is_held` says that a hold was made
    for this, which tells the owner of the call's grant when it is captured.
    """

    data: bytes
    is_paid: bool
    captured: int | None = None
    replay_of: str | None = None
    then: Callable[[], Awaitable["Act"]] | None = None
    is_held: bool = False

    @property
    def is_success(self) -> bool:
        """Whether the caller now has what was asked for: then it need not be done again."""
        return self.is_paid or self.captured is not None or self.replay_of is not None


class GrantKey(msgspec.Struct, frozen=True, gc=False):
    """The grant that a call was made under."""

    owner_kind: str
    owner_id: str
    consent_id: str


class IdempotencyKey(msgspec.Struct, frozen=True, gc=False):
    """How the answer to a call with an Idempotency-Key is kept for its repetition.

    `data` is the answer if it is known before the charge; an act gives its own. `is_same` tells
    whether another fingerprint is of the same request. The end of an act that has held its price
    and its key is `late`: it is entered whatever has become of the key meanwhile, because what was
    done outside is done.
    """

    key: str
    fingerprint: bytes
    is_same: Callable[[bytes], bool]
    seal: Callable[[bytes], bytes]
    data: bytes | None
    late: bool = False


class Charge(msgspec.Struct, frozen=True, gc=False):
    """What one call owes, which may be nothing.

    `limit` is how many such calls its account may have admitted in a second over all nodes; None
    where it is not for the settlement to count them.
    """

    account_id: str
    unit: str
    amount: int
    operation: str
    request_id: str
    token_id: str
    at_ms: int
    act: Union["Act", None] = None
    grant: GrantKey | None = None
    idempotency_key: IdempotencyKey | None = None
    limit: int | None = None


# Something an operation does in the very transaction that charges for it, so that neither is ever
# there without the other.
Act = Callable[[Transaction, Charge], Awaitable[ActResult]]


class ShortageError(Exception):
    """A charge was refused, because the balance does not cover it."""

    def __init__(self, left: int) -> None:
        super().__init__(left)
        self.left = left


class OverLimitError(Exception):
    """A charge was refused, because enough calls were admitted on all nodes in the last second.

    There is place for another one after `wait_s`, and surely not before `until_ns` of this
    process's monotonic clock.
    """

    def __init__(self, wait_s: float, until_ns: int) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s
        self.until_ns = until_ns


class BusyError(Exception):
    """A charge was not tried, because another transaction has its balance or its limit just now."""
