"""The stages that charge, over a real database and without a server: calls are made up here."""

from collections.abc import Awaitable, Callable
from itertools import count
from time import time
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import bindparam, select

from tests.support.stores import Store
from tollway.consent.grant_cache import GrantCache
from tollway.contract.operation import Operation
from tollway.ledger.accounts import open_account
from tollway.ledger.caller_cache import Caller
from tollway.ledger.charges import Act, GrantKey
from tollway.ledger.charging import ChargeBatcher
from tollway.ledger.entries import amount_left, newest_entries, top_up
from tollway.ledger.runtime import Runtime
from tollway.ledger.shared_windows import SharedWindows, new_ring
from tollway.ledger.token_limits import TokenLimits
from tollway.ledger.tokens import issue_token
from tollway.operations.orders.operation import ORDERS
from tollway.pipeline.bodies import NO_BODY
from tollway.pipeline.call import KEY_HEADER, Admission, AnswerStore, Call, Environment
from tollway.pipeline.settle import Settle
from tollway.store.cache_versions import Versions
from tollway.store.database import Database, Row
from tollway.store.keys import KeyedSigner
from tollway.store.query import Query
from tollway.store.schema.consent import consent_use
from tollway.store.sealing import Sealer
from tollway.telemetry.metrics import Metrics

KEYS = {1: bytes(range(32)), 2: bytes(range(32, 64))}
CREDITS, PRICE = 100, 10
_RUNTIME = Runtime()
_USES = Query(
    lambda: (
        select(
            consent_use.c.request_id,
            consent_use.c.operation,
            consent_use.c.replay_of,
            consent_use.c.records,
        )
        .where(consent_use.c.consent_id == bindparam("of_consent"))
        .order_by(consent_use.c.request_id)
    )
)
_names = count()


class Asked(msgspec.Struct, frozen=True):
    """A request for something."""

    what: str = "orders"


class Till:
    """A caller with 100 credits, and the last stage of its calls."""

    def __init__(self, database: Database, caller: Caller, *, counts_calls: bool) -> None:
        # A shared database counts them by itself.
        has_windows = counts_calls and not database.is_shared
        windows = SharedWindows(new_ring()) if has_windows else None
        batcher = ChargeBatcher(database, Metrics(), 60, lambda *_: None, windows)
        answers = AnswerStore(database, Sealer(KEYS, 1), KeyedSigner(KEYS, 1, "fingerprint"))
        self.environment = Environment(
            {}, GrantCache(database, Versions(database)), batcher, answers
        )
        self.database, self.caller = database, caller
        self.settle = Settle(ZoneInfo("Asia/Shanghai"))
        self.grant = GrantKey("shop", "shop", f"consent to {caller.account_id}")
        self._numbers = count(1)

    def call(
        self,
        operation: Operation = ORDERS,
        *,
        price: int = PRICE,
        data: bytes | None = None,
        act: Act | None = None,
        is_granted: bool = False,
        limit: int | None = None,
        key: str | None = None,
        asked: str = "orders",
        at_s: float | None = None,
    ) -> Call:
        """A call that has come to the last stages; one without data or act has failed before."""
        request_id = f"{self.caller.account_id}.{next(self._numbers)}"
        headers = {} if key is None else {KEY_HEADER: key.encode()}
        at_s = time() if at_s is None else at_s
        call = Call(request_id, operation.method, operation.path, b"", headers, NO_BODY, at_s)
        call.operation, call.operation_name = operation, operation.charged_as
        call.directory = None
        call.caller, call.environment, call.price, call.request = (
            *(self.caller, self.environment),
            *(price, Asked(asked)),
        )
        call.act, call.grant = act, self.grant if is_granted else None
        call.admission = None if limit is None else Admission(limit, limit)
        if data is not None:
            call.data = data
        return call

    async def pay(self, call: Call) -> None:
        """Passes a call through the last stage, to its end."""
        charge = self.settle(call)
        assert charge is not None
        await charge
        waiting = charge.resume()
        if waiting is not None:
            await waiting

    async def left(self) -> int:
        return await amount_left(self.database, self.caller.account_id, "credits")

    async def charged(self) -> list[tuple[str, int]]:
        """The requests that were charged, and how much."""
        entries = await newest_entries(self.database, self.caller.account_id, "credits", 100)
        return [(e.request_id or "", -e.amount) for e in reversed(entries) if e.kind == "charge"]

    async def uses(self) -> list[Row]:
        """What the owner of the grant sees: request, operation, what it repeats, and records."""
        rows = await self.database.fetch_all(_USES, of_consent=self.grant.consent_id)
        return [tuple(row) for row in rows]


class OnTill(Protocol):
    """Runs a test on the till of a new caller."""

    def __call__(
        self,
        test: Callable[[Till], Awaitable[None]],
        *,
        limits: TokenLimits | None = None,
        is_test: bool = False,
        counts_calls: bool = False,
    ) -> None: ...


def tills_over(store: Store) -> OnTill:
    def run(
        test: Callable[[Till], Awaitable[None]],
        *,
        limits: TokenLimits | None = None,
        is_test: bool = False,
        counts_calls: bool = False,
    ) -> None:
        async def work(database: Database) -> None:
            account_id = (await open_account(database, _RUNTIME, f"till {next(_names)}")).id
            await top_up(database, _RUNTIME, account_id, "credits", CREDITS)
            kind: dict[str, Any] = {"kind": "test" if is_test else "live"}
            if limits is not None:
                kind["limits"] = limits
            token_id = (await issue_token(database, _RUNTIME, account_id, **kind)).token.id
            caller = Caller(token_id, account_id, is_test, None, {}, limits)
            await test(Till(database, caller, counts_calls=counts_calls))

        store.do(work)

    return run
