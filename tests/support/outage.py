"""Clients that go on calling through an outage, and the answers that they got.

Every call has an Idempotency-Key, and is repeated with it until it is acknowledged: so at the end
every call must be in the ledger, and none twice.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count, pairwise
from time import monotonic
from urllib.parse import urlencode

from tests.support.gateway import ANALYSIS, Gateway
from tests.support.ledger import Caller, calls_left
from tests.support.load import assert_ledger_adds_up
from tests.support.stores import Store

_HEADER = re.compile(rb"^([\w-]+): *(.*?)\r$", re.MULTILINE)
_DEADLINE_S = 120
# Of a client after a refusal, which comes at once: no pause would keep the processors busy with it.
_PAUSE_S = 0.05
_keys = count()


@dataclass
class Experience:
    """What happened to the calls: when each was answered, with what and after how long."""

    answers: list[tuple[float, int, float]] = field(default_factory=list)
    # Of every call, the request that it was paid with.
    acknowledged: list[str] = field(default_factory=list)
    broken: int = 0

    @property
    def codes(self) -> Counter[int]:
        return Counter(code for _, code, _ in self.answers)

    async def grows_by(self, calls: int) -> None:
        """Returns when so many more calls were acknowledged."""
        wanted = len(self.acknowledged) + calls
        while len(self.acknowledged) < wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    def outage_s(self) -> float:
        """The longest time without a success."""
        times = sorted(at_s for at_s, code, _ in self.answers if code == 0)
        return max(after - before for before, after in pairwise(times))

    def slowest_refusal_s(self) -> float:
        """The 99th percentile."""
        elapsed = sorted(elapsed_s for _, code, elapsed_s in self.answers if code != 0)
        return elapsed[min(len(elapsed) - 1, int(len(elapsed) * 0.99))] if elapsed else 0.0


async def call_through(
    gateway: Gateway,
    caller: Caller,
    question: dict[str, str],
    *,
    clients: int,
    happening: Callable[[Experience], Awaitable[None]],
) -> Experience:
    """Calls while something happens, and ends when every call was acknowledged."""
    experience, is_over = Experience(), asyncio.Event()

    async def client() -> None:
        connection = _Connection(gateway.port, caller.token, question, experience)
        while not is_over.is_set():
            await connection.call_until_acknowledged(f"call-{next(_keys)}")
        connection.close()

    async with asyncio.timeout(_DEADLINE_S):
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(client())
            await happening(experience)
            is_over.set()
    return experience


class _Connection:
    """One connection to the gateway, made again when it breaks."""

    def __init__(
        self, port: int, token: str, question: dict[str, str], experience: Experience
    ) -> None:
        self._port = port
        self._head = (
            f"GET {ANALYSIS}?{urlencode(question)} HTTP/1.1\r\n"
            f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nIdempotency-Key: "
        )
        self._experience = experience
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call_until_acknowledged(self, key: str) -> None:
        while True:
            began_s = monotonic()
            try:
                code, request_id = await self._call(key)
            except (OSError, asyncio.IncompleteReadError):
                self._experience.broken += 1
                self.close()
                await asyncio.sleep(_PAUSE_S)
                continue
            self._experience.answers.append((monotonic(), code, monotonic() - began_s))
            if code == 0:
                self._experience.acknowledged.append(request_id)
                return
            await asyncio.sleep(_PAUSE_S)

    async def _call(self, key: str) -> tuple[int, str]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(f"{self._head}{key}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        headers = {name.lower(): value.decode() for name, value in _HEADER.findall(head)}
        body = await reader.readexactly(int(headers[b"content-length"]))
        # A replayed answer names the request that it was first given to.
        return json.loads(body)["code"], headers.get(b"x-replay-of") or headers[b"x-request-id"]

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def assert_nothing_was_lost(
    store: Store, caller: Caller, experience: Experience, *, calls: int
) -> None:
    """Every acknowledged call is in the ledger once, nothing else is, and the audit is clean."""
    assert len(set(experience.acknowledged)) == len(experience.acknowledged)
    assert_ledger_adds_up(store, experience.acknowledged)
    assert calls_left(store, caller) == calls - len(experience.acknowledged)
