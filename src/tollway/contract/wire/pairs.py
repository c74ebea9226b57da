"""What the readers share: names and values that were sent as pairs."""

from collections.abc import Iterable
from typing import TypeVar
from urllib.parse import unquote_to_bytes

from tollway.contract.language import Phrase
from tollway.contract.reasons import Reason, Refusal

V = TypeVar("V")

PARAMETERS_MAX = 100
BODY = Phrase("request body", "请求体")
NOT_UTF8 = Phrase("it is not valid UTF-8", "不是有效的 UTF-8")
TOO_MANY = Phrase(f"it has more than {PARAMETERS_MAX} parameters", f"参数超过 {PARAMETERS_MAX} 个")
_BAD_PERCENT = Phrase("a % is not followed by two hexadecimal digits", "百分号编码不完整")
_HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")


def collect(pairs: Iterable[tuple[str, V]]) -> dict[str, V]:
    """The values by name."""
    values: dict[str, V] = {}
    for name, value in pairs:
        known = values.setdefault(name, value)
        # By type too: JSON's 1 and true are equal to Python, and not to anybody else.
        if known != value or type(known) is not type(value):
            raise Refusal(Reason.PARAMETER_REPEATED, field=_shown(name))
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
    for position, byte in enumerate(quoted):
        if byte == 0x25 and not (
            len(quoted) > position + 2
            and quoted[position + 1] in _HEXADECIMAL
            and quoted[position + 2] in _HEXADECIMAL
        ):
            raise Refusal(Reason.BODY_UNREADABLE, part=part, problem=_BAD_PERCENT)
    try:
        return unquote_to_bytes(quoted.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        raise Refusal(Reason.BODY_UNREADABLE, part=part, problem=NOT_UTF8) from None


def _shown(name: str) -> str:
    """A name that a caller chose, cut to what a message can carry."""
    printable = "".join(character for character in name if character.isprintable())
    return printable[:64]
