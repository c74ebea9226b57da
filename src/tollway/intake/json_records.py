"""Records as JSON: one object, or an array of them, with no digit lost.

A decoder written in C reads valid records. A lenient one reads what the first refuses, so that a
record is rejected for the field that is wrong, and its neighbours in an array are stored. While
either parses a value no other thread runs, so all calls wait: an array is read in pieces, and a
record has a limit.
"""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from typing import NamedTuple

import msgspec

from tollway.contract.json_limits import has_too_many_parts

_ITEM_MAX = 1_048_576
_PIECE_BYTES = 65_536


class NotJsonError(ValueError):
    """This is not JSON."""


class ArrayError(ValueError):
    """An array cannot be read to its end."""

    def __init__(self, items: int, line: int) -> None:
        super().__init__(f"after {items} records, at line {line}")
        self.items = items
        self.line = line


class JsonNumber:
    """The text of a number that no field accepts: with an exponent, too many decimals, or NaN."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Item(NamedTuple):
    """One item of an array as it is written, and the line on which it begins."""

    text: str
    line: int


_LENGTH_MAX = 20
_DIGITS_MAX = 400


def json_number(text: str) -> Decimal | int | JsonNumber:
    """A number that has a point or an exponent."""
    # The point must be the third or second character from the end: no exponent is that short.
    if len(text) > _LENGTH_MAX or text.find(".") < len(text) - 3:
        return JsonNumber(text)
    # Some programs write every whole number with .0.
    return int(text[:-2]) if text.endswith(".0") else Decimal(text)


def _whole_number(text: str) -> int | JsonNumber:
    return int(text) if len(text) <= _DIGITS_MAX else JsonNumber(text)


_decoder = msgspec.json.Decoder(float_hook=json_number)
_lenient = json.JSONDecoder(
    parse_float=json_number, parse_int=_whole_number, parse_constant=JsonNumber
)


def read_json(raw: bytes) -> object:
    """One JSON value; raises NotJsonError.

    Its texts may contain half of a surrogate pair, which also stands for a byte that is not UTF-8.
    """
    try:
        return _decoder.decode(raw)
    except (ValueError, RecursionError):
        pass
    try:
        return _lenient.decode(as_text(raw))
    except (ValueError, RecursionError):
        raise NotJsonError from None


def is_too_large(raw: bytes) -> bool:
    """Whether this is larger than any record, so that parsing it may take seconds."""
    return len(raw) > _ITEM_MAX or has_too_many_parts(raw)


def as_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_raw_items = msgspec.json.Decoder(list[msgspec.Raw])
_raw_item = msgspec.json.Decoder(msgspec.Raw)


def is_one_value(raw: bytes) -> bool:
    """Whether this is a single JSON value, not one per line."""
    if is_too_large(raw):
        return False
    try:
        _raw_item.decode(raw)
    except (ValueError, RecursionError):
        pass
    else:
        return True
    text = as_text(raw).strip()
    try:
        return _scanner.raw_decode(text)[1] == len(text)
    except (ValueError, RecursionError):
        return False


def items_of(raw: bytes) -> Iterator[bytes]:
    """The items of an array; may raise ArrayError after some of them."""
    start = at = raw.index(b"[") + 1
    while True:
        is_last = len(raw) - at <= _PIECE_BYTES
        # If this is not between two items, what is before it is no whole array.
        end = len(raw) if is_last else raw.rfind(b"},", at, at + _PIECE_BYTES) + 1
        items = _whole_items(b"[%b%b" % (raw[at:end], b"" if is_last else b"]"))
        if not items:
            break
        yield from items
        if is_last:
            return
        at = end + 1
    # After a comma there must be another item: the 0 stands for those before it.
    head, known = ("[", 0) if at == start else ("[0,", 1)
    text = head + as_text(raw[at:])
    pieces = (text[each : each + _PIECE_BYTES] for each in range(0, len(text), _PIECE_BYTES))
    for item in islice(split_array(pieces), known, None):
        yield as_bytes(item.text)


def _whole_items(raw: bytes) -> list[bytes]:
    """The items of an array; none if the fast decoder cannot read it."""
    try:
        return list(map(bytes, _raw_items.decode(raw)))
    except (ValueError, RecursionError):
        return []


_space = re.compile(r"[ \t\n\r]*")
# Finds where a value ends, whatever its texts contain.
_scanner = json.JSONDecoder(strict=False, parse_float=str, parse_int=str, parse_constant=str)


def split_array(pieces: Iterator[str]) -> Iterator[Item]:
    """The items of an array that comes in pieces; raises ArrayError where it cannot go on."""
    reader = _PieceReader(pieces)
    if reader.take() != "[":
        raise reader.error()
    if reader.peek() == "]":
        reader.take()
    else:
        while True:
            yield reader.item()
            delimiter = reader.take()
            if delimiter == "]":
                break
            if delimiter != ",":
                raise reader.error()
    if reader.peek():
        raise reader.error()


class _PieceReader:
    """Reads text in pieces, and keeps only what is not yet consumed in memory."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._text = ""
        self._at = 0
        self._line = 1
        self._items = 0

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            self._go_to(_end_of_space(self._text, self._at))
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_more():
                return ""

    def take(self) -> str:
        character = self.peek()
        self._at += len(character)
        return character

    def item(self) -> Item:
        """The next value. It is complete only if something follows it: a number may go on."""
        self.peek()
        while True:
            end = self._end_of_value()
            if end is not None and _end_of_space(self._text, end) < len(self._text):
                found = Item(self._text[self._at : end], self._line)
                self._go_to(end)
                self._items += 1
                return found
            if is_too_large(as_bytes(self._text[self._at :])) or not self._read_more():
                raise self.error()

    def error(self) -> ArrayError:
        return ArrayError(self._items, self._line)

    def _end_of_value(self) -> int | None:
        try:
            return _scanner.raw_decode(self._text, self._at)[1]
        except ValueError:
            return None
        except RecursionError:
            raise self.error() from None

    def _go_to(self, position: int) -> None:
        self._line += self._text.count("\n", self._at, position)
        self._at = position

    def _read_more(self) -> bool:
        piece = next(self._pieces, "")
        self._text = self._text[self._at :] + piece
        self._at = 0
        return bool(piece)


def _end_of_space(text: str, start: int) -> int:
    found = _space.match(text, start)
    assert found is not None, "it matches nothing too"
    return found.end()
