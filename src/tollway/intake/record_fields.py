"""The kinds of value that the fields of records have, the same for all records."""

import re
from decimal import Decimal
from functools import lru_cache
from typing import Annotated

from msgspec import Meta

# Spaces around an id are not part of it, as in a request: otherwise no call could name it.
ID_MAX = 64
# An id is a single line: otherwise logs and files that contain it would be misread.
ONE_LINE = "one_line"
Id = Annotated[str, Meta(min_length=1, max_length=ID_MAX, extra={ONE_LINE: True})]
IdOrEmpty = Annotated[str, Meta(max_length=ID_MAX, extra={ONE_LINE: True})]
# Trimmed like an id, but may have several lines: two phones, for example.
ShortText = Annotated[str, Meta(min_length=1, max_length=ID_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=500)]
Text = Annotated[str, Meta(max_length=2000)]
Url = Annotated[
    str,
    Meta(
        max_length=2000,
        pattern=r"^(https?://\S+)?\Z",
        description="an address that begins with http:// or https://, of at most 2,000 characters",
    ),
]
Count = Annotated[int, Meta(ge=0, le=10**12)]
Number = Annotated[int, Meta(ge=0, lt=10**18)]

# The year 2000. What is smaller is another number, and would be taken for a time long ago: seconds
# for milliseconds, a date without separators such as 20260115, or a day's number in a spreadsheet.
BEGIN_S = 946_684_800
# A later time is a mistake, or an attempt to outlast every newer version of the record.
_END_S = 7_258_118_400
# How many milliseconds the unit of a time has: a table may write the time out instead.
UNIT_MS = "unit_ms"
_SECONDS = (
    "a time in seconds, from the year 2000 to 2199, as 1768406400, or in a table as "
    "2026-01-15 00:00:00"
)
_IS_SECONDS = {UNIT_MS: 1000}
Seconds = Annotated[int, Meta(ge=BEGIN_S, lt=_END_S, description=_SECONDS, extra=_IS_SECONDS)]
_MILLISECONDS = (
    "a time in milliseconds, from the year 2000 to 2199, as 1768406400000, or in a table as "
    "2026-01-15 00:00:00"
)
_IS_MILLISECONDS = {UNIT_MS: 1}
Milliseconds = Annotated[
    int,
    Meta(ge=BEGIN_S * 1000, lt=_END_S * 1000, description=_MILLISECONDS, extra=_IS_MILLISECONDS),
]
# Where 0 stands for "always"; `check_since_2000` refuses what is between.
SECONDS_OR_ZERO = (
    "a time in seconds, before the year 2200, as 1768406400, or in a table as 2026-01-15 00:00:00"
)
SecondsOrZero = Annotated[
    int, Meta(ge=0, lt=_END_S, description=SECONDS_OR_ZERO, extra=_IS_SECONDS)
]
MILLISECONDS_OR_ZERO = (
    "a time in milliseconds, before the year 2200, as 1768406400000, or in a table as "
    "2026-01-15 00:00:00"
)
MillisecondsOrZero = Annotated[
    int, Meta(ge=0, lt=_END_S * 1000, description=MILLISECONDS_OR_ZERO, extra=_IS_MILLISECONDS)
]

_YUAN_MAX = 10**12
# Trailing zeros count as decimals too: in some countries `1.000` is a thousand.
_PLAIN_DECIMAL = re.compile(r"[0-9]{1,13}(\.[0-9]{1,2})?")
Yuan = Annotated[
    Decimal,
    Meta(description="yuan with at most two decimals, from 0 to 1000000000000, as 12.50"),
]


def is_amount(sent: object, yuan: Decimal) -> bool:
    """Whether an amount is a plain decimal within bounds, by its spelling and its value. JSON
    numbers are plain already: fields accept no others."""
    if isinstance(sent, (str, float)) and not _PLAIN_DECIMAL.fullmatch(str(sent)):
        return False
    return yuan.is_finite() and 0 <= yuan <= _YUAN_MAX


# A text with a point is read as a float, which is exact up to this many digits.
_EXACT_DIGITS = 15


def is_rounded(sent: object) -> bool:
    """Whether a whole number is a text like 1.76841E+12, as spreadsheets save long numbers, or one
    that would be rounded when it is read."""
    if not isinstance(sent, str):
        return False
    return "E" in sent or "e" in sent or sent.find(".") > _EXACT_DIGITS


# Many records have the same amounts.
@lru_cache(maxsize=4096)
def fen_of(yuan: Decimal) -> int:
    """A checked amount in whole fen."""
    return int(yuan * 100)
