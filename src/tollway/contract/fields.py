"""The kinds of request field: what each accepts, how it parses a value, how it is documented.

A request type declares its fields once, as `Annotated[type, Field(kind, ...)]`. Decoding, error
messages, the OpenAPI document and the docs are all made from that declaration. A kind takes the
raw value (a string from a query or form, anything from JSON) and returns the typed one, or raises
`InvalidValueError` with what was wrong. Spaces around a value are stripped, unless a `Text` keeps
them; around a number, time, code or phone, invisible characters are stripped too.
"""

import re
from typing import Any, Protocol
from unicodedata import category, normalize

import msgspec

from tollway.contract.language import Phrase


class InvalidValueError(Exception):
    """A value does not fit its field."""

    def __init__(self, problem: Phrase) -> None:
        super().__init__(problem.en)
        self.problem = problem


class Kind(Protocol):
    """One kind of field."""

    @property
    def expected(self) -> Phrase:
        """What to send, worded to follow "send ..."."""

    def read(self, raw: object) -> Any:
        """The typed value; raises InvalidValueError."""

    def schema(self) -> dict[str, object]:
        """The JSON Schema of what is accepted."""


class Field(msgspec.Struct, frozen=True):
    """The annotation of a request field: its kind, its meaning, its other spelling, and its unit
    where another one is as usual. A blank one counts as left out, unless that would allow more than
    was meant (`is_limit`)."""

    kind: Kind
    meaning: str | Phrase
    other_spelling: str | None = None
    unit: Phrase | None = None
    is_limit: bool = False


_NOT_TEXT = Phrase("it is not a text", "不是字符串")
_HAS_NUL = Phrase("it contains a NUL character", "包含 NUL 字符")
EMPTY = Phrase("it is empty", "为空")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_UNICODE = Phrase("it contains half of a surrogate pair", "包含不完整的代理字符")
# C0, C1, and the two Unicode separators.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HAS_CONTROL = Phrase("it contains a line break or a control character", "包含换行符或控制字符")

# Direction marks, zero-width characters and byte order marks, which often come with copied text.
_UNSEEN = "".join(
    map(chr, (*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF))
)
_AROUND = "".join(each for each in map(chr, range(0x3001)) if each.isspace()) + _UNSEEN


def bare(text: str) -> str:
    """A text without spaces and invisible characters around it. Not for ids, which must match
    exactly."""
    return text.strip(_AROUND)


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded: JSON escapes can produce half of a surrogate pair."""
    # Nearly every text is printable, and such halves are not.
    return text.isprintable() or _SURROGATE.search(text) is None


def has_control(text: str) -> bool:
    """Whether a text has a line break or a control character."""
    # Nearly every id is printable, and none of these characters is.
    return not text.isprintable() and _CONTROL.search(text) is not None


class Text(msgspec.Struct, frozen=True):
    """A string of bounded length. A JSON number counts as its digits: ids are often sent that way.

    A text to search for can keep the spaces around it, but no line breaks at its end.
    """

    max_length: int
    min_length: int = 1
    keeps_spaces: bool = False

    @property
    def expected(self) -> Phrase:
        low, high = self.min_length, self.max_length
        return Phrase(f"a text of {low} to {high} characters", f"{low} 到 {high} 个字符的字符串")

    def read(self, raw: object) -> str:
        if not isinstance(raw, str):
            if not isinstance(raw, int) or isinstance(raw, bool):
                raise InvalidValueError(_NOT_TEXT)
            raw = str(raw)
        raw = raw.rstrip("\r\n") if self.keeps_spaces else raw.strip()
        if not raw:
            raise InvalidValueError(EMPTY)
        # Nearly every text is printable, and none of the following is.
        if not raw.isprintable():
            if "\0" in raw:
                raise InvalidValueError(_HAS_NUL)
            if not is_unicode(raw):
                raise InvalidValueError(_NOT_UNICODE)
            if not bare(raw):
                raise InvalidValueError(EMPTY)
        if not self.min_length <= len(raw) <= self.max_length:
            size = len(raw)
            characters = "1 character" if size == 1 else f"{size} characters"
            raise InvalidValueError(Phrase(f"it has {characters}", f"长度为 {size} 个字符"))
        return raw

    def schema(self) -> dict[str, object]:
        return {"type": "string", "minLength": self.min_length, "maxLength": self.max_length}


class Line(Text, frozen=True):
    """An id: one line, in which every character can be seen."""

    def read(self, raw: object) -> str:
        text = super().read(raw)
        if has_control(text):
            raise InvalidValueError(_HAS_CONTROL)
        # Two ids that look the same would be two orders, or a list that is empty: both are charged.
        if not text.isprintable():
            unseen = next((each for each in text if category(each) == "Cf"), None)
            if unseen is not None:
                raise InvalidValueError(_has_unseen(unseen))
        return text


def _has_unseen(character: str) -> Phrase:
    code = f"U+{ord(character):04X}"
    return Phrase(f"it contains a character that cannot be seen, {code}", f"包含不可见字符 {code}")


_NOT_LIST = Phrase("it is not a list", "不是列表")


class Texts(msgspec.Struct, frozen=True):
    """A list of texts; duplicates count once."""

    each: Text
    most: int

    @property
    def expected(self) -> Phrase:
        one, most = self.each.expected, self.most
        return Phrase(
            f"a list of 1 to {most}, each {one.en}", f"1 到 {most} 项的列表，每项为 {one.zh}"
        )

    def read(self, raw: object) -> list[str]:
        if not isinstance(raw, list):
            raise InvalidValueError(_NOT_LIST)
        if not 1 <= len(raw) <= self.most:
            size = len(raw)
            raise InvalidValueError(Phrase(f"it has {size} items", f"有 {size} 项"))
        return list(dict.fromkeys(map(self.each.read, raw)))

    def schema(self) -> dict[str, object]:
        return {
            "type": "array",
            "items": self.each.schema(),
            "minItems": 1,
            "maxItems": self.most,
        }


class Code(Text, frozen=True):
    """A short name that is documented in capitals, and accepted in any case."""

    def read(self, raw: object) -> str:
        return super().read(bare(raw) if isinstance(raw, str) else raw).upper()


# A mobile, a fixed line with its area code, one without, a service number, a foreign number.
_PHONE = re.compile(
    r"((\+|00)?86)?1[3-9][0-9]{9}|(0|(\+|00)860?)[1-9][0-9]{1,2}[2-9][0-9]{6,7}|[2-9][0-9]{6,7}"
    r"|[48]00[0-9]{7}|9[56][0-9]{3,6}|(\+|00)(?!86)[1-9][0-9]{6,14}"
)
_BETWEEN_DIGITS = str.maketrans("", "", " -()./")
# Privacy numbers, which forward to a hidden number, have an extension too. A final # is the key
# that ends it on a telephone.
_EXTENSION = re.compile(r"(.+?)(?:[-_,;#*]|转?分机号?|转|ext)[.:]? ?([0-9]{1,6})#?", re.IGNORECASE)
_NOT_PHONE = Phrase("it is not a phone number", "不是电话号码")


def is_phone(text: str) -> bool:
    """Whether a text is one phone number, without an extension."""
    return _PHONE.fullmatch(text.translate(_BETWEEN_DIGITS)) is not None


class Phone(Text, frozen=True):
    """A phone number that can be called, with its extension if it has one. A masked number
    (138****1234) cannot be called."""

    @property
    def expected(self) -> Phrase:
        return Phrase(
            "a mobile number, or a fixed line with its area code", "手机号，或带区号的固定电话号码"
        )

    def read(self, raw: object) -> str:
        text = super().read(bare(raw) if isinstance(raw, str) else raw)
        if text.isascii() and (_PHONE.fullmatch(text) or is_phone(text)):
            return text
        text = normalize("NFKC", text)
        extended = _EXTENSION.fullmatch(text)
        numbers = (text, extended[1]) if extended is not None else (text,)
        if not any(map(is_phone, numbers)):
            raise InvalidValueError(_NOT_PHONE)
        return text


# More digits than any bound has; parsing a longer number is slow.
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,64}")
_ROUNDED_FROM = 2.0**53
_NOT_NUMBER = Phrase("it is not a whole number", "不是整数")
_ROUNDED = Phrase(
    "it is too large to be exact with a point or an exponent",
    "带小数点或指数，数值过大，无法精确表示",
)


def whole_number(raw: object) -> int:
    """A whole number, sent as a number or as its digits."""
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    if isinstance(raw, float) and raw.is_integer():
        # Rounding would turn an id with this many digits into another id.
        if abs(raw) >= _ROUNDED_FROM:
            raise InvalidValueError(_ROUNDED)
        return int(raw)
    if isinstance(raw, str) and _WHOLE_NUMBER.fullmatch(digits := bare(raw)):
        return int(digits)
    raise InvalidValueError(_NOT_NUMBER)


class Whole(msgspec.Struct, frozen=True):
    """A whole number within bounds."""

    least: int
    most: int

    @property
    def expected(self) -> Phrase:
        least, most = self.least, self.most
        return Phrase(f"a whole number from {least} to {most}", f"{least} 到 {most} 的整数")

    def read(self, raw: object) -> int:
        number = whole_number(raw)
        if number < self.least:
            raise InvalidValueError(Phrase(f"it is less than {self.least}", f"小于 {self.least}"))
        if number > self.most:
            raise InvalidValueError(Phrase(f"it is more than {self.most}", f"大于 {self.most}"))
        return number

    def schema(self) -> dict[str, object]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


class Choice(msgspec.Struct, frozen=True):
    """One of a few whole numbers, each with a meaning, which may be in both languages."""

    meanings: tuple[tuple[int, Phrase | str], ...]

    @property
    def expected(self) -> Phrase:
        both = [
            (value, meaning if isinstance(meaning, Phrase) else Phrase(meaning, meaning))
            for value, meaning in self.meanings
        ]
        listed = Phrase(
            ", ".join(f"{value} ({meaning.en})" for value, meaning in both),
            "、".join(f"{value}（{meaning.zh}）" for value, meaning in both),
        )
        return Phrase(f"one of {listed.en}", f"以下之一：{listed.zh}")

    def read(self, raw: object) -> int:
        number = whole_number(raw)
        for value, _ in self.meanings:
            if value == number:
                return value
        raise InvalidValueError(Phrase("it is not one of the known values", "不是已知取值"))

    def schema(self) -> dict[str, object]:
        return {"type": "integer", "enum": [value for value, _ in self.meanings]}
