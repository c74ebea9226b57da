"""What the carrier does: issues, looks up, changes and cancels waybills, each in its journal first.

The journal is one JSON object a line, on disk before the answer. It is read back at the start, so a
carrier that was killed continues where it was.
"""

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from tollway.demo.fakes.carrier.signed_form import Message, MessageError

Line = dict[str, Any]


class Journal:
    """An append-only file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        whole, _, torn = path.read_bytes().rpartition(b"\n")
        if torn:
            # The carrier was killed during a write, and has not answered that message.
            os.truncate(self._file, len(whole) + 1 if whole else 0)
        self.lines: list[Line] = [json.loads(line) for line in whole.splitlines()]

    def write(self, event: str, **facts: str) -> Line:
        line: Line = {"event": event, **facts}
        os.write(self._file, self._encoded(line))
        os.fsync(self._file)
        self.lines.append(line)
        return line

    def text(self) -> bytes:
        return b"".join(map(self._encoded, self.lines))

    def close(self) -> None:
        os.close(self._file)

    @staticmethod
    def _encoded(line: Line) -> bytes:
        return json.dumps(line, ensure_ascii=False).encode() + b"\n"


ISSUE = "TMS_WAYBILL_GET"
LOOK_UP = "TMS_WAYBILL_QUERY"
CANCEL = "TMS_WAYBILL_DISCARD"
UPDATE = "TMS_WAYBILL_UPDATE"
DIGIT = "#"
OrderKey = tuple[str, str, str]


class WaybillBook:
    """Works on a journal; every # of the numbers' format is a digit of a running number."""

    def __init__(self, journal: Journal, numbers_format: str) -> None:
        self._journal = journal
        self._format = numbers_format
        self._issued = 0
        self._in_force: defaultdict[OrderKey, list[str]] = defaultdict(list)
        self._cancelled: set[tuple[OrderKey, str]] = set()
        for line in journal.lines:
            self._remember(line)

    def answer(self, message: Message) -> dict[str, Any]:
        """Does what a message asks for. What it changed is on disk when this returns."""
        if message.kind == ISSUE:
            return self._issue(message)
        if message.kind == LOOK_UP:
            return self._look_up(message)
        if message.kind == CANCEL:
            return self._cancel(message)
        if message.kind == UPDATE:
            return self._update(message)
        raise MessageError("S04", f"There is no message {message.kind}.", message.object_id)

    def refuse(self, message: Message, reason: str) -> dict[str, Any]:
        """Refuses, because a fault says so."""
        self._journal.write("refused", message=message.kind, reason=reason, **_order(message))
        return _no(message, "REFUSED", reason)

    def _issue(self, message: Message) -> dict[str, Any]:
        order, routing = _order(message), _routing(message)
        number = self._number(self._issued + 1)
        self._remember(self._journal.write("issued", number=number, **order))
        return _yes(message, number, routing)

    def _look_up(self, message: Message) -> dict[str, Any]:
        for number in self._in_force[_key(_order(message))]:
            return _yes(message, number, None)
        return _no(message, "WAYBILL_NOT_FOUND", "There is no waybill for this order.")

    def _cancel(self, message: Message) -> dict[str, Any]:
        number, order = str(message.content.get("waybillCode", "")), _order(message)
        if number in self._in_force[_key(order)]:
            self._remember(self._journal.write("cancelled", number=number, **order))
        elif (_key(order), number) not in self._cancelled:
            return _no(message, "NO_SUCH_WAYBILL", f"There is no waybill {number} of this order.")
        return _yes(message, number, None)

    def _update(self, message: Message) -> dict[str, Any]:
        number, order = str(message.content.get("waybillCode", "")), _order(message)
        routing = _routing(message)
        if number not in self._in_force[_key(order)]:
            return _no(message, "NO_SUCH_WAYBILL", f"There is no waybill {number} of this order.")
        self._journal.write("updated", number=number, **order)
        return _yes(message, number, routing)

    def _remember(self, line: Line) -> None:
        key = _key(line)
        if line["event"] == "issued":
            self._issued += 1
            self._in_force[key].append(line["number"])
        elif line["event"] == "cancelled":
            self._in_force[key].remove(line["number"])
            self._cancelled.add((key, line["number"]))

    def _number(self, running: int) -> str:
        digits = iter(str(running).zfill(self._format.count(DIGIT)))
        return "".join(next(digits) if each == DIGIT else each for each in self._format)


def _key(order: Line) -> OrderKey:
    return order["object_id"], order["owner_id"], order["order_sn"]


def _order(message: Message) -> dict[str, str]:
    """What an order is known by; nothing personal goes into the journal."""
    content = message.content
    orders = content.get("tradeOrderList")
    if not message.object_id or not isinstance(orders, list) or len(orders) != 1:
        raise MessageError("S12", "The order is not named.", message.object_id)
    return {
        "object_id": message.object_id,
        "owner_id": str(content.get("userId", "")),
        "order_sn": str(orders[0]),
    }


def _routing(message: Message) -> dict[str, Any]:
    try:
        parties = message.content
        to, origin = parties["recipient"]["address"], parties["sender"]["address"]
        return {
            "sortation": {"name": f"{to['province']}转运中心"},
            "consolidation": {"name": f"{to['city']}集散"},
            "origin": {"name": origin["city"]},
            "routeCode": f"{len(to['city'])}{len(to['district'])}0-01",
        }
    except (KeyError, TypeError):
        raise MessageError("S12", "The sender or recipient is amiss.", message.object_id) from None


def _yes(message: Message, number: str, routing: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "success": True,
        "objectId": message.object_id,
        "waybillCode": number,
        "routingInfo": routing,
    }


def _no(message: Message, code: str, words: str) -> dict[str, Any]:
    return {"success": False, "objectId": message.object_id, "errorCode": code, "errorMsg": words}
