"""Labels are drawn one at a time, and the account that asks most often delays no other. One that
cannot be drawn does not count as printed."""

import asyncio
from functools import partial
from threading import Event
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import httpx
import pytest

from tests.support.in_process import in_gateway
from tests.support.ledger import RUNTIME
from tests.support.stores import Store
from tests.support.waybills import new_carrier, new_customer, request
from tollway.carriers.labels import drawing
from tollway.contract.reasons import Refusal
from tollway.gateway.gateway import Gateway
from tollway.operations.account_api import waybills
from tollway.operations.account_api.waybills import ENDPOINTS, LabelRequest, LabelsRequest
from tollway.operations.waybills.operation import WAYBILLS
from tollway.store.concurrency import BoundedSlots
from tollway.store.database import StoreBusyError

pytestmark = pytest.mark.sqlite
MANY = 5


class Drawing:
    """The endpoint of labels, whose drawing waits until it may go on."""

    def __init__(self, patch: pytest.MonkeyPatch, call_timeout_s: float) -> None:
        self.may_draw = Event()
        self._found: asyncio.Queue[str] = asyncio.Queue()
        self.answered: list[str] = []
        # Whose label it was.
        self.drawn: list[str] = []
        patch.setattr(waybills, "_find_issued", self._find)
        patch.setattr(waybills, "label_of", lambda label, _: label)
        patch.setattr(waybills, "_drawn", self._draw)
        label, labels = (each for each in ENDPOINTS if "/label" in each.operation.path)
        slots = BoundedSlots(1, "busy")
        parts: Any = MagicMock(call_timeout_s=call_timeout_s, drawing=slots, runtime=RUNTIME)
        self._handle = partial(label.handle, parts)
        self._handle_many = partial(labels.handle, parts)

    async def _find(self, _parts: object, _call: object, object_id: str) -> Any:
        self._found.put_nowait(object_id)
        waybill = SimpleNamespace(number="1", state="issued", printed_at_s=1)
        return MagicMock(waybill=waybill, own_print_data=lambda _: object_id)

    def _draw(self, _document: bytes, label: Any, *_: object) -> bytes:
        self.may_draw.wait(30)
        self.drawn.append(label)
        return b"%PDF"

    async def wait_until_asked(self, times: int) -> None:
        """So many waybills were found, and wait to be drawn."""
        for _ in range(times):
            await self._found.get()

    async def ask(self, account_id: str) -> None:
        call: Any = SimpleNamespace(account_id=account_id)
        await self._handle(LabelRequest(account_id), call)
        self.answered.append(account_id)

    async def ask_for_many(self, account_id: str) -> None:
        call: Any = SimpleNamespace(account_id=account_id)
        await self._handle_many(LabelsRequest([account_id] * MANY), call)
        self.answered.append(account_id)


async def test_an_account_that_asks_for_many_labels_delays_another_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawing = Drawing(monkeypatch, 30)
    asked = [asyncio.create_task(drawing.ask(each)) for each in ["busy"] * MANY + ["other"]]
    await drawing.wait_until_asked(len(asked))
    drawing.may_draw.set()
    await asyncio.gather(*asked)
    assert drawing.answered.index("other") <= 1


async def test_a_document_of_many_labels_delays_another_account_by_one_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawing = Drawing(monkeypatch, 30)
    many = asyncio.create_task(drawing.ask_for_many("busy"))
    await drawing.wait_until_asked(MANY)
    other = asyncio.create_task(drawing.ask("other"))
    await drawing.wait_until_asked(1)
    drawing.may_draw.set()
    await asyncio.gather(many, other)
    assert drawing.drawn == ["busy", "other", *["busy"] * (MANY - 1)]


async def test_a_label_that_waits_for_longer_than_a_call_may_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawing = Drawing(monkeypatch, 0.05)
    first = asyncio.create_task(drawing.ask("busy"))
    await drawing.wait_until_asked(1)
    with pytest.raises(StoreBusyError):
        async with asyncio.timeout(10):
            await drawing.ask("other")
    drawing.may_draw.set()
    await first


def test_labels_that_take_too_long_are_refused_and_a_single_one_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        drawing = Drawing(monkeypatch, 30)
        drawing.may_draw.set()
        monkeypatch.setattr(waybills, "_DRAWING_MAX_S", -1)
        with pytest.raises(Refusal) as refused:
            await drawing.ask_for_many("many")
        said = refused.value.message("en")
        assert said.startswith("Parameter object_ids is not valid: their labels take too long")
        await drawing.ask("one")
        assert drawing.drawn == ["many", "one"]

    asyncio.run(work())


def test_a_label_without_a_font_does_not_count_as_printed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "_USUAL", ())
    monkeypatch.setattr(drawing, "_packaged_font", lambda: None)
    headers = {"Authorization": f"Bearer {new_customer(store).token}"}
    wanted = request(new_carrier(store, 1))

    async def work(gateway: Gateway) -> None:
        transport: Any = httpx.ASGITransport(gateway.edge)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://test", headers=headers
        ) as client:
            issued = (await client.post(WAYBILLS.path, json=wanted)).json()["data"]
            of = {"object_id": issued["objectId"]}
            label = await client.get("/account/v1/waybills/label", params=of)
            assert label.headers["x-tollway-reason"] == "OPERATION_CLOSED"
            state = (await client.get("/account/v1/waybills", params=of)).json()
            assert state["data"]["printed_at_s"] is None

    in_gateway(store, monkeypatch, work)
