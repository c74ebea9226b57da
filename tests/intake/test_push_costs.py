"""Reading a push takes a moment, whatever is in it: while a value is parsed, no other thread of the
gateway runs, and all calls wait."""

from collections.abc import Callable
from contextlib import suppress
from time import thread_time

import msgspec
import pytest

from tests.support.orders import order
from tollway.intake.push_body import MalformedError, Pushed, read_push
from tollway.operations.catalogue import RECORD_KINDS
from tollway.store.sealing import Sealer

SIZE = 2**22
NUMBERS, OBJECTS, LISTS = b"0," * (SIZE // 2), b"{}," * (SIZE // 3), b"[]," * (SIZE // 3)
MEMBERS = b",".join(b'"%06d":0' % number for number in range(SIZE // 11))
HOSTILE = {
    "numbers": b"[" + NUMBERS + b"0]",
    "numbers, and no end": b"[" + NUMBERS,
    "empty objects": b"[" + OBJECTS + b"{}]",
    "lists in a record": b'{"a":[' + LISTS + b"0]}",
    "lists in a record, and no end": b'{"a":[' + LISTS,
    "lists in a record of an array": b'[{"a":[' + LISTS + b"0]}]",
    "objects in a record of an array": b'[{"a":[' + OBJECTS + b"0]}]",
    "lists in a record after another": b'[{"a":1},{"a":[' + LISTS + b"0]}]",
    "lists in a line": b'{"a":1}\n{"a":[' + LISTS + b"0]}",
    "blank lines": b"\n" * SIZE,
    "short lines": b"{}\n" * (SIZE // 3),
    "members": b"{" + MEMBERS + b"}",
    "texts that look like ends": b"[" + b'{"a":"},' * (SIZE // 8) + b'"}]',
}
LOADER = RECORD_KINDS["orders"].make_loader(Sealer({1: bytes(32)}, 1))


def _read(body: bytes) -> Pushed:
    return read_push(LOADER, body, 0, lambda _: None)


def _took_s(read: Callable[[], object]) -> float:
    """The shortest of three times of this thread."""
    took_s = []
    for _ in range(3):
        began_s = thread_time()
        with suppress(MalformedError):
            read()
        took_s.append(thread_time() - began_s)
    return min(took_s)


def _byte_by_byte() -> int:
    return sum(each != 0 for each in b"[]," * (SIZE // 3))


@pytest.mark.parametrize("name", HOSTILE)
def test_four_mebibytes_are_read_or_refused_in_a_moment(name: str) -> None:
    took_s, slow_s = _took_s(lambda: _read(HOSTILE[name])), _took_s(_byte_by_byte)
    assert took_s < slow_s / 2, f"{took_s:.3f} s, byte by byte {slow_s:.3f} s"


@pytest.mark.parametrize("between", [b",", b", ", b",\n", b"\n , "])
@pytest.mark.parametrize("text", ["x", "},{", '"},{\\"', "\\u007d,"])
def test_an_array_is_read_whole_wherever_it_is_cut(between: bytes, text: str) -> None:
    """It is read piece by piece."""
    numbers = range(2000)
    records = [msgspec.json.encode(order(f"sn-{number}", remark=text)) for number in numbers]
    found = _read(b" [" + between.join(records) + b"] ")
    assert [each.number for each in found.good] == [number + 1 for number in numbers]
    assert [each.text for each in found.good] == records


@pytest.mark.parametrize("end", [b",]", b"", b",", b"]]", b"]x", b"},]", b",,{}]"])
def test_an_array_that_does_not_end_as_arrays_do_is_refused_as_a_whole(end: bytes) -> None:
    for count in (1, 200, 2000):
        records = [msgspec.json.encode(order(f"sn-{number}")) for number in range(count)]
        with pytest.raises(MalformedError):
            _read(b"[" + b",".join(records) + end)


@pytest.mark.parametrize("count", [3, 1000])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r", b"\n\n\r\n \n"])
def test_lines_end_as_any_system_ends_them(ends: bytes, count: int) -> None:
    """They are cut piece by piece; some are longer than a piece."""
    records = [msgspec.json.encode(order(f"sn-{number}")) for number in range(count)]
    records[1] += b" " * 200_000
    found = _read(ends.join(records) + ends)
    assert ([each.text for each in found.good], found.rejected) == (records, [])
