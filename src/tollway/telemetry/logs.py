"""Structured logs: one JSON object a line on standard error.

A thread writes them, from a queue with a limit: a standard error that is full or that no program
reads must not stop the gateway. Lines beyond the limit are dropped, counted, and reported later.
The lines of calls are made in `calls.py`, because `logging` costs more than the rest of a call's
telemetry together; everything else goes through `logging`, in the same shape.
"""

import atexit
import logging
import sys
import threading
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO

import msgspec

_QUEUE_MAX_CHARACTERS = 1_048_576
_FLUSH_MAX_S = 2.0
_encoder = msgspec.json.Encoder()


class LogWriter:
    """Writes lines to a stream from a thread of its own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._changed = threading.Condition()
        self._queue: deque[str] = deque()
        # What is queued or being written, in characters.
        self._size = 0
        self._unreported = 0
        self.dropped = 0
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

    def flush(self, timeout_s: float = _FLUSH_MAX_S) -> None:
        """Waits until everything queued is written, for a bounded time."""
        with self._changed:
            self._changed.wait_for(lambda: self._size == 0, timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue)
                lines, size = "".join(self._queue), self._size
                self._queue.clear()
                if self._unreported:
                    lines += _line("tollway.log", "warning", _dropped(self._unreported))
                    self._unreported = 0
            # A log that cannot be written, as on a full disk, must not end anything else.
            with suppress(OSError, ValueError):
                self._stream.write(lines)
                self._stream.flush()
            with self._changed:
                self._size -= size
                self._changed.notify_all()


def _dropped(lines: int) -> str:
    return f"{lines} log lines were dropped because standard error took no more"


def _line(event: str, level: str, message: str, **more: object) -> str:
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = {"at": at, "event": event, "level": level, "message": message, **more}
    return _encoder.encode(line).decode() + "\n"


class _JsonHandler(logging.Handler):
    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        more: dict[str, object] = {}
        request_id = getattr(record, "request_id", None)
        if request_id is not None:
            more["request_id"] = request_id
        if record.exc_info:
            more["trace"] = logging.Formatter().formatException(record.exc_info)
        message = record.getMessage()
        self._writer.write(_line(record.name, record.levelname.lower(), message, **more))


def configure_logging(level: str) -> LogWriter:
    """Sends every logger's lines to standard error as JSON. Called once in every process, because
    a thread does not survive a fork."""
    writer = LogWriter(sys.stderr)
    atexit.register(writer.flush)
    root = logging.getLogger()
    root.handlers[:] = [_JsonHandler(writer)]
    root.setLevel(level.upper())
    # These log every step and request; the code that uses them logs the outcome.
    for name in ("alembic", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return writer
