"""Structured logs: one JSON object a line on standard error.

The lines of calls are made in `calls.py`, because `logging` costs more than the rest of a call's
bookkeeping together; everything else goes through `logging`, in the same shape.
"""

import logging
from datetime import UTC, datetime

import msgspec

_encoder = msgspec.json.Encoder()


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "event": record.name,
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        request_id = getattr(record, "request_id", None)
        if request_id is not None:
            line["request_id"] = request_id
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return _encoder.encode(line).decode()


def configure_logging(level: str) -> None:
    """Sends every logger's lines to standard error as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # These log every step and request; the code that uses them logs the outcome.
    for name in ("alembic", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
