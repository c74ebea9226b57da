"""Labels are drawn one at a time, and the account that asks most often delays no other."""

import asyncio
from functools import partial
from threading import Event
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.support.ledger import RUNTIME
from tollway.operations.account_api import waybills
from tollway.operations.account_api.waybills import ENDPOINTS, LabelRequest, LabelsRequest
from tollway.store.concurrency import BoundedSlots
from tollway.store.database import StoreBusyError

pytestmark = pytest.mark.sqlite
MANY = 5


class Drawing:
    """The endpoint of labels, whose drawing waits until it may go on."""

    def __init__(self, patch: pytest.MonkeyPatch, call_timeout_s: float) -> None:
        self.may_draw = Event()
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
        waybill = SimpleNamespace(number="1", state="issued", printed_at_s=1)
        return MagicMock(waybill=waybill, own_print_data=lambda _: object_id)

    def _draw(self, _document: bytes, label: Any, *_: object) -> bytes:
        self.may_draw.wait(30)
        self.drawn.append(label)
        return b""

    async def ask(self, account_id: str) -> None:
        call: Any = SimpleNamespace(account_id=account_id)
        await self._handle(LabelRequest(account_id), call)
        self.answered.append(account_id)

    async def ask_for_many(self, account_id: str) -> None:
        call: Any = SimpleNamespace(account_id=account_id)
        await self._handle_many(LabelsRequest([account_id] * MANY), call)
        self.answered.append(account_id)


def test_an_account_that_asks_for_many_labels_delays_another_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        drawing = Drawing(monkeypatch, 30)
        asked = [asyncio.create_task(drawing.ask(each)) for each in ["busy"] * MANY + ["other"]]
        for _ in range(10):
            await asyncio.sleep(0)
        drawing.may_draw.set()
        await asyncio.gather(*asked)
        assert drawing.answered.index("other") <= 1

    asyncio.run(work())


def test_a_document_of_many_labels_delays_another_account_by_one_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        drawing = Drawing(monkeypatch, 30)
        many = asyncio.create_task(drawing.ask_for_many("busy"))
        other = asyncio.create_task(drawing.ask("other"))
        for _ in range(10):
            await asyncio.sleep(0)
        drawing.may_draw.set()
        await asyncio.gather(many, other)
        assert drawing.drawn == ["busy", "other", *["busy"] * (MANY - 1)]

    asyncio.run(work())


def test_a_label_that_waits_for_longer_than_a_call_may_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        drawing = Drawing(monkeypatch, 0.05)
        first = asyncio.create_task(drawing.ask("busy"))
        await asyncio.sleep(0)
        with pytest.raises(StoreBusyError):
            async with asyncio.timeout(10):
                await drawing.ask("other")
        drawing.may_draw.set()
        await first

    asyncio.run(work())
