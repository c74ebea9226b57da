"""Reading takes time in proportion to what was sent, and little of it: all other calls wait."""

import gzip
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from time import thread_time

import pytest

from tollway.contract.decoding import Decoder
from tollway.contract.language import preferred_language
from tollway.contract.reasons import Refusal
from tollway.contract.request_parsing import read_body, read_form, read_query, unpacked
from tollway.operations.waybills.operation import WaybillRequest

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=cut"
PART = b'--cut\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
QUOTED = PART.replace(b"\r\n\r\n", b"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n")
BASE64 = QUOTED.replace(b"quoted-printable", b"base64")
END = b"\r\n--cut--\r\n"
SIZE = 2**20
numbers = count()
WAYBILLS = Decoder(WaybillRequest)
# Four times as many as a batch of waybills can have, and as long as most of those that are known.
UNKNOWN = {f"receiver_{number:05}": "" for number in range(16_000)}
# As many, as long as names can be that are compared with known ones at all.
LONG_UNKNOWN = {f"{number:05}".rjust(64, "x"): "" for number in range(16_000)}
PACKED = gzip.compress(bytes(64 * SIZE), 1)
DEEP = b"[" * 400 + b"]" * 400 + b","
HOSTILE: dict[str, Callable[[], object]] = {
    "percents": lambda: read_form(URLENCODED, b"a=" + b"%41" * (SIZE // 3)),
    "percents in a query": lambda: read_query(b"a=" + b"%41" * (SIZE // 3)),
    "wrong percents": lambda: read_form(URLENCODED, b"a" * SIZE + b"%"),
    "ampersands": lambda: read_form(URLENCODED, b"&" * SIZE),
    "a long name twice": lambda: read_form(URLENCODED, (b"x" * (SIZE // 2) + b"=%d&") * 2 % (1, 2)),
    "line ends in a part": lambda: read_form(MULTIPART, PART + b"\r\n" * (SIZE // 2)),
    "half boundaries": lambda: read_form(MULTIPART, PART + b"\r\n--cu" * (SIZE // 6)),
    "quoted in a part": lambda: read_form(MULTIPART, QUOTED + b"=E5=\r\n" * (SIZE // 6) + END),
    "half quoted": lambda: read_form(MULTIPART, QUOTED + b"= " * (SIZE // 2) + END),
    "spaces in base64": lambda: read_form(MULTIPART, BASE64 + b"A " * (SIZE // 2) + END),
    "options of a type": lambda: read_form(MULTIPART + ";a=b" * (SIZE // 16), b""),
    "empty objects": lambda: read_body("", b'{"a":[' + b"{}," * (SIZE // 3) + b"{}]}"),
    "numbers": lambda: read_body("", b'{"a":[' + b"0," * (SIZE // 2) + b"0]}"),
    "empty lists": lambda: read_body("", b'{"a":[' + b"[]," * (SIZE // 3) + b"0]}"),
    "empty texts": lambda: read_body("", b'{"a":[' + b'"",' * (SIZE // 3) + b"0]}"),
    "lists in lists": lambda: read_body("", b'{"a":[' + DEEP * (SIZE // len(DEEP)) + b"0]}"),
    "lists, no text": lambda: read_body("", b'{"a":[' + b"[]," * (SIZE // 3) + b"\xff]}"),
    "opened lists": lambda: read_body("", b"[" * SIZE),
    "nearly a form": lambda: read_body("", b"a=b&" * (SIZE // 4) + b" "),
    "equal signs": lambda: read_body("text/plain", b"=" * SIZE),
    "spaces": lambda: read_body("", b" " * SIZE),
    "packed": lambda: unpacked("gzip", PACKED, SIZE),
    "unknown names": lambda: WAYBILLS.ignored(UNKNOWN),
    "long unknown names": lambda: WAYBILLS.ignored(LONG_UNKNOWN),
    # Another one each time: what was read before is known.
    "languages": lambda: preferred_language(f"zh;q=0.{next(numbers)}," + "zh;q=0.1," * (SIZE // 9)),
}


def _took_s(read: Callable[[], object], times: int) -> float:
    """The shortest of some times of this thread."""
    took_s = []
    for _ in range(times):
        began_s = thread_time()
        with suppress(Refusal):
            read()
        took_s.append(thread_time() - began_s)
    return min(took_s)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_mebibyte_is_read_or_refused_in_a_moment(name: str) -> None:
    # The slow reader is only the yardstick: it is timed once, with a fifth of it.
    took_s, slow_s = _took_s(HOSTILE[name], 3), 5 * _took_s(lambda: _slow(SIZE // 5), 1)
    assert took_s < slow_s / 2, f"{took_s:.3f} s, byte by byte {slow_s:.3f} s"


def test_with_too_many_fields_a_body_of_another_type_is_not_taken_for_a_form() -> None:
    took_s = _took_s(lambda: read_body("text/plain", b"a=b&" * (SIZE // 4)), 3)
    slow_s = 5 * _took_s(lambda: _slow(SIZE // 5), 1)
    assert took_s < slow_s / 20, f"{took_s:.3f} s, byte by byte {slow_s:.3f} s"


def _byte_by_byte(text: bytes) -> bytes:
    found = bytearray()
    position = 0
    while position < len(text):
        if text[position] == ord("%"):
            found.append(int(text[position + 1 : position + 3], 16))
            position += 3
        else:
            found.append(text[position])
            position += 1
    return bytes(found)


def _slow(size: int = SIZE) -> bytes:
    return _byte_by_byte(b"%41" * (size // 3) + b"a" * size)


def test_control_a_reader_that_goes_byte_by_byte_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # More than a mebibyte, since the yardstick may be timed in a slow moment.
    monkeypatch.setitem(HOSTILE, "slow", lambda: _slow(3 * SIZE))
    with pytest.raises(AssertionError):
        test_a_mebibyte_is_read_or_refused_in_a_moment("slow")


def test_of_a_long_list_of_languages_the_beginning_counts() -> None:
    assert preferred_language("zh," + "de," * 1000) == "zh"
    assert preferred_language("de," * 1000 + "zh") == "en"
