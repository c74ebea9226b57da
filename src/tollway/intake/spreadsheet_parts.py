"""The parts of an .xlsx file, read within limits: a small file can unpack to any size.

What a file says of its own sizes is not believed. Texts and styles are kept in memory, and share
one limit; of the sheet one row is in memory at a time, and each has its own.
"""

import io
from pathlib import Path
from types import TracebackType
from typing import IO, Any, cast
from zipfile import ZipFile, ZipInfo

from tollway.intake.raw_records import IntakeError

# All that is read before the first row: texts take up to ten times as much in memory.
_TEXTS_MAX_BYTES = 32 * 1024 * 1024
# A row with all its cells, as XML; also what a sheet may have after its last row.
_ROW_MAX_BYTES = 2 * 1024 * 1024
_SHEET_MAX_BYTES = 2 * 1024 * 1024 * 1024
# What a sheet can have: rows may be left out of the file, and are counted all the same.
_ROWS_MAX = 1_048_576
_CELLS_MAX = 50_000_000
_PIECE_BYTES = 65_536
# Entities of its own can make a text a hundred times as long as it is; no spreadsheet has any.
_ENTITY = b"<!ENTITY"


class Parts(ZipFile):
    """An .xlsx file whose parts are read within limits."""

    def __init__(self, path: Path, shown: str) -> None:
        super().__init__(path)
        self._shown = shown
        self._left = _TEXTS_MAX_BYTES
        self._sheet_left = _SHEET_MAX_BYTES
        self._rows = 0
        self._cells = 0

    def open(self, name: str | ZipInfo, *_: Any, **__: Any) -> IO[bytes]:
        return cast("IO[bytes]", _Part(super().open(name), self))

    def begin_row(self, cells: int = 0) -> None:
        """What follows is a row; the one before had so many cells."""
        self._left = _ROW_MAX_BYTES
        self._rows += 1
        self._cells += cells
        if self._rows > _ROWS_MAX + 1 or self._cells > _CELLS_MAX:
            raise self._too_large()

    def count(self, number: int) -> None:
        """So many bytes were unpacked."""
        self._left -= number
        if self._rows:
            self._sheet_left -= number
        if self._rows and self._left < 0:
            raise IntakeError(
                "{name} has a row that is too large, after line {line}: shorten it, or save the "
                "file as .csv.",
                name=self._shown,
                line=self._rows - 1,
            )
        if self._left < 0 or self._sheet_left < 0:
            raise self._too_large()

    def _too_large(self) -> IntakeError:
        return IntakeError(
            "{name} is too large for a spreadsheet: save it as .csv.", name=self._shown
        )


class _Part(io.RawIOBase):
    """A part, unpacked in small pieces: in one piece it would be in memory before it is counted."""

    def __init__(self, packed: IO[bytes], parts: Parts) -> None:
        super().__init__()
        self._packed = packed
        self._parts = parts
        self._before = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        most = _PIECE_BYTES if size is None or size < 0 else min(size, _PIECE_BYTES)
        found = bytearray()
        while piece := self._packed.read(most):
            self._parts.count(len(piece))
            self._refuse_entities(piece)
            if size is not None and size >= 0:
                return piece
            found += piece
        return bytes(found)

    def _refuse_entities(self, piece: bytes) -> None:
        # In UTF-16, every other byte is zero.
        text = self._before + piece.replace(b"\0", b"")
        if _ENTITY in text:
            raise ValueError("a spreadsheet declares entities")
        self._before = text[1 - len(_ENTITY) :]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._packed.close()
        super().__exit__(kind, error, trace)
