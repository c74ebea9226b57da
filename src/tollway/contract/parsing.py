"""From the bytes of a request to raw values by name: query strings, forms and JSON bodies.

Each reader refuses what can be read in two ways, such as one name with two values. The types of the
values are checked later, by the fields of the request (`decoding.py`).
"""

import json
from collections.abc import Iterable, Iterator
from typing import NoReturn, TypeVar

from multipart import MultipartError, PushMultipartParser, parse_options_header

from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal

V = TypeVar("V")

PARAMETERS_MAX = 100
BODY = Phrase("request body", "请求体")
NOT_UTF8 = Phrase("it is not valid UTF-8", "不是有效的 UTF-8")
TOO_MANY = Phrase(f"it has more than {PARAMETERS_MAX} parameters", f"参数超过 {PARAMETERS_MAX} 个")
_BAD_PERCENT = Phrase("a % is not followed by two hexadecimal digits", "百分号编码不完整")


def collect(pairs: Iterable[tuple[str, V]]) -> dict[str, V]:
    """The values by name."""
    values: dict[str, V] = {}
    for name, value in pairs:
        known = values.setdefault(name, value)
        # By type too: JSON's 1 and true are equal in Python, and in no other language.
        if known != value or type(known) is not type(value):
            raise Refusal(Reason.PARAMETER_REPEATED, field=shown(name))
    return values


def urlencoded_pairs(content: bytes, part: Phrase) -> Iterable[tuple[str, str]]:
    """The pairs of a query string or of a body that is written like one."""
    pieces = [piece for piece in content.split(b"&") if piece]
    if len(pieces) > PARAMETERS_MAX:
        raise Refusal(Reason.BODY_UNREADABLE, part=part, problem=TOO_MANY)
    for piece in pieces:
        name, _, value = piece.partition(b"=")
        yield _unquote(name, part), _unquote(value, part)


def _unquote(quoted: bytes, part: Phrase) -> str:
    try:
        unquoted = _unquoted_bytes(quoted)
    except UnicodeDecodeError:
        raise Refusal(Reason.BODY_UNREADABLE, part=part, problem=_BAD_PERCENT) from None
    try:
        return unquoted.decode()
    except UnicodeDecodeError:
        raise Refusal(Reason.BODY_UNREADABLE, part=part, problem=NOT_UTF8) from None


def _unquoted_bytes(quoted: bytes) -> bytes:
    """Decodes + and %XX with Python's own escapes, which are read in C: ten times as fast as
    urllib, which also leaves a % without two digits as it is. Here that is a UnicodeDecodeError."""
    if b"%" not in quoted:
        return quoted.replace(b"+", b" ")
    escaped = quoted.replace(b"\\", rb"\x5c").replace(b"+", b" ").replace(b"%", rb"\x")
    return escaped.decode("unicode_escape").encode("latin-1")


def shown(name: str) -> str:
    """A name that a caller chose, cut to what a message can carry."""
    printable = "".join(character for character in name[:256] if character.isprintable())
    return printable[:64]


_QUERY = Phrase("query string", "查询字符串")


def read_query(query: bytes) -> dict[str, str]:
    return collect(urlencoded_pairs(query, _QUERY))


_NOT_A_FORM = Phrase(
    "its Content-Type is neither multipart/form-data nor application/x-www-form-urlencoded",
    "Content-Type 不是 multipart/form-data 或 application/x-www-form-urlencoded",
)
_NOT_MULTIPART = Phrase(
    "it is not whole multipart/form-data with the boundary that its Content-Type names",
    "不是完整的 multipart/form-data，或分隔符与 Content-Type 不符",
)


# Far above any real one; the rest is ignored, because its parameters are parsed in Python.
_CONTENT_TYPE_MAX = 512


def read_form(content_type: str, body: bytes) -> dict[str, str]:
    kind, options = parse_options_header(content_type[:_CONTENT_TYPE_MAX])
    if kind == "multipart/form-data":
        return collect(_multipart_pairs(options.get("boundary", ""), body))
    if kind == "application/x-www-form-urlencoded":
        return collect(urlencoded_pairs(body, BODY))
    raise Refusal(Reason.BODY_UNREADABLE, part=BODY, problem=_NOT_A_FORM)


def _multipart_pairs(boundary: str, body: bytes) -> Iterator[tuple[str, str]]:
    try:
        for name, value in _segments(boundary, body):
            yield name, value.decode()
    except UnicodeDecodeError:
        raise Refusal(Reason.BODY_UNREADABLE, part=BODY, problem=NOT_UTF8) from None
    except MultipartError:
        raise Refusal(Reason.BODY_UNREADABLE, part=BODY, problem=_NOT_MULTIPART) from None


def _segments(boundary: str, body: bytes) -> Iterator[tuple[str, bytes]]:
    with PushMultipartParser(boundary, content_length=len(body), strict=True) as parser:
        name, value, count = "", b"", 0
        for event in parser.parse(body):
            if event is None:
                yield name, value
            elif isinstance(event, (bytes, bytearray)):
                value += event
            else:
                count += 1
                if count > PARAMETERS_MAX:
                    raise Refusal(Reason.BODY_UNREADABLE, part=BODY, problem=TOO_MANY)
                name, value = event.name, b""


_WRONG_TYPE = Phrase(
    "its Content-Type is not application/json", "Content-Type 不是 application/json"
)
_NOT_JSON = Phrase("it is not valid JSON", "不是有效的 JSON")
_NOT_OBJECT = Phrase("it is not a JSON object", "不是 JSON 对象")


def read_json(content_type: str, body: bytes) -> dict[str, object]:
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in ("application/json", ""):
        raise Refusal(Reason.BODY_UNREADABLE, part=BODY, problem=_WRONG_TYPE)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise Refusal(Reason.BODY_UNREADABLE, part=BODY, problem=NOT_UTF8) from None
    try:
        values = json.loads(text, object_pairs_hook=_Members(), parse_constant=_no_constant)
    # A number of thousands of digits is a ValueError, thousands of levels a RecursionError.
    except (ValueError, RecursionError):
        raise Refusal(Reason.BODY_UNREADABLE, part=BODY, problem=_NOT_JSON) from None
    if not isinstance(values, dict):
        raise Refusal(Reason.BODY_UNREADABLE, part=BODY, problem=_NOT_OBJECT)
    return values


class _Members:
    """Collects the members of each object of one body, as long as they are few in all."""

    def __init__(self) -> None:
        self._left = PARAMETERS_MAX

    def __call__(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        # An empty object counts too: a body can have thousands of them.
        self._left -= len(pairs) or 1
        if self._left < 0:
            raise Refusal(Reason.BODY_UNREADABLE, part=BODY, problem=TOO_MANY)
        return collect(pairs)


def _no_constant(name: str) -> NoReturn:
    """NaN and the infinities are not JSON, though the reader would take them."""
    raise ValueError(name)
