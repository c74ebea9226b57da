"""One call on its way through the toll, and the answer at its end."""

from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any, Protocol

import msgspec

from tollway.contract.operation import Operation
from tollway.ledger.charges import Act, GrantKey, Keeping
from tollway.ledger.directory import Passport

# What makes a repetition of a request free; read by Recall.
KEY_HEADER = b"idempotency-key"


class Admission(msgspec.Struct, frozen=True, gc=False):
    """What the throttle said: the limit, and how much of it is left in this second."""

    limit: int
    remaining: int


class Call:
    """What came in, and what each stage found out."""

    # Filled in by the stages, in their order.
    operation: Operation
    passport: Passport
    price: int
    request: Any
    data: bytes
    # As they are until a stage has come that far, whatever becomes of the call afterwards.
    language: str = "en"
    operation_name: str = "none"
    account_id: str | None = None
    admission: Admission | None = None
    is_settled: bool = False
    act: Act | None = None
    grant: GrantKey | None = None
    keeping: Keeping | None = None
    replay_of: str | None = None
    charged: int = 0

    def __init__(
        self,
        request_id: str,
        method: str,
        path: str,
        query: bytes,
        headers: Mapping[bytes, bytes],
        read_body: Callable[[], Awaitable[bytes]],
        at_s: float,
    ) -> None:
        self.request_id = request_id
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.read_body = read_body
        self.at_s = at_s
        self.began_s = perf_counter()


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What goes back to the caller."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Stage(Protocol):
    """One step of the way. Lets the call pass, or raises a Refusal to end it.

    A stage that must wait gives what to wait for; one that need not gives None, which spares the
    walk a coroutine.
    """

    def __call__(self, call: Call) -> Awaitable[object] | None: ...
