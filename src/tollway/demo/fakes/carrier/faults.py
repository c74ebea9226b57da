"""How the carrier misbehaves, and the paths that control it.

Faults are a list, of which the first that fits a message applies. `/control` shows and changes the
list, `/journal` returns what the carrier has done.
"""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, NamedTuple

from tollway.demo.fakes.carrier.waybill_book import Journal


class FaultError(Exception):
    """An invalid fault; the text is one sentence."""


class Kind(Enum):
    """Where things go wrong; "commit" is the moment at which the journal has it."""

    DELAY = "delay"
    STALL_BEFORE_COMMIT = "stall_before_commit"
    STALL_AFTER_COMMIT = "stall_after_commit"
    CUT_BEFORE_COMMIT = "cut_before_commit"
    CUT_AFTER_COMMIT = "cut_after_commit"
    CUT_IN_ANSWER = "cut_in_answer"
    REFUSE = "refuse"
    GARBAGE = "garbage"
    WRONG_DIGEST = "wrong_digest"


@dataclass
class Fault:
    """One fault; without `message` it is for all, without `times` for good. `delay_ms` passes
    before the commit, whatever the fault is."""

    kind: Kind
    message: str | None = None
    times: int | None = None
    delay_ms: int = 0
    reason: str = "The carrier refuses."


class Faults:
    """The faults in force, in the order in which they were set."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(self, wanted: Any) -> None:
        """Adds the fault of a JSON object; `{"fault": "none"}` ends all of them."""
        if wanted == {"fault": "none"}:
            self._faults.clear()
        else:
            self._faults.append(_fault(wanted))

    def next(self, message: str) -> Fault | None:
        """The fault for a message, which is used up by it if it was the last time."""
        for fault in self._faults:
            if fault.message in (None, message):
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self._faults.remove(fault)
                return fault
        return None

    def shown(self) -> list[dict[str, Any]]:
        return [
            {"fault": fault.kind.value, **{k: v for k, v in asdict(fault).items() if k != "kind"}}
            for fault in self._faults
        ]


_FIELDS: dict[str, type] = {
    "fault": str,
    "message": str,
    "times": int,
    "delay_ms": int,
    "reason": str,
}


def _fault(wanted: Any) -> Fault:
    if not isinstance(wanted, dict) or not wanted.keys() <= _FIELDS.keys():
        raise FaultError(f"A fault is a JSON object with the fields {', '.join(_FIELDS)}.")
    for name, value in wanted.items():
        if type(value) is not _FIELDS[name] or (isinstance(value, int) and value < 0):
            raise FaultError(f"The field {name} cannot be {value!r}.")
    try:
        kind = Kind(wanted.get("fault"))
    except ValueError:
        known = ", ".join(each.value for each in Kind)
        raise FaultError(f"The fault is one of {known}; none ends all of them.") from None
    return Fault(kind, **{name: value for name, value in wanted.items() if name != "fault"})


class Reply(NamedTuple):
    status: int
    content_type: str
    body: bytes


def answer_control(
    faults: Faults, journal: Journal, received: Counter[str], method: str, path: str, body: bytes
) -> Reply:
    if path == "/journal":
        return Reply(200, "application/x-ndjson", journal.text())
    if method == "POST":
        try:
            faults.add(json.loads(body))
        except (FaultError, ValueError) as error:
            return Reply(400, "text/plain; charset=utf-8", f"{error}\n".encode())
    # How many messages arrived, including those that had no effect.
    shown = {"faults": faults.shown(), "received": dict(received)}
    return Reply(200, "application/json", json.dumps(shown, ensure_ascii=False).encode())
