"""Text files in the encodings that people's programs write, read as UTF-8.

A byte order mark tells UTF-16 and UTF-8. What is not UTF-8 is GB18030, of which GBK and GB2312 are
parts, if it is that: this is decided once for a file, by the first piece that is not plain ASCII. A
character that cannot be read becomes bytes that are not UTF-8, so that only its record is rejected.
"""

import codecs
import io
from typing import BinaryIO, cast

PIECE_BYTES = 262_144
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# Of the characters beyond ASCII, one in so many may be wrong.
_WRONG_ONE_IN = 10


def as_utf8(content: BinaryIO) -> BinaryIO:
    """The same text, in UTF-8 and without a byte order mark."""
    return cast(BinaryIO, io.BufferedReader(_Utf8(content), PIECE_BYTES))


class _Utf8(io.RawIOBase):
    def __init__(self, content: BinaryIO) -> None:
        self._content = content
        self._ready = b""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._is_decided = False
        self._is_ended = False
        self._begin()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready and not self._is_ended:
            self._ready = self._next_piece()
        taken = self._ready[: len(buffer)]
        buffer[: len(taken)] = taken
        self._ready = self._ready[len(taken) :]
        return len(taken)

    def _begin(self) -> None:
        start = self._content.read(PIECE_BYTES)
        mark = next((mark for mark in _MARKS if start.startswith(mark)), b"")
        if mark:
            self._decide(_MARKS[mark])
        elif len(start) > 1 and 0 in start[:2]:
            # Records begin with a name of ASCII letters, or with a bracket.
            self._decide("utf-16-be" if start[0] == 0 else "utf-16-le")
        self._ready = self._decoded(start[len(mark) :])

    def _next_piece(self) -> bytes:
        piece = self._content.read(PIECE_BYTES)
        self._is_ended = not piece
        return self._decoded(piece)

    def _decoded(self, piece: bytes) -> bytes:
        if not self._is_decided and not piece.isascii():
            self._decide("utf-8" if _is_utf8(piece) else "gb18030")
        if self._decoder is None:
            return piece
        try:
            text = self._decoder.decode(piece, final=not piece)
        except UnicodeDecodeError:
            # The file ends within a character.
            return b"\xff"
        return text.encode("utf-8", "surrogatepass")

    def _decide(self, encoding: str) -> None:
        self._is_decided = True
        if encoding != "utf-8":
            errors = "surrogateescape" if encoding == "gb18030" else "surrogatepass"
            self._decoder = codecs.getincrementaldecoder(encoding)(errors)


def _is_utf8(piece: bytes) -> bool:
    """Whether this is rather UTF-8, if with mistakes, than GB18030."""
    beyond, wrong = _beyond_ascii(piece, "utf-8")
    if wrong * _WRONG_ONE_IN <= beyond:
        return True
    beyond, wrong = _beyond_ascii(piece, "gb18030")
    return wrong * _WRONG_ONE_IN > beyond


def _beyond_ascii(piece: bytes, encoding: str) -> tuple[int, int]:
    """How many characters beyond ASCII there are, and how many of them are wrong."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(piece)
    return sum(not character.isascii() for character in text), text.count("\ufffd")
