"""Parameters in a form body: multipart/form-data, or urlencoded."""

from collections.abc import Iterator

from multipart import MultipartError, PushMultipartParser, parse_options_header

from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.wire.pairs import (
    BODY,
    NOT_UTF8,
    PARAMETERS_MAX,
    TOO_MANY,
    collect,
    urlencoded_pairs,
)

_NOT_A_FORM = Phrase(
    "its Content-Type is neither multipart/form-data nor application/x-www-form-urlencoded",
    "Content-Type 不是 multipart/form-data 或 application/x-www-form-urlencoded",
)
_NOT_MULTIPART = Phrase(
    "it is not whole multipart/form-data with the boundary that its Content-Type names",
    "不是完整的 multipart/form-data，或分隔符与 Content-Type 不符",
)


def read_form(content_type: str, body: bytes) -> dict[str, str]:
    kind, options = parse_options_header(content_type)
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
