"""Structured logs: one JSON object per line on standard error.

A thread writes them from a bounded queue: if standard error is full or nothing reads it, that must
not stop the gateway. Lines that do not fit are dropped, counted, and reported later. `calls.py`
makes the lines of calls, because `logging` costs more than all the rest of a call's telemetry;
everything else goes through `logging`, in the same format.
"""

import atexit
import errno
import io
import logging
import os
import socket
import sys
import threading
from collections import Counter, deque
from datetime import UTC, datetime
from time import monotonic
from typing import Any, BinaryIO, TextIO, cast

import msgspec

_QUEUE_MAX_CHARACTERS = 1_048_576
_FLUSH_MAX_S = 2.0
# Per kind of refused request. A client, with a free token or none, can be refused thousands of
# times a second: with a line for each, the log would grow by 300 GB a day.
_LINES_A_SECOND = 20
_COUNT_INTERVAL_S = 1.0
_encoder = msgspec.json.Encoder()


class LogWriter:
    """Writes lines to a stream from a thread of its own; each names the process it is from."""

    def __init__(self, stream: TextIO, node: str = "", worker: int = 0) -> None:
        self._stream = stream
        self._origin: dict[str, object] = {"node": node, "worker": worker}
        # The same as JSON, for lines that are assembled as text.
        self.origin = _encoder.encode(self._origin).decode()[1:-1]
        self._changed = threading.Condition()
        self._queue: deque[str] = deque()
        # How many characters are queued or being written.
        self._size = 0
        self._unreported = 0
        self.dropped = 0
        # Refused requests by kind, in the second that began at `_counted_since_s`.
        self._refused: Counter[str] = Counter()
        self._counted_since_s = monotonic()
        threading.Thread(target=self._run, name="log-writer", daemon=True).start()

    def write(self, lines: str) -> None:
        """Queues whole lines; drops them if the queue is full."""
        with self._changed:
            if self._size + len(lines) > _QUEUE_MAX_CHARACTERS:
                self._unreported += lines.count("\n")
                self.dropped += lines.count("\n")
                return
            self._size += len(lines)
            self._queue.append(lines)
            self._changed.notify_all()

    def write_entry(self, event: str, **fields: object) -> None:
        """Queues one line."""
        self.write(self._line(event, **fields))

    def logs_refused(self, kind: str) -> bool:
        """Counts a refused request of a kind that can come in floods; returns whether it gets a
        line."""
        if monotonic() - self._counted_since_s >= _COUNT_INTERVAL_S:
            self.report_refused()
        self._refused[kind] += 1
        return self._refused[kind] <= _LINES_A_SECOND

    def report_refused(self, after_s: float = _COUNT_INTERVAL_S) -> None:
        """Writes how many requests got no line in the last second, once it is over. Call it from
        the thread that counts, and regularly: after a flood no other may come."""
        now_s = monotonic()
        if now_s - self._counted_since_s < after_s:
            return
        counted, self._refused, self._counted_since_s = self._refused, Counter(), now_s
        left_out = {
            kind: number - _LINES_A_SECOND
            for kind, number in counted.items()
            if number > _LINES_A_SECOND
        }
        if left_out:
            kinds = ", ".join(f"{kind} {number}" for kind, number in left_out.items())
            message = (
                f"{sum(left_out.values())} more refused requests have no line of their own "
                f"({kinds})"
            )
            self.write_entry("tollway.log", level="warning", message=message)

    def flush(self, timeout_s: float = _FLUSH_MAX_S) -> None:
        """Waits until everything is written, for a bounded time."""
        self.report_refused(after_s=0)
        with self._changed:
            self._changed.wait_for(lambda: self._size == 0, timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue)
                lines, size = "".join(self._queue), self._size
                self._queue.clear()
                reported, self._unreported = self._unreported, 0
            is_written = self._put(lines, reported)
            with self._changed:
                if not is_written:
                    self._unreported += reported + lines.count("\n")
                    self.dropped += lines.count("\n")
                self._size -= size
                self._changed.notify_all()

    def _put(self, lines: str, reported: int) -> bool:
        """Writes lines, and how many were dropped before. If the log cannot be written, as on a
        full disk, nothing else must fail."""
        if reported:
            message = f"{reported} log lines were dropped because standard error took no more"
            lines += self._line("tollway.log", level="warning", message=message)
        try:
            self._stream.write(lines)
            self._stream.flush()
        except (OSError, ValueError):
            return False
        return True

    def _line(self, event: str, **fields: object) -> str:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"at": at, "event": event, **self._origin, **fields}
        return _encoder.encode(line).decode() + "\n"


class _JsonHandler(logging.Handler):
    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(record)
        except Exception as error:
            # Values that do not fit the message, or a text that cannot be encoded: an error in
            # logging must not become an error of the code that logs.
            level, message = record.levelname.lower(), f"{record.msg!a}, not logged: {error!a}"
            self._writer.write_entry(record.name, level=level, message=message)

    def _write(self, record: logging.LogRecord) -> None:
        more: dict[str, object] = {}
        request_id = getattr(record, "request_id", None)
        if request_id is not None:
            more["request_id"] = request_id
        if record.exc_info:
            more["trace"] = logging.Formatter().formatException(record.exc_info)
        level, message = record.levelname.lower(), record.getMessage()
        self._writer.write_entry(record.name, level=level, message=message, **more)


def node_name(port: int) -> str:
    """The name of this gateway in logs and in the list of serving nodes."""
    return f"{socket.gethostname()}:{port}"


class _Unbuffered(io.FileIO):
    """Does not buffer what it could not write: that counts as dropped."""

    def write(self, data: Any) -> int:
        left = memoryview(data)
        while left:
            written = super().write(left)
            if written is None:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            left = left[written:]
        return len(data)


def _own_stderr() -> TextIO:
    """Standard error, but not `sys.stderr` itself: that has a lock, and a process that is forked
    while the thread holds it would deadlock."""
    stream = _Unbuffered(sys.stderr.fileno(), "w", closefd=False)
    return io.TextIOWrapper(cast(BinaryIO, stream), encoding="utf-8", write_through=True)


def configure_logging(level: str, port: int, worker: int = 0) -> LogWriter:
    """Sends every logger's lines to standard error as JSON. Called once in every process, because
    a thread does not survive a fork. Worker 0 is the main process."""
    writer = LogWriter(_own_stderr(), node_name(port), worker)
    atexit.register(writer.flush)
    root = logging.getLogger()
    root.handlers[:] = [_JsonHandler(writer)]
    root.setLevel(level.upper())
    # These log every step and request; the code that uses them logs the outcome.
    for name in ("alembic", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # Its warnings are of messages that are wrong: a line for each that an agent likes to send.
    logging.getLogger("mcp").setLevel(logging.ERROR)
    return writer
