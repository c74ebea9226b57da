"""One call, what the stages found out about it, and its answer."""

from collections.abc import Awaitable, Mapping
from time import perf_counter
from typing import Any, Protocol, final

import msgspec

from tollway.consent.grant_cache import GrantCache
from tollway.contract.operation import Operation, SandboxOutcome
from tollway.ledger.caller_cache import Caller
from tollway.ledger.charges import Act, GrantKey, IdempotencyKey
from tollway.ledger.charging import ChargeBatcher
from tollway.operations.subject import Handler, Stream
from tollway.pipeline.bodies import Body
from tollway.store.database import Database
from tollway.store.keys import KeyedSigner
from tollway.store.sealing import Sealer
from tollway.telemetry.requests import NO_IDS, ClientIds

# Makes repeating a request free; read by Replay.
KEY_HEADER = b"idempotency-key"


class Admission(msgspec.Struct, frozen=True, gc=False):
    """What the throttle said: the limit, and how much of it is left in this second."""

    limit: int
    remaining: int


class AnswerStore(msgspec.Struct, frozen=True):
    """Where answers are stored, and the keys that seal them and fingerprint requests."""

    database: Database
    sealer: Sealer
    fingerprinter: KeyedSigner


class Environment(msgspec.Struct, frozen=True):
    """What a call works on: live data, or the sandbox. Authenticate chooses it, by the token."""

    handlers: Mapping[str, Handler]
    grant_cache: GrantCache
    batcher: ChargeBatcher
    answers: AnswerStore


class Call:
    """What came in, and what each stage found out."""

    # Reading a slot takes less than half as long as reading a class default.
    __slots__ = (
        "account_id",
        "act",
        "admission",
        "at_s",
        "began_s",
        "body",
        "caller",
        "caller_reading",
        "charged",
        "charging_since_s",
        "client",
        "client_ids",
        "data",
        "directory",
        "environment",
        "grant",
        "headers",
        "idempotency_key",
        "ignored",
        "is_dry_run",
        "is_fresh",
        "is_settled",
        "is_simulated",
        "language",
        "left",
        "method",
        "operation",
        "operation_name",
        "path",
        "price",
        "query",
        "reached",
        "records",
        "replay_of",
        "request",
        "request_id",
        "sandbox_outcome",
        "stream",
    )

    # Filled in by the stages, in their order.
    operation: Operation
    caller: Caller
    # Which read of the versions the caller is from.
    caller_reading: int
    environment: Environment
    price: int
    request: Any
    data: bytes

    def __init__(
        self,
        request_id: str,
        method: str,
        path: str,
        query: bytes,
        headers: Mapping[bytes, bytes],
        body: Body,
        at_s: float,
        client: tuple[str, int] = ("", 0),
    ) -> None:
        self.request_id = request_id
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        # Read only when a stage asks for it.
        self.body = body
        self.at_s = at_s
        self.began_s = perf_counter()
        # The address and port that the connection comes from: the client's, or those of a proxy.
        self.client = client
        # Defaults, for a call that ends before the stage that sets them.
        self.language = "en"
        self.client_ids: ClientIds = NO_IDS
        self.operation_name = "none"
        # Whether the account caches were seen to be fresh after the call arrived.
        self.is_fresh = False
        self.account_id: str | None = None
        # The version of the directory that the caller is known under; None if charging need not
        # compare it, because the database is embedded, or it was read during the call.
        self.directory: int | None = None
        self.admission: Admission | None = None
        # What the throttle said to a call that it refused.
        self.left: Admission | None = None
        self.ignored = ""
        self.is_settled = False
        self.act: Act | None = None
        self.grant: GrantKey | None = None
        self.idempotency_key: IdempotencyKey | None = None
        self.replay_of: str | None = None
        # What a test call asked for: a payload, a simulated refusal or a dry run.
        self.sandbox_outcome: SandboxOutcome | None = None
        self.is_simulated = False
        self.is_dry_run = False
        self.charged = 0
        # When it began to wait to be charged, if it is charged again.
        self.charging_since_s: float | None = None
        # How many records of the grant's owner the payload has, if the handler says so.
        self.records: int | None = None
        # A file that is sent instead of the envelope.
        self.stream: Stream | None = None
        # The stages that a timed call has reached, and when; None for all others.
        self.reached: list[tuple[str, int]] | None = None


@final
class Answer(msgspec.Struct, frozen=True, gc=False):
    """What goes back to the caller."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    stream: Stream | None = None


class Stage(Protocol):
    """One stage. Lets the call pass, or ends it with a Refusal or another error.

    A stage that must wait returns an awaitable; otherwise it returns None, which saves a coroutine.
    Errors are raised; those that come in floods are returned, which takes a tenth of the time.
    """

    def __call__(self, call: Call) -> Awaitable[object] | Exception | None: ...
