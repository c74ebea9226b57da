"""The log line and the metrics of every call.

A call only leaves a record here. The records of a moment are then processed together, in one tight
loop: done one by one between calls, the same work takes three times as long.
"""

import asyncio
from datetime import UTC, datetime
from functools import lru_cache

import msgspec

from tollway.telemetry.logs import LogWriter
from tollway.telemetry.metrics import Metrics
from tollway.telemetry.requests import NO_IDS, ClientIds

_REPORT_AFTER_S = 0.05


class CallRecord(msgspec.Struct, frozen=True, gc=False):
    """The outcome of one call: no token, no parameters, no content."""

    at_s: float
    request_id: str
    operation: str
    account_id: str | None
    code: int
    reason: str
    charged: int
    elapsed_s: float
    client: ClientIds


class CallRecorder:
    """Takes records, and logs and counts them a moment later."""

    def __init__(self, metrics: Metrics, log: LogWriter, which: str) -> None:
        self._metrics = metrics
        self._log = log
        self._which = which
        self._waiting: list[CallRecord] = []
        metrics.before_collecting = self.report
        metrics.log_lines_dropped = lambda: log.dropped

    def record(self, record: CallRecord) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_later(_REPORT_AFTER_S, self.report)
        self._waiting.append(record)

    def report(self) -> None:
        waiting, self._waiting = self._waiting, []
        for record in waiting:
            self._metrics.answered(record.operation, record.code, record.reason, record.elapsed_s)
        if self._which != "none":
            is_logged = self._which == "all"
            origin = self._log.origin
            lines = [_line(record, origin) for record in waiting if is_logged or record.code]
            if lines:
                self._log.write("".join(lines))


def _line(record: CallRecord, origin: str) -> str:
    """The record as JSON. Every value is of our own making (ids, names from our tables, numbers),
    or a client's id that is well-formed, so there is nothing to escape."""
    whole_s = int(record.at_s)
    who = _who(record.operation, record.account_id, record.code, record.reason, record.charged)
    return (
        f'{{"at":"{_second(whole_s)}.{int((record.at_s - whole_s) * 1000):03d}Z",'
        f'"event":"tollway.call",{origin},"request_id":"{record.request_id}",{who},'
        f'"msec":{record.elapsed_s * 1000:.3f}{_client(record.client)}}}\n'
    )


def _client(client: ClientIds) -> str:
    if client is NO_IDS:
        return ""
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


@lru_cache(maxsize=4)
def _second(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
