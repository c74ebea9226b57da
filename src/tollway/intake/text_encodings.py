"""Text files in the encodings that people's programs write, read as UTF-8.

A byte order mark names UTF-16 or UTF-8. Without one, the first piece that is not ASCII decides for
the whole file between UTF-8 and GB18030, which includes GBK and GB2312. A character that cannot
be decoded becomes bytes that are not UTF-8, so that only its record is rejected.
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
# At most one in so many non-ASCII characters may be undecodable.
_UNDECODABLE_ONE_IN = 10


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
            piece = self._content.read(PIECE_BYTES)
            self._is_ended = not piece
            self._ready = self._decoded(piece)
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

    def _decoded(self, piece: bytes) -> bytes:
        if not self._is_decided and not piece.isascii():
            # The first such character may be cut off at the end of the piece.
            piece += self._content.read(PIECE_BYTES)
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
    """Whether this is more likely UTF-8, perhaps with mistakes, than GB18030."""
    non_ascii, undecodable = _count_non_ascii(piece, "utf-8")
    if undecodable * _UNDECODABLE_ONE_IN <= non_ascii:
        return True
    non_ascii, undecodable = _count_non_ascii(piece, "gb18030")
    return undecodable * _UNDECODABLE_ONE_IN > non_ascii


def _count_non_ascii(piece: bytes, encoding: str) -> tuple[int, int]:
    """How many non-ASCII characters there are, and how many of them could not be decoded."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(piece)
    return len(text) - len(text.encode("ascii", "ignore")), text.count("\ufffd")
