"""The ids of a request, ours and those that the client sent, and the log lines of pushes and
requests for a token. The lines of calls are made in `calls.py`.

What a client sends is logged only if it is well-formed, so that it needs no escaping and no line
can be forged with it.
"""

import os
import re
from collections.abc import Mapping

import msgspec

from tollway.telemetry.logs import LogWriter

ID_HEADER = b"x-request-id"
TRACE_HEADER = b"traceparent"
CLIENT_ID_HEADER = b"x-client-request-id"
# Where a request's context is in its ASGI scope.
CONTEXT = "tollway.request"

_CLIENT_ID = re.compile(rb"[A-Za-z0-9_-]{8,64}")
# W3C Trace Context: version, trace, parent, flags; neither id may be all zeros.
_TRACE = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def new_request_id(at_s: float) -> str:
    """An id that begins with the time, so that the index over the ids grows at one end.

    The rest is random: a number that grows by one would tell every caller how many calls the others
    make.
    """
    return new_request_ids(at_s, 1)[0]


def new_request_ids(at_s: float, count: int) -> list[str]:
    """Ids of requests that came together, in their order: each a microsecond after the other."""
    while len(_digits) < count:
        _draw()
    first, take = _TIME_BASE + int(at_s * 1_000_000), _digits.pop
    return [hex(at)[3:] + take() for at in range(first, first + count)]


# Random digits for the next ids: one read of the system for many costs less than a read for each.
_digits: list[str] = []
_DIGITS, _DRAWN_AT_ONCE = 13, 512
# One digit more than the time has: so it keeps the zeros that it begins with.
_TIME_BASE = 16**13
# A child must not have the ids of its parent.
os.register_at_fork(after_in_child=_digits.clear)


def _draw() -> None:
    drawn = os.urandom(_DIGITS * _DRAWN_AT_ONCE // 2).hex()
    _digits.extend([drawn[at : at + _DIGITS] for at in range(0, len(drawn), _DIGITS)])


class ClientIds(msgspec.Struct, frozen=True, gc=False):
    """What a client names its request by; empty if it sent nothing that is well-formed."""

    request_id: str = ""
    traceparent: str = ""


NO_IDS = ClientIds()


# The outcome of one call, which has no token, no parameters and no content: when it began in
# seconds, its id, operation, account, code, reason, what it was charged, how long it took in
# seconds, and what its client names it by. A plain tuple is made in a third of the time of others.
CallRecord = tuple[float, str, str, str | None, int, str, int, float, ClientIds]


def read_client_ids(headers: Mapping[bytes, bytes]) -> ClientIds:
    request_id, traceparent = headers.get(ID_HEADER), headers.get(TRACE_HEADER)
    if request_id is None and traceparent is None:
        return NO_IDS
    return ClientIds(_matching(_CLIENT_ID, request_id), _matching(_TRACE, traceparent))


def _matching(pattern: re.Pattern[bytes], value: bytes | None) -> str:
    return value.decode("ascii") if value is not None and pattern.fullmatch(value) else ""


class RequestContext(msgspec.Struct, frozen=True):
    """What is known of a request before it is read: its id, what the client names it by, and the
    address that it is counted under."""

    request_id: str
    client: ClientIds
    address: str

    @property
    def fields(self) -> dict[str, object]:
        """As they are logged; what the client did not send is left out."""
        sent = {"client_request_id": self.client.request_id, "traceparent": self.client.traceparent}
        return {
            "request_id": self.request_id,
            **{name: value for name, value in sent.items() if value},
        }


class RequestLog:
    """Writes a line for each request that failed, for each at all, or none: as for calls."""

    def __init__(self, log: LogWriter, which: str) -> None:
        self._log = log
        self._which = which

    def write(
        self,
        event: str,
        context: RequestContext,
        *,
        is_failure: bool,
        is_strange: bool,
        **fields: object,
    ) -> None:
        """One is strange if its sender is not known."""
        is_logged = self._which == "all" or (self._which == "failures" and is_failure)
        if is_logged and not (is_strange and not self._log.takes_strange(event)):
            self._log.write_entry(event, **context.fields, **fields)
