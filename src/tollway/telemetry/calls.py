"""The log line and the metrics of every call.

A call only leaves a record here. Several records are then processed together, in one tight loop:
one by one between calls, the same work takes three times as long. Not too many, because calls wait
meanwhile: under load, the records of 50 ms took the loop as long as twenty calls.
"""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache

from tollway.contract.reasons import Reason
from tollway.telemetry.logs import LogWriter
from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import NO_IDS, CallRecord, ClientIds

_REPORT_AFTER_S = 0.05
_TOGETHER_MAX = 64
# The position of the code in a record; it is 0 if the call succeeded.
_CODE = 4
# The reasons that arise before or during the lookup of a token, including its timeout: any client
# can cause thousands. All other calls without an account are failures of the gateway, which known
# callers meet too.
_UNAUTHENTICATED = frozenset(
    each.name
    for each in (
        Reason.CREDENTIAL_INVALID,
        Reason.PATH_UNKNOWN,
        Reason.METHOD_WRONG,
        Reason.BODY_UNREADABLE,
        Reason.TIMED_OUT,
    )
)


class CallRecorder:
    """Takes records, and logs and counts them a moment later."""

    def __init__(self, metrics: Metrics, log: LogWriter, which: str) -> None:
        self._metrics = metrics
        self._log = log
        # Which calls have a log line: all, failures or none.
        self._which = which
        self._waiting: list[CallRecord] = []
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        metrics.before_collecting = self.report
        metrics.log_lines_dropped = lambda: log.dropped

    def record(self, record: CallRecord) -> None:
        self._waiting.append(record)
        if len(self._waiting) >= _TOGETHER_MAX:
            self._count()
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_REPORT_AFTER_S, self._report_in_time)

    def _report_in_time(self) -> None:
        self._timer = None
        self.report()

    def report(self) -> None:
        """Counts and logs all that was recorded."""
        self._count()
        if self._lines:
            # In one write, because each wakes the writing thread.
            lines, self._lines = self._lines, []
            self._log.write("".join(lines))

    def _count(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._metrics.answered(waiting)
        if self._which == "failures":
            waiting = [record for record in waiting if record[_CODE]]
        if self._which != "none":
            self._lines += _lines(waiting, self._log)


def _lines(records: Iterable[CallRecord], log: LogWriter) -> list[str]:
    """The records as JSON. Every value is our own (ids, names from our tables, numbers) or a
    well-formed id of a client, so nothing needs escaping."""
    lines: list[str] = []
    began_s, beginning = -1.0, ""
    origin = log.origin
    for record in records:
        if not _has_line(record, log):
            continue
        at_s, request_id, operation, account_id, code, reason, charged, taken_s, client, *_ = record
        # Calls that arrive together have the same time.
        if at_s != began_s:
            at = _millisecond(int(at_s * 1000))
            began_s, beginning = at_s, f'{{"at":"{at}","event":"tollway.call",{origin},'
        who = _who(operation, account_id, code, reason, charged)
        lines.append(
            f'{beginning}"request_id":"{request_id}",{who},"msec":{taken_s * 1000:.3f}'
            f"{'' if client is NO_IDS else _client(client)}}}\n"
        )
    return lines


def _has_line(record: CallRecord, log: LogWriter) -> bool:
    """Whether a call has a line of its own; false for most of a flood. A known account can cause
    one by calls that do not count against its limit: those that end before they are admitted, and
    the requests of a batch, which counts once."""
    _, _, _, account_id, code, reason, *_, is_counted = record
    if account_id is None:
        return reason not in _UNAUTHENTICATED or log.logs_refused(reason)
    return is_counted or not code or log.logs_refused(f"{reason} of {account_id}")


def _client(client: ClientIds) -> str:
    request_id, traceparent = client.request_id, client.traceparent
    return (f',"client_request_id":"{request_id}"' if request_id else "") + (
        f',"traceparent":"{traceparent}"' if traceparent else ""
    )


@lru_cache(maxsize=4096)
def _who(operation: str, account_id: str | None, code: int, reason: str, charged: int) -> str:
    account = "null" if account_id is None else f'"{account_id}"'
    return (
        f'"operation":"{operation}","account":{account},"code":{code},'
        f'"reason":"{reason}","charged":{charged}'
    )


def _millisecond(at_ms: int) -> str:
    at_s, ms = divmod(at_ms, 1000)
    return f"{_second(at_s)}.{ms:03d}Z"


@lru_cache(maxsize=4)
def _second(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
