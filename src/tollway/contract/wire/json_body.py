"""Parameters in a JSON body.

The standard library's reader, although slower than msgspec's: it alone tells of a name that was
sent twice.
"""

import json
from typing import NoReturn

from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal
from tollway.contract.wire.pairs import BODY, NOT_UTF8, collect

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
        values = json.loads(text, object_pairs_hook=collect, parse_constant=_no_constant)
    # A number of thousands of digits is a ValueError, thousands of levels a RecursionError.
    except (ValueError, RecursionError):
        raise Refusal(Reason.BODY_UNREADABLE, part=BODY, problem=_NOT_JSON) from None
    if not isinstance(values, dict):
        raise Refusal(Reason.BODY_UNREADABLE, part=BODY, problem=_NOT_OBJECT)
    return values


def _no_constant(name: str) -> NoReturn:
    """NaN and the infinities are not JSON, though the reader would take them."""
    raise ValueError(name)
