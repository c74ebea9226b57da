"""Many clients that call one after the other until they are cut off, and their answers."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from urllib.parse import urlencode

import pytest

from tests.support.gateway import ANALYSIS, Gateway
from tests.support.stores import Store
from tollway.audit.report import audit
from tollway.ledger.entries import entries_of_request
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database

_LENGTH = re.compile(rb"content-length: (\d+)")
_FLOOD_S_MAX = 20
_REQUEST_ID = re.compile(rb"x-request-id: ([0-9a-f]+)")


@dataclass
class LoadResult:
    """The answers that clients got: their codes, and the request ids of the acknowledged calls."""

    codes: Counter[int] = field(default_factory=Counter)
    acknowledged: list[str] = field(default_factory=list)
    # Of a flood: from before its first call until after the last answer, and whether it was enough.
    lasted_s: float = 0
    was_enough: bool = False

    def add(self, code: int, request_id: str) -> None:
        self.codes[code] += 1
        if code == 0:
            self.acknowledged.append(request_id)


async def fire(
    gateway: Gateway, token: str, query: dict[str, str], clients: int, calls_each: int
) -> Counter[int]:
    """Codes of `clients` connections that call one after the other, all at the same time."""
    codes: Counter[int] = Counter()
    all_connected = asyncio.Barrier(clients)

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        await all_connected.wait()
        for _ in range(calls_each):
            codes[(await _call(reader, writer, _request(token, query)))[0]] += 1
        writer.close()

    await asyncio.gather(*(one() for _ in range(clients)))
    return codes


async def flood(
    gateways: Sequence[Gateway],
    token: str,
    query: dict[str, str],
    clients_each: int,
    is_enough: Callable[[LoadResult], bool],
    pause_s: float = 0,
) -> LoadResult:
    """Calls from several connections to each gateway, one after the other, until that is enough.
    A connection that is cut off calls no more."""
    load = LoadResult()
    connections = [
        await asyncio.open_connection("127.0.0.1", gateway.port)
        for gateway in gateways
        for _ in range(clients_each)
    ]
    began_s = monotonic()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while not load.was_enough and load.lasted_s < _FLOOD_S_MAX:
                load.add(*await _call(reader, writer, _request(token, query)))
                load.lasted_s = monotonic() - began_s
                load.was_enough = load.was_enough or is_enough(load)
                await asyncio.sleep(pause_s)
        writer.close()

    await asyncio.gather(*(one(*each) for each in connections))
    return load


def _request(token: str, query: dict[str, str]) -> bytes:
    return (
        f"GET {ANALYSIS}?{urlencode(query)} HTTP/1.1\r\n"
        f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()


async def _call(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> tuple[int, str]:
    """The code of one call and its request id."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length, request_id = _LENGTH.search(head), _REQUEST_ID.search(head)
    assert length is not None and request_id is not None
    code = json.loads(await reader.readexactly(int(length[1])))["code"]
    return code, request_id[1].decode()


async def call_until_cut_off(
    gateway: Gateway,
    token: str,
    query: dict[str, str],
    *,
    clients: int,
    after: int,
    then: Callable[[], None],
) -> LoadResult:
    """Calls from many connections; after so many answers, does something to the gateway."""
    load = LoadResult()

    async def call() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        try:
            while True:
                load.add(*await _call(reader, writer, _request(token, query)))
                if load.codes.total() == after:
                    then()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async with asyncio.timeout(120):
        await asyncio.gather(*(call() for _ in range(clients)))
    return load


def assert_ledger_adds_up(store: Store, acknowledged: list[str]) -> None:
    """The audit finds nothing, and every acknowledged call has exactly one entry."""

    async def work(database: Database) -> None:
        breaches = (await audit(database, Runtime().at_ms())).breaches
        assert breaches == [], breaches

    store.do(work)
    _assert_each_has_one_entry(store, acknowledged)


def _assert_each_has_one_entry(store: Store, acknowledged: list[str]) -> None:
    async def work(database: Database) -> None:
        for request_id in acknowledged:
            entries = await entries_of_request(database, request_id)
            assert [entry.amount for entry in entries] == [-1], request_id

    store.do(work)


def assert_a_lost_entry_is_noticed(store: Store, acknowledged: list[str]) -> None:
    """The control: an entry is taken back, as if its commit had never been."""
    lost = acknowledged[-1]
    store.run(f"DELETE FROM entry WHERE request_id = '{lost}'")
    with pytest.raises(AssertionError, match=lost):
        _assert_each_has_one_entry(store, acknowledged)
    _assert_each_has_one_entry(store, acknowledged[:-1])
