"""Outside the LINK form: `/control` sets faults, `/journal` tells what was done."""

import json
from collections import Counter
from typing import NamedTuple

from tollway.fakes.carrier.faults import FaultError, Faults
from tollway.fakes.carrier.journal import Journal


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
    # How many messages came, with those that nothing became of.
    told = {"faults": faults.shown(), "received": dict(received)}
    return Reply(200, "application/json", json.dumps(told, ensure_ascii=False).encode())
