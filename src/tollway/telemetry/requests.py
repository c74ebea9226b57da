"""The ids of a request, ours and those that the client sent, and the log lines of pushes and
token requests. `calls.py` makes the lines of calls.

What a client sends is logged only if it is well-formed, so that it needs no escaping and cannot
forge a line.
"""

import os
import re
from collections.abc import Mapping

import msgspec

from tollway.telemetry.logs import LogWriter

ID_HEADER = b"x-request-id"
TRACE_HEADER = b"traceparent"
CLIENT_ID_HEADER = b"x-client-request-id"
# The key of a request's context in its ASGI scope.
CONTEXT = "tollway.request"

_CLIENT_ID = re.compile(rb"[A-Za-z0-9_-]{8,64}")
# W3C Trace Context: version, trace, parent, flags; neither id may be all zeros.
_TRACE = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def new_request_id(at_s: float) -> str:
    """An id that begins with the time, so that the index over the ids grows at one end.

    The rest is random: a sequential number would show every caller how many calls the others make.
    """
    return new_request_ids(at_s, 1)[0]


def new_request_ids(at_s: float, count: int) -> list[str]:
    """Ids of requests that arrived together, in order: each a microsecond after the one before."""
    while len(_digits) < count:
        _draw()
    first, take = _TIME_BASE + int(at_s * 1_000_000), _digits.pop
    return [hex(at)[3:] + take() for at in range(first, first + count)]


# Random digits for the next ids: one system call for many ids costs less than one for each.
_digits: list[str] = []
_DIGITS, _DRAWN_AT_ONCE = 13, 512
# One digit longer than the time, so that leading zeros are kept.
_TIME_BASE = 16**13
# A forked child must not use the ids of its parent.
os.register_at_fork(after_in_child=_digits.clear)


def _draw() -> None:
    drawn = os.urandom(_DIGITS * _DRAWN_AT_ONCE // 2).hex()
    _digits.extend([drawn[at : at + _DIGITS] for at in range(0, len(drawn), _DIGITS)])


class ClientIds(msgspec.Struct, frozen=True, gc=False):
    """The ids that a client gave its request; empty if it sent no well-formed one."""

    request_id: str = ""
    traceparent: str = ""


NO_IDS = ClientIds()


# The outcome of one call, without its token, parameters or content: when it began in seconds, its
# id, operation, account, code, reason, what it was charged, how long it took in seconds, the
# client's ids, whether it was one of the sandbox, and whether it counts against the limit of its
# account. Creating a plain tuple takes a third of the time of anything else.
CallRecord = tuple[float, str, str, str | None, int, str, int, float, ClientIds, bool, bool]


def read_client_ids(headers: Mapping[bytes, bytes]) -> ClientIds:
    request_id, traceparent = headers.get(ID_HEADER), headers.get(TRACE_HEADER)
    if request_id is None and traceparent is None:
        return NO_IDS
    return ClientIds(_matching(_CLIENT_ID, request_id), _matching(_TRACE, traceparent))


def _matching(pattern: re.Pattern[bytes], value: bytes | None) -> str:
    return value.decode("ascii") if value is not None and pattern.fullmatch(value) else ""


class RequestContext(msgspec.Struct, frozen=True):
    """What is known of a request before it is read: its id, the client's ids, and the address that
    it counts for."""

    request_id: str
    client: ClientIds
    address: str

    @property
    def fields(self) -> dict[str, object]:
        """The fields to log, without what the client did not send."""
        sent = {"client_request_id": self.client.request_id, "traceparent": self.client.traceparent}
        return {
            "request_id": self.request_id,
            **{name: value for name, value in sent.items() if value},
        }


class RequestLog:
    """Writes a line for all requests, for failures or for none, as the setting for calls says."""

    def __init__(self, log: LogWriter, which: str) -> None:
        self._log = log
        self._which = which

    def write(
        self,
        event: str,
        context: RequestContext,
        *,
        is_failure: bool,
        is_unauthenticated: bool,
        sender: str | None = None,
        **fields: object,
    ) -> None:
        """A request is unauthenticated if its sender is unknown. Failures of these have a limited
        number of lines, and so have those that a known sender causes, if it is named."""
        is_logged = self._which == "all" or (self._which == "failures" and is_failure)
        kind = event if is_unauthenticated else f"{event} of {sender}" if sender else None
        if is_logged and not (is_failure and kind and not self._log.logs_refused(kind)):
            self._log.write_entry(event, **context.fields, **fields)
