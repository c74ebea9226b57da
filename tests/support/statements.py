"""The statements that a PostgreSQL server logged: the round trips that a call costs."""

import re
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple

import msgspec

from tests.support.postgresql import Server, run_on

_DEADLINE_S = 20
# Preparing a statement is a way of its own; binding its parameters goes along with running it.
_ASKED = re.compile(
    r"duration: [\d.]+ ms +(?:statement|parse [^:]*|execute [^:]*): (.*)", re.DOTALL
)
_BEGINS = re.compile(r"\s*(BEGIN|START)\b", re.IGNORECASE)
_ENDS = re.compile(r"\s*(COMMIT|ROLLBACK|END)\b", re.IGNORECASE)
_READS = re.compile(
    r"\s*(SELECT|WITH)\b(?!.*\b(INSERT|UPDATE|DELETE)\b)", re.DOTALL | re.IGNORECASE
)
# A function of the schema, which may change what it likes.
_CALLS_OURS = re.compile(r"\btollway_\w+\(")
# With this a node asks whether the server is still there; no call waits for it.
_HEARTBEAT = "tollway_listens"
_OURS = "tollway"
_numbers = count(1)


class Asked(NamedTuple):
    """What was asked meanwhile: to read outside of a transaction, and all the rest."""

    reads: list[str]
    others: list[str]


class Line(msgspec.Struct):
    message: str = ""
    pid: int = 0
    application_name: str = ""


class TellingServer(Server):
    """A server that writes down all that it is asked."""

    def __init__(self) -> None:
        super().__init__(
            logging_collector="on",
            log_destination="jsonlog",
            log_directory="statements",
            log_min_messages="log",
            log_min_duration_statement="0",
        )
        self._seen = 0

    def asked(self) -> Asked:
        """What nodes and commands asked since this was called before."""
        mark = f"mark {next(_numbers)}."
        run_on(self.url, f"SELECT '{mark}'")
        lines = self._lines_up_to(mark)
        new, self._seen = lines[self._seen :], len(lines)
        return _sorted_out(line for line in new if line.application_name == _OURS)

    def _lines_up_to(self, mark: str) -> list[Line]:
        """They are written down in their order, but a moment later."""
        deadline_s = monotonic() + _DEADLINE_S
        while True:
            lines = [
                msgspec.json.decode(text, type=Line)
                for file in sorted(Path(self._data, "statements").glob("*.json"))
                for text in file.read_bytes().splitlines(keepends=True)
                if text.endswith(b"\n")
            ]
            if any(mark in line.message for line in lines):
                return lines
            assert monotonic() < deadline_s, "the server wrote nothing down"
            sleep(0.01)


def _sorted_out(lines: Iterable[Line]) -> Asked:
    asked = Asked([], [])
    in_transaction: set[int] = set()
    for line in lines:
        found = _ASKED.match(line.message)
        if found is None or _HEARTBEAT in found[1]:
            continue
        if _BEGINS.match(found[1]):
            in_transaction.add(line.pid)
        is_alone = line.pid not in in_transaction
        is_read = is_alone and _READS.match(found[1]) and not _CALLS_OURS.search(found[1])
        (asked.reads if is_read else asked.others).append(found[1])
        if _ENDS.match(found[1]):
            in_transaction.discard(line.pid)
    return asked
