"""From the bytes of a request to raw values by name: query strings, forms and JSON bodies.

Each parser refuses ambiguous input, such as one name with two values. The fields of the request
check the types of the values later (`decoding.py`).
"""

import json
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec
from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header

from tollway.contract.fields import is_unicode
from tollway.contract.json_limits import TOO_DEEP, TOO_MANY_PARTS, has_too_many_parts, is_too_deep
from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.transfer_encoding import transferred

V = TypeVar("V")

PARAMETERS_MAX = 100
BODY = Phrase("request body", "请求体")
UTF8, GB18030 = "utf-8", "gb18030"
NOT_UTF8 = Phrase("it is not valid UTF-8", "不是有效的 UTF-8")
_NOT_DECODED = {UTF8: NOT_UTF8, GB18030: Phrase("it is not valid GBK", "不是有效的 GBK")}
_BAD_PERCENT = Phrase("a % is not followed by two hexadecimal digits", "百分号编码不完整")
# All subsets of GB18030. Any other declared charset is ignored: clients that send UTF-8 or ASCII
# declare all kinds of charsets.
_CHINESE = {"gbk", "gb2312", "gb18030", "cp936", "x-gbk"}


def too_many(most: int = PARAMETERS_MAX) -> Phrase:
    return Phrase(f"it has more than {most} parameters", f"参数超过 {most} 个")


def collect(pairs: Iterable[tuple[str, V]]) -> dict[str, V]:
    """The values by name. A blank value counts as not sent, also if its name is repeated."""
    values: dict[str, V] = {}
    for name, value in pairs:
        known = values.setdefault(name, value)
        if known is value or _is_blank(value):
            continue
        if _is_blank(known):
            known = values[name] = value
        # The types must match too: in Python, JSON's 1 and true are equal.
        if known != value or type(known) is not type(value):
            raise Refusal(Reason.PARAMETER_REPEATED, field=shown(name))
    return values


def _is_blank(value: object) -> bool:
    return isinstance(value, str) and not value.strip()


def _urlencoded(content: bytes, part: Phrase, charset: str = UTF8) -> dict[str, str]:
    """The values of a query string, or of a body in the same format."""
    plain = _plain_values(content)
    return collect(_urlencoded_pairs(content, part, charset)) if plain is None else plain


def _plain_values(content: bytes) -> dict[str, str] | None:
    """The fast path: the values if nothing is escaped and no name is repeated, otherwise None. It
    takes a quarter of the time, and most requests qualify."""
    if b"%" in content or b"+" in content or not content.isascii():
        return None
    pieces = content.decode("ascii").split("&", PARAMETERS_MAX)
    try:
        # A piece without "=" raises a ValueError.
        values: dict[str, str] = dict([piece.split("=", 1) for piece in pieces])
    except ValueError:
        return None
    return values if len(values) == len(pieces) <= PARAMETERS_MAX else None


def _urlencoded_pairs(content: bytes, part: Phrase, charset: str) -> Iterable[tuple[str, str]]:
    pieces = [piece for piece in content.split(b"&") if piece]
    if len(pieces) > PARAMETERS_MAX:
        raise _unreadable(part, too_many())
    for piece in pieces:
        quoted_name, _, value = piece.partition(b"=")
        name = _unquote(quoted_name, part, charset)
        yield name, _unquote(value, part, charset, name)


def _unquote(quoted: bytes, part: Phrase, charset: str, name: str = "") -> str:
    try:
        unquoted = _unquoted_bytes(quoted)
    except UnicodeDecodeError:
        raise _unreadable(part, _BAD_PERCENT, name) from None
    return _text(unquoted, charset, part, name)


def _text(content: bytes, charset: str, part: Phrase, name: str = "") -> str:
    try:
        return content.decode(charset)
    except UnicodeDecodeError:
        raise _unreadable(part, _NOT_DECODED[charset], name) from None


def _unreadable(part: Phrase, problem: Phrase, name: str = "") -> Refusal:
    """The refusal of a parameter, or of the whole part if the wrong parameter is not known."""
    named = shown(name)
    if named:
        part = Phrase(f"parameter {named} of the {part.en}", f"{part.zh}中的参数 {named}")
    return Refusal(Reason.BODY_UNREADABLE, part=part, problem=problem)


def _unquoted_bytes(quoted: bytes) -> bytes:
    """Decodes + and %XX through Python's string escapes, which are parsed in C: ten times as fast
    as urllib. Unlike urllib, it raises a UnicodeDecodeError for a % without two digits."""
    if b"%" not in quoted:
        return quoted.replace(b"+", b" ")
    escaped = quoted.replace(b"\\", rb"\x5c").replace(b"+", b" ").replace(b"%", rb"\x")
    return escaped.decode("unicode_escape").encode("latin-1")


def shown(name: str) -> str:
    """A name from the caller, shortened for a message."""
    printable = "".join(character for character in name[:256] if character.isprintable())
    return printable[:64]


QUERY = Phrase("query string", "查询字符串")


def read_query(query: bytes) -> dict[str, str]:
    return _urlencoded(query, QUERY)


_NOT_A_FORM = Phrase(
    "its Content-Type is neither multipart/form-data nor application/x-www-form-urlencoded",
    "Content-Type 不是 multipart/form-data 或 application/x-www-form-urlencoded",
)
_NOT_MULTIPART = Phrase(
    "it is not whole multipart/form-data with the boundary that its Content-Type names",
    "不是完整的 multipart/form-data，或分隔符与 Content-Type 不符",
)
_MULTIPART, _URLENCODED = "multipart/form-data", "application/x-www-form-urlencoded"
# Far longer than any real one; the rest is ignored, because Python code parses the parameters.
_CONTENT_TYPE_MAX = 512
# Clients also name one without the quotes that its characters need.
_BARE_BOUNDARY = re.compile(r"\bboundary=([\w'()+,./:=? -]{0,69}[\w'()+,./:=?-]) *(?:;|$)", re.A)


def _kind_of(content_type: str) -> tuple[str, Mapping[str, str]]:
    if content_type in (JSON_TYPE, _URLENCODED):
        return content_type, {}
    kind, options = parse_options_header(content_type[:_CONTENT_TYPE_MAX])
    bare = _BARE_BOUNDARY.search(content_type[:_CONTENT_TYPE_MAX])
    return kind, options if bare is None else {**options, "boundary": bare[1]}


def _charset(declared: str | None) -> str:
    return GB18030 if declared is not None and declared.strip().lower() in _CHINESE else UTF8


def read_form(content_type: str, body: bytes) -> dict[str, str]:
    """A form with the Content-Type of a form."""
    plain = _plain_pairs(content_type, body)
    if plain is not None:
        return collect(plain)
    kind, options = _kind_of(content_type)
    charset = _charset(options.get("charset"))
    if kind == _MULTIPART:
        return collect(_multipart_pairs(options.get("boundary", ""), body, charset))
    if kind == _URLENCODED:
        return _urlencoded(body, BODY, charset)
    raise _unreadable(BODY, _NOT_A_FORM)


_PLAIN_HEADER = b'\r\nContent-Disposition: form-data; name="'
_PLAIN_NAME = re.compile(rb"[A-Za-z0-9_]{1,64}")
_PLAIN_TYPE = re.compile("multipart/form-data; ?boundary=([A-Za-z0-9_-]{1,70})")


def _plain_pairs(content_type: str, body: bytes) -> list[tuple[str, str]] | None:
    """The fast path for a form as most clients write it, with nothing but names and values. It
    takes a tenth of the time of the full parser, which handles the forms for which this is None."""
    declared = _PLAIN_TYPE.fullmatch(content_type)
    if declared is None:
        return None
    delimiter = b"\r\n--" + declared[1].encode("ascii")
    first, *parts = (b"\r\n" + body).split(delimiter, PARAMETERS_MAX + 1)
    if first or len(parts) < 2 or parts.pop() != b"--\r\n":
        return None
    pairs = []
    for part in parts:
        name, separator, value = part[len(_PLAIN_HEADER) :].partition(b'"\r\n\r\n')
        if not (separator and part.startswith(_PLAIN_HEADER) and _PLAIN_NAME.fullmatch(name)):
            return None
        try:
            pairs.append((name.decode("ascii"), value.decode("utf-8")))
        except UnicodeDecodeError:
            return None
    return pairs


def _multipart_pairs(boundary: str, body: bytes, charset: str) -> Iterator[tuple[str, str]]:
    try:
        for part, sent in _parts(boundary, body, charset):
            name = part.name or ""
            content = transferred(part.header("Content-Transfer-Encoding", ""), sent)
            if isinstance(content, Phrase):
                raise _unreadable(BODY, content, name)
            own = _charset(part.charset) if part.charset else charset
            yield name, _text(content, own, BODY, name)
    except MultipartError:
        raise _unreadable(BODY, _NOT_MULTIPART) from None


def _parts(boundary: str, body: bytes, charset: str) -> Iterator[tuple[MultipartSegment, bytes]]:
    with PushMultipartParser(
        boundary, content_length=len(body), header_charset=charset, strict=True
    ) as parser:
        part, content, count = MultipartSegment([]), b"", 0
        for event in parser.parse(body):
            if event is None:
                yield part, content
            elif isinstance(event, (bytes, bytearray)):
                content += event
            else:
                count += 1
                if count > PARAMETERS_MAX:
                    raise _unreadable(BODY, too_many())
                part, content = event, b""


_NOT_JSON = Phrase("it is not valid JSON", "不是有效的 JSON")
_NOT_OBJECT = Phrase("it is not a JSON object", "不是 JSON 对象")
JSON_TYPE = "application/json"
_decode_json = msgspec.json.Decoder().decode


def read_json(
    body: bytes, charset: str = UTF8, members_max: int = PARAMETERS_MAX
) -> dict[str, object]:
    plain = _plain_members(body) if charset == UTF8 else None
    if plain is not None:
        return plain
    if has_too_many_parts(body):
        raise _unreadable(BODY, TOO_MANY_PARTS)
    try:
        text = body.decode(charset)
    except UnicodeDecodeError:
        raise _unreadable(BODY, _NOT_DECODED[charset], _undecoded(body, charset)) from None
    members = _Members(members_max)
    try:
        values = json.loads(text, object_pairs_hook=members, parse_constant=members.constant)
    except json.JSONDecodeError as error:
        at = Phrase(
            f"{_NOT_JSON.en} at line {error.lineno}, column {error.colno}",
            f"第 {error.lineno} 行第 {error.colno} 列{_NOT_JSON.zh}",
        )
        raise _unreadable(BODY, at) from None
    except ValueError:  # A number of thousands of digits.
        raise _unreadable(BODY, _NOT_JSON) from None
    except RecursionError:
        raise _unreadable(BODY, TOO_DEEP) from None
    if not isinstance(values, dict):
        raise _unreadable(BODY, _NOT_OBJECT)
    if members.has_constant:
        raise _unreadable(BODY, _NOT_JSON)
    if is_too_deep(values):
        raise _unreadable(BODY, TOO_DEEP)
    return values


def _undecoded(body: bytes, charset: str) -> str:
    """The name of the parameter that cannot be decoded, or an empty text if it is not known."""
    try:
        # Undecodable bytes become lone surrogates, which no decoded text has.
        values = json.loads(body.decode(charset, "surrogateescape"))
    except (ValueError, RecursionError):
        return ""
    members = values.items() if isinstance(values, dict) else ()
    wrong = (name for name, value in members if isinstance(value, str) and not is_unicode(value))
    return next(wrong, "")


_PLAIN_JSON_MAX = 4096


def _plain_members(body: bytes) -> dict[str, object] | None:
    """The fast path for an object as most clients send it, with plain values and nothing escaped.
    It takes a quarter of the time of the full parser, which handles what is None here.

    The faster parser does not report repeated names, but keeps only one of them. Each name and each
    text has two quotes, so a body with a repeated name has more quotes than the values account for.
    """
    if len(body) > _PLAIN_JSON_MAX or b"\\" in body:
        return None
    try:
        values = _decode_json(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    if not isinstance(values, dict) or len(values) > PARAMETERS_MAX:
        return None
    quoted = len(values)
    for value in values.values():
        if isinstance(value, str):
            quoted += 1
        elif isinstance(value, (dict, list)):
            return None
    return values if body.count(b'"') == 2 * quoted else None


class _Members:
    """Collects the members of each object in a body, up to a total limit."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self.has_constant = False

    def constant(self, name: str) -> object:
        """Notes a NaN or infinity, which is not JSON, though the parser accepts it."""
        self.has_constant = True
        return _Constant(name)

    def __call__(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        for name, value in pairs if self.has_constant else ():
            if isinstance(value, _Constant):
                problem = Phrase(
                    f"it is {value}, which is not valid JSON", f"{value} 不是有效的 JSON"
                )
                raise _unreadable(BODY, problem, name)
        # An empty object counts too: a body can have thousands of them.
        self._left -= len(pairs) or 1
        if self._left < 0:
            raise _unreadable(BODY, too_many(self._most))
        return collect(pairs)


class _Constant(str):
    """A NaN or infinity in place of a number."""


_EMPTY = Phrase("it is empty", "为空")
_NOT_PLAIN = Phrase(
    "its Content-Type is neither JSON nor a form, and it is neither by itself",
    "Content-Type 不是 JSON 或表单，内容也不是",
)
# Matches in linear time: a name or a value cannot contain the character that ends it.
_PLAIN_FORM = re.compile(rb"([^=&\s{}\[\]\"<>]++=[^&\s{}\"<>]*+(&|\Z)){1,%d}" % PARAMETERS_MAX)
_PLAIN_MULTIPART = re.compile(rb"--([ -~]{0,69}[!-~])\r\n")


def read_body(
    content_type: str, body: bytes, members_max: int = PARAMETERS_MAX
) -> Mapping[str, object]:
    """The values of a body, parsed by its Content-Type, or by what the body obviously is. Clients
    often declare JSON as a form or as text, because their libraries do so by default."""
    plain = _plain_pairs(content_type, body)
    if plain is not None:
        return collect(plain)
    kind, options = _kind_of(content_type)
    body = body.removeprefix(BOM_UTF8)
    charset = _charset(options.get("charset"))
    if body.lstrip()[:1] in (b"{", b"["):
        return read_json(body, charset, members_max)
    parts = _PLAIN_MULTIPART.match(body)
    if parts is not None and not (kind == _MULTIPART and options.get("boundary")):
        return collect(_multipart_pairs(parts[1].decode("ascii"), body, charset))
    is_nothing = not body and kind not in (JSON_TYPE, _MULTIPART)
    if kind == _URLENCODED or is_nothing or _PLAIN_FORM.fullmatch(body):
        return _urlencoded(body, BODY, charset)
    if kind == JSON_TYPE:
        if not body.strip():
            raise _unreadable(BODY, _EMPTY)
        return read_json(body, charset, members_max)
    if kind == _MULTIPART:
        return read_form(content_type, body)
    raise _unreadable(BODY, _NOT_PLAIN)


_NOT_GZIP = Phrase("it is not whole gzip, as its Content-Encoding says", "不是完整的 gzip 数据")
_OTHER_PACKING = Phrase("its Content-Encoding is not gzip", "Content-Encoding 不是 gzip")


def unpacked(content_encoding: str, body: bytes, limit: int) -> bytes:
    """A decompressed body; the limit is for its decompressed size."""
    packing = content_encoding.strip().lower()
    if packing in ("", "identity"):
        return body
    if packing not in ("gzip", "x-gzip"):
        raise _unreadable(BODY, _OTHER_PACKING)
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)  # The format of gzip.
    try:
        content = unpacker.decompress(body, limit + 1)
    except zlib.error:
        raise _unreadable(BODY, _NOT_GZIP) from None
    if len(content) > limit:
        raise Refusal(Reason.BODY_TOO_LARGE, limit=limit)
    if not unpacker.eof or unpacker.unused_data:
        raise _unreadable(BODY, _NOT_GZIP)
    return content
