"""The lines of an export's file, taken from the pieces that arrive of it."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tollway_client import errors

T = TypeVar("T")
FILE_TYPE = "application/gzip"
_GZIP_BITS = 16 + zlib.MAX_WBITS


@dataclass(frozen=True)
class Page(Generic[T]):
    """Records to give to the caller."""

    records: Sequence[T]


class Lines:
    """Unpacks a file of gzip JSON Lines, and cuts it into lines."""

    def __init__(self) -> None:
        self._unpacker = zlib.decompressobj(_GZIP_BITS)
        self._rest = b""

    @property
    def is_whole(self) -> bool:
        """Whether the end of the file has arrived, which one that broke off does not have."""
        return self._unpacker.eof

    def add(self, piece: Any) -> "list[bytes]":
        """The lines that are whole with this piece; raises TransportError if no more comes."""
        if not isinstance(piece, bytes) or not piece:
            raise errors.TransportError("The file broke off.")
        try:
            *lines, self._rest = (self._rest + self._unpacker.decompress(piece)).split(b"\n")
        except zlib.error as error:
            raise errors.TransportError("The file was damaged on its way.") from error
        return lines
