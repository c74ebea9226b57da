"""Clients that record every answer, and repeat each call until its outcome is certain."""

import asyncio
import random
import ssl
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import httpx

from tests.support.coupons import asked
from tests.support.gateway import reply_of
from tests.support.ledger import Caller
from tests.support.waybills import request
from tollway.contract.operation import Encoding, Operation
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.operations.waybills.operation import WAYBILLS

PLAIN, KEPT, POOL, REMOTE = "plain", "kept", "pool", "remote"
KINDS = (PLAIN, KEPT, POOL, REMOTE)
TIMEOUT_S = 30
_numbers = count(1)


@dataclass(eq=False)
class Deed:
    """Something a client wants done once, in as many tries as it takes."""

    kind: str
    caller: Caller
    operation: Operation
    body: dict[str, Any]
    key: str | None
    is_done: bool = False


class Answer(NamedTuple):
    """One answer."""

    deed: Deed
    request_id: str
    code: int
    data: Any
    replay_of: str | None

    @property
    def is_success(self) -> bool:
        # A waybill's own code tells whether the carrier has agreed.
        return self.code == 0 and self.data.get("code", 1) == 1

    @property
    def is_open(self) -> bool:
        """Whether the carrier has not said yet what became of it."""
        return self.code == 101 and self.deed.kind == REMOTE


@dataclass
class HeardAnswers:
    """All that the clients know."""

    answers: list[Answer] = field(default_factory=list)
    broken: Counter[str] = field(default_factory=Counter)
    unfinished: defaultdict[str, deque[Deed]] = field(default_factory=lambda: defaultdict(deque))


class Clients:
    """A few of each kind, who go on from one life of the gateway to the next."""

    def __init__(
        self,
        callers: dict[str, Caller],
        question: dict[str, str],
        wp_codes: dict[str, str],
        chance: random.Random,
    ) -> None:
        self._callers = callers
        self._question = question
        self._wp_codes = wp_codes
        self._chance = chance
        self.notes = HeardAnswers()
        self._is_over = asyncio.Event()

    async def call_until_cut_off(
        self, address: str, each: int, pauses_s: Mapping[str, float]
    ) -> None:
        """Asks for one thing after the other, first for what is unfinished."""
        is_over = self._is_over = asyncio.Event()
        async with _client(address) as client:
            await asyncio.gather(
                *(
                    self._go_on(client, kind, pauses_s[kind], is_over)
                    for kind in KINDS
                    for _ in range(each)
                )
            )

    def stop(self) -> None:
        """Each call that is under way is the last one."""
        self._is_over.set()

    async def finish(self, address: str) -> None:
        """Asks until everything that was ever begun is done."""
        async with _client(address) as client, asyncio.timeout(2 * TIMEOUT_S):
            while any(self.notes.unfinished.values()):
                for waiting in self.notes.unfinished.values():
                    for deed in [waiting.popleft() for _ in range(len(waiting))]:
                        assert await self._try(client, deed), "the gateway is gone"
                await asyncio.sleep(0.05)

    async def _go_on(
        self, client: httpx.AsyncClient, kind: str, pause_s: float, is_over: asyncio.Event
    ) -> None:
        """Who pauses when another is cut off asks no more: nothing is there to answer."""
        while not is_over.is_set():
            waiting = self.notes.unfinished[kind]
            # What a carrier is silent about must not keep the others from being asked for.
            is_old = bool(waiting) and self._chance.random() < 0.7
            deed = waiting.popleft() if is_old else self._new(kind)
            # Impatient callers send the same twice.
            times = 2 if kind != PLAIN and self._chance.random() < 0.2 else 1
            alive = await asyncio.gather(*(self._try(client, deed) for _ in range(times)))
            if not all(alive):
                is_over.set()
            with suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), pause_s)

    async def _try(self, client: httpx.AsyncClient, deed: Deed) -> bool:
        """Sends it once; False without an answer."""
        sent = {"Authorization": f"Bearer {deed.caller.token}"}
        if deed.key is not None:
            sent["Idempotency-Key"] = deed.key
        try:
            response = await client.request(
                deed.operation.method, deed.operation.path, headers=sent, **_encoded(deed)
            )
        except httpx.TransportError:
            self.notes.broken[deed.kind] += 1
            self._put_back(deed)
            return False
        reply = reply_of(response)
        answer = Answer(
            deed,
            reply.headers["x-request-id"],
            reply.code,
            reply.envelope["data"],
            reply.headers.get("x-replay-of"),
        )
        self.notes.answers.append(answer)
        if answer.is_success:
            deed.is_done = True
        else:
            self._put_back(deed)
        return True

    def _put_back(self, deed: Deed) -> None:
        waiting = self.notes.unfinished[deed.kind]
        # A plain read that is asked for again is another read, and costs again.
        if deed.kind != PLAIN and not deed.is_done and deed not in waiting:
            waiting.append(deed)

    def _new(self, kind: str) -> Deed:
        key = f"deed {next(_numbers)}"
        caller = self._callers[kind]
        if kind == PLAIN:
            if self._chance.random() < 0.5:
                return Deed(kind, caller, PRODUCT_ANALYSIS, self._question, None)
            return Deed(kind, caller, COUPON_CLAIMS, asked(), None)
        if kind == KEPT:
            return Deed(kind, caller, COUPON_CLAIMS, asked(), key)
        body = request(self._wp_codes[kind])
        return Deed(kind, caller, WAYBILLS, body, key if self._chance.random() < 0.5 else None)


def _client(address: str) -> httpx.AsyncClient:
    # Every life has one: it need not load the authorities of the machine.
    no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx.AsyncClient(base_url=address, timeout=TIMEOUT_S, trust_env=False, verify=no_tls)


def _encoded(deed: Deed) -> dict[str, Any]:
    if deed.operation.encoding is Encoding.QUERY:
        return {"params": deed.body}
    return {"data" if deed.operation.encoding is Encoding.FORM else "json": deed.body}
