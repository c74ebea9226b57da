"""A gateway at work on a disk that remembers, and what is left of it when the power goes."""

import asyncio
import random
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import apsw
import httpx
import msgspec

from tests.power.disk import Disk, put_back
from tests.support.all_operations import all_operations_caller, good_request, small_world
from tests.support.ledger import RUNTIME, Caller
from tests.support.orders import order, sealer_of
from tests.support.pushes import EVERYONE
from tests.support.stores import Store
from tollway.audit.report import audit
from tollway.gateway.gateway import Gateway
from tollway.gateway.worker_group import WorkerGroup
from tollway.intake.sources import add_source
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import ALL_TABLES
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.operations.waybills.demo import WP_CODE
from tollway.operations.waybills.operation import WAYBILLS
from tollway.settings import Settings
from tollway.store.key_check import files_of, use_files
from tollway.store.sqlite import connection
from tollway.telemetry.logs import LogWriter
from tollway.webhooks.signature import key_of, sign

CLIENTS = 6
_SOURCE = "market"
# What an acknowledged thing is found by.
_FOUND = {
    "charge": "SELECT request_id FROM entry WHERE kind = 'charge'",
    "waybill": "SELECT number FROM waybill",
    "order": "SELECT order_sn FROM shop_order",
}


class Acknowledged(NamedTuple):
    """Something that was acknowledged, and how many steps the disk had done by then."""

    moment: int
    kind: str
    key: str


class Trial:
    """A store whose gateway has answered some calls on a disk that remembers."""

    def __init__(
        self, folder: Path, today: date, *, calls_each: int, synchronous: str = "FULL"
    ) -> None:
        self._folder = folder
        store = Store(folder / "tollway.db")
        small_world(store, today)
        self._today = today
        self._caller = all_operations_caller(
            store, rate_limit=100_000, calls=10_000, credits_=10_000
        )
        added = store.do(
            lambda database: add_source(database, sealer_of(store), _SOURCE, EVERYONE, RUNTIME)
        )
        self._key = key_of(added.secret)
        files = files_of(Settings(database=store.url))
        store.do(lambda database: use_files(database, files, ALL_TABLES))
        self.acknowledged: list[Acknowledged] = []
        self.disk = Disk(store.path)
        with (
            self.disk.remembering(),
            patch.object(connection, "_PRAGMAS", _pragmas(synchronous)),
        ):
            asyncio.run(self._serve(store, calls_each))

    async def _serve(self, store: Store, calls_each: int) -> None:
        gateway = Gateway(
            Settings(database=store.url), WorkerGroup(1, ""), 0, LogWriter(sys.stderr)
        )
        transport = httpx.ASGITransport(app=gateway)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            await asyncio.gather(
                *(self._work(client, number, calls_each) for number in range(CLIENTS))
            )
        self.steps = len(self.disk.journal)
        await gateway.stop()

    async def _work(self, client: httpx.AsyncClient, number: int, calls: int) -> None:
        for call in range(calls):
            await (self._analyse, self._issue, self._push)[(number + call) % 3](
                client, f"SN of power {number:03} {call:03}".replace(" ", "")
            )

    async def _analyse(self, client: httpx.AsyncClient, _: str) -> None:
        answer = await client.get(
            PRODUCT_ANALYSIS.path,
            params=good_request(PRODUCT_ANALYSIS, self._today),
            headers=_authorized(self._caller),
        )
        self._hear_charge(answer)

    async def _issue(self, client: httpx.AsyncClient, name: str) -> None:
        sent = {**good_request(WAYBILLS, self._today), "order_sn": name, "wp_code": WP_CODE}
        answer = await client.post(WAYBILLS.path, json=sent, headers=_authorized(self._caller))
        self._hear_charge(answer)
        issued = answer.json()["data"]
        assert issued["code"] == 1, issued
        self._hear("waybill", issued["waybillCode"])

    async def _push(self, client: httpx.AsyncClient, name: str) -> None:
        body = msgspec.json.encode(order(f"pushed {name}"))
        timestamp = str(Runtime().at_s())
        headers = {
            "webhook-source": _SOURCE,
            "webhook-id": name,
            "webhook-timestamp": timestamp,
            "webhook-signature": sign(self._key, name, timestamp, body),
        }
        answer = await client.post("/push/orders", content=body, headers=headers)
        assert answer.status_code == 200, answer.text
        self._hear("order", f"pushed {name}")

    def _hear_charge(self, answer: httpx.Response) -> None:
        assert answer.json()["code"] == 0, answer.text
        self._hear("charge", answer.headers["x-request-id"])

    def _hear(self, kind: str, key: str) -> None:
        self.acknowledged.append(Acknowledged(len(self.disk.journal), kind, key))

    def breaches(self, states: int, chance: random.Random, audit_every: int) -> Iterator[str]:
        """Cuts the power off at moments of chance; what is wrong with what is left each time."""
        moments = [
            # Just after an acknowledgement, or any moment at all.
            chance.choice(self.acknowledged).moment
            if chance.random() < 0.5
            else chance.randint(0, self.steps)
            for _ in range(states)
        ]
        for nth, (moment, files) in enumerate(self.disk.cut_off(moments, chance)):
            place = put_back(files, self._folder / "after")
            expected = [each for each in self.acknowledged if each.moment <= moment]
            wrong = list(_wrong(place, expected))
            if not wrong and nth % audit_every == 0:
                wrong = _damage(place)
            yield from (f"after {moment} steps: {each}" for each in wrong)


def _pragmas(synchronous: str) -> str:
    text = connection._PRAGMAS
    for usual, other in (
        # Else the log would never go into the file in so short a time.
        ("wal_autocheckpoint = 16000", "wal_autocheckpoint = 40"),
        ("synchronous = FULL", f"synchronous = {synchronous}"),
    ):
        assert usual in text
        text = text.replace(usual, other)
    return text


def _authorized(caller: Caller) -> dict[str, str]:
    return {"Authorization": f"Bearer {caller.token}"}


def _wrong(place: Path, expected: list[Acknowledged]) -> Iterator[str]:
    """What is not whole, and what was acknowledged and is not there."""
    left = apsw.Connection(str(place))
    try:
        whole = left.execute("PRAGMA integrity_check").fetchall()
        if whole != [("ok",)]:
            yield f"not whole: {whole[0][0]}"
            return
        for kind, statement in _FOUND.items():
            found = {row[0] for row in left.execute(statement)}
            for each in expected:
                if each.kind == kind and each.key not in found:
                    yield f"{kind} {each.key} is lost"
    except apsw.Error as error:
        yield f"cannot be read: {error}"
    finally:
        left.close()


def _damage(place: Path) -> list[str]:
    report = Store(place).do(lambda database: audit(database, Runtime().at_ms()))
    return [str(breach) for breach in report.damage]
