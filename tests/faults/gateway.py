"""A gateway in this process, whose database is on a disk that can fail, or behind a network that
can."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch
from urllib.parse import urlencode

from tests.faults.batches import Call, Callers
from tests.faults.disk import FaultyDisk, checkpoints_every
from tests.faults.network import Network, network_to
from tests.support.all_operations import all_operations_caller, small_world
from tests.support.fake_carrier import FakeCarrier
from tests.support.remote import PATIENT, connected_carrier
from tests.support.stores import Store
from tests.support.waybills import new_carrier
from tollway.contract.operation import Encoding
from tollway.contract.reasons import Reason
from tollway.gateway.gateway import Gateway
from tollway.gateway.worker_group import WorkerGroup
from tollway.ledger import refused_calls
from tollway.operations.catalogue import ALL_TABLES
from tollway.settings import Settings
from tollway.store.database import StoreUnavailableError, Transaction
from tollway.store.key_check import files_of, use_files
from tollway.store.open import OpenDatabase, open_database
from tollway.telemetry.logs import LogWriter
from tollway.telemetry.metrics import Metrics

# What the poor account has, and what the others have.
FEW_CREDITS, FEW_CALLS = 12, 2
_PLENTY = 10**9
_ANY_RATE = 10**6
_NUMBERS = 5000
_CHECKPOINT_PAGES = 100
_LATER_S = 3600
_connections = count(1)
_CONTENT_TYPES = {
    Encoding.QUERY: b"",
    Encoding.FORM: b"application/x-www-form-urlencoded",
    Encoding.JSON: b"application/json",
}


class Answer(NamedTuple):
    """The answer to a call."""

    call: Call
    request_id: str
    code: int
    msg: str
    is_success: bool
    # The request that was charged for a success.
    paid_by: str

    def __str__(self) -> str:
        return f"{self.call.operation.name} {self.request_id}: {self.code} {self.msg}"

    @property
    def is_in_doubt(self) -> bool:
        """Whether it says that the call may have been charged, or may yet be."""
        is_held = self.code == Reason.CARRIER_SILENT.value.code and "credits are held" in self.msg
        return is_held or self.msg == Reason.COMMIT_IN_DOUBT.value.message.en


class FaultyGateway(NamedTuple):
    """What calls are sent to, and what fails. `database` is the same one without faults."""

    store: Store
    database: OpenDatabase
    callers: Callers
    faults: FaultyDisk | Network
    gateway: Gateway

    async def send(self, calls: Iterable[Call]) -> list[Answer]:
        """Sends calls at the same moment, so that they share their commits."""
        return await asyncio.gather(*map(self._send, calls))

    async def lose_connection(self) -> None:
        """The next commit needs a new connection, as after an error of the store."""

        async def fail(_: Transaction) -> None:
            raise StoreUnavailableError("lost")

        with suppress(StoreUnavailableError):
            await self.gateway._database.write(fail)

    async def _send(self, call: Call) -> Answer:
        operation = call.operation
        query = body = b""
        if operation.encoding is Encoding.JSON:
            body = json.dumps(call.body).encode()
        elif operation.encoding is Encoding.FORM:
            body = urlencode(call.body).encode()
        else:
            query = urlencode(call.body).encode()
        headers = [
            (b"host", b"127.0.0.1"),
            (b"authorization", f"Bearer {call.caller.token}".encode()),
            (b"content-type", _CONTENT_TYPES[operation.encoding]),
            (b"content-length", str(len(body)).encode()),
        ]
        if call.key is not None:
            headers.append((b"idempotency-key", call.key.encode()))
        scope = {
            "type": "http",
            "method": operation.method,
            "raw_path": operation.path.encode(),
            "query_string": query,
            "headers": headers,
            "client": ("127.0.0.1", next(_connections)),
        }
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self.gateway(scope, receive, send)
        return _answer(call, dict(sent[0]["headers"]), json.loads(sent[1]["body"]))


def _answer(call: Call, headers: dict[bytes, bytes], envelope: dict[str, Any]) -> Answer:
    request_id = headers[b"x-request-id"]
    code, data = envelope["code"], envelope["data"]
    return Answer(
        call,
        request_id.decode(),
        code,
        envelope["msg"],
        # A waybill's own code tells whether there is one.
        code == 0 and data.get("code", 1) == 1,
        headers.get(b"x-replay-of", request_id).decode(),
    )


@asynccontextmanager
async def faulty_gateway(
    folder: Path, today: date, carrier: FakeCarrier
) -> AsyncIterator[FaultyGateway]:
    """On a disk, or on a server behind a network, by the engine of the test."""
    store, callers = await asyncio.to_thread(_prepared, folder, today, carrier)
    async with AsyncExitStack() as stack:
        faults: FaultyDisk | Network
        if store.is_shared:
            faults = await stack.enter_async_context(network_to(store.url))
            url = faults.url
        else:
            faults, url = FaultyDisk(store.path), store.url
            stack.enter_context(faults.in_use())
            stack.enter_context(checkpoints_every(_CHECKPOINT_PAGES))
        # Notes of failed calls are not written meanwhile: which commits there are must be known.
        stack.enter_context(patch.object(refused_calls, "_WRITE_AFTER_S", _LATER_S))
        database = open_database(store.url, Metrics())
        stack.push_async_callback(database.close)
        files = {"key_file": store.key_file, "secret_file": store.secret_file}
        settings = Settings(database=url, log_calls="none", **files)
        gateway = Gateway(settings, WorkerGroup(1, ""), 0, LogWriter(sys.stderr))
        stack.push_async_callback(gateway.stop)
        yield FaultyGateway(store, database, callers, faults, gateway)


def _prepared(folder: Path, today: date, carrier: FakeCarrier) -> tuple[Store, Callers]:
    store = small_world(Store(folder / "tollway.db"), today)
    callers = Callers(
        rich=tuple(
            all_operations_caller(store, rate_limit=_ANY_RATE, calls=_PLENTY, credits_=_PLENTY)
            for _ in range(2)
        ),
        poor=all_operations_caller(
            store, rate_limit=_ANY_RATE, calls=FEW_CALLS, credits_=FEW_CREDITS
        ),
        pool=new_carrier(store, _NUMBERS),
        remote=connected_carrier(store, carrier, **PATIENT),
    )
    files = files_of(
        Settings(database=store.url, key_file=store.key_file, secret_file=store.secret_file)
    )
    store.do(lambda database: use_files(database, files, ALL_TABLES))
    return store, callers
