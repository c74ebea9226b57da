"""What a call owes, what it does in the transaction that charges it, and the result of that."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Union

import msgspec

from tollway.ledger.token_limits import DayCap
from tollway.store.database import Transaction


class ActResult(msgspec.Struct, frozen=True):
    """The result of an act: the payload of the answer, and whether it must still be paid.

    An act that captured a hold has paid by itself: `captured`. `replay_of` is the request that got
    this answer first, if there was one. `then` is work to do after the commit, outside of the
    transaction; it returns the act that replaces this one. `is_held` says that this act made a
    hold: its capture will record the read for the owner of the grant.
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
    """How the answer to a call with an Idempotency-Key is stored for its repetition.

    `data` is the answer if it is known before the charge; an act returns its own. `is_same` says
    whether another fingerprint is of the same request. The second commit of an act that held its
    price and reserved its key is `late`: it goes ahead whatever happened to the key meanwhile,
    because the external work is done. An act finds in `reserved_by` which request, the same one
    repeated, has reserved the key.
    """

    key: str
    fingerprint: bytes
    is_same: Callable[[bytes], bool]
    seal: Callable[[bytes], bytes]
    data: bytes | None
    late: bool = False
    reserved_by: str | None = None


class Charge(msgspec.Struct, frozen=True, gc=False):
    """What one call owes, which may be nothing.

    `limit` is how many such calls of the account all nodes together may admit in a second; None
    where charging does not count them. `replay_of` is the request whose stored answer the call
    gets; such a call owes nothing. `directory` is the version of the directory that the caller was
    known under; None if that was read during the call. `since_s` is when the call began to wait to
    be charged, by the monotonic clock, if it has waited before.
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
    replay_of: str | None = None
    # What its token may spend in a day, if that is limited.
    cap: DayCap | None = None
    # How many records of the owner the answer has, if known; for an act, `count_records` counts.
    records: int | None = None
    count_records: Callable[[bytes], int] | None = None
    directory: int | None = None
    since_s: float | None = None

    @property
    def is_plain(self) -> bool:
        """Whether one statement of a shared database can post it."""
        return self.act is None and self.cap is None


# Work of an operation in the transaction that charges for it: both are committed, or neither.
Act = Callable[[Transaction, Charge], Awaitable[ActResult]]

# Does the acts of many charges in few statements. Returns the results in the same order; None for
# an act that it left undone, which is then done alone.
Together = Callable[[Transaction, Sequence[Charge]], Awaitable[Sequence[ActResult | None]]]


class JointAct(msgspec.Struct, frozen=True, gc=False):
    """An act that can be done together with others of its kind; `asked` says what it is to do.
    Together they change neither records nor versions (`Transaction.keeps_records`)."""

    alone: Act
    together: Together
    asked: Any

    def __call__(self, transaction: Transaction, charge: Charge) -> Awaitable[ActResult]:
        return self.alone(transaction, charge)


class ClosingAct(msgspec.Struct, frozen=True, gc=False):
    """An act that ends a hold as the outside has decided, which is known nowhere else. It may be
    posted again after a failure, so it changes only what is pending.

    `late` does the same once the call was answered without it. `outcome` says what was decided and
    what the operator can do, if it cannot be stored.
    """

    act: Act
    late: Act
    outcome: str

    def __call__(self, transaction: Transaction, charge: Charge) -> Awaitable[ActResult]:
        return self.act(transaction, charge)


class ShortageError(Exception):
    """A charge was refused, because the balance does not cover it."""

    def __init__(self, left: int) -> None:
        self.left = left


class OverLimitError(Exception):
    """A charge was refused, because the nodes admitted enough calls in the last second.

    Another call can be admitted after `wait_s`, and certainly not before `until_ns` of this
    process's monotonic clock.
    """

    def __init__(self, wait_s: float, until_ns: int) -> None:
        self.wait_s = wait_s
        self.until_ns = until_ns


class OutdatedCallerError(Exception):
    """A charge was not tried: its caller was known under a version of the directory that is no
    longer the current one. Another process may have revoked the token, or changed anything else.

    `since_s` is when the call began to wait to be charged: charged again, it waits on from then.
    """

    since_s: float | None = None


class BusyError(Exception):
    """A charge was not tried: another transaction holds the lock on its balance or window."""


class NoCapacityError(Exception):
    """A charge was not tried: its batch had no capacity left. It is to be done alone."""
