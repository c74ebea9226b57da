"""What the carrier has done: one JSON object per line, on disk before the carrier answers.

It is read back at the start, so a carrier that was killed continues where it was.
"""

import json
import os
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Journal:
    """An append-only file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        whole, _, torn = path.read_bytes().rpartition(b"\n")
        if torn:
            # The carrier was killed during a write, and has not answered that message.
            os.truncate(self._file, len(whole) + 1 if whole else 0)
        self.lines: list[Line] = [json.loads(line) for line in whole.splitlines()]

    def write(self, event: str, **facts: str) -> Line:
        line: Line = {"event": event, **facts}
        os.write(self._file, self._encoded(line))
        os.fsync(self._file)
        self.lines.append(line)
        return line

    def text(self) -> bytes:
        return b"".join(map(self._encoded, self.lines))

    def close(self) -> None:
        os.close(self._file)

    @staticmethod
    def _encoded(line: Line) -> bytes:
        return json.dumps(line, ensure_ascii=False).encode() + b"\n"
