"""The kinds of value that records of several files have."""

from decimal import Decimal
from typing import Annotated

import msgspec

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern="^[^\\x00]*$")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern="^[^\\x00]*$")]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
# More than this is no time in seconds that anybody means, but one in milliseconds.
Seconds = Annotated[int, msgspec.Meta(ge=0, lt=100_000_000_000)]

_YUAN_MAX = Decimal(10) ** 12


def fen_of(yuan: Decimal, field: str) -> int:
    """Decimal yuan as whole fen; raises ValueError that names the field."""
    if not yuan.is_finite() or not 0 <= yuan <= _YUAN_MAX:
        raise ValueError(f"Expected an amount of yuan, 0 or more - at `$.{field}`")
    # Read off the digits as they were sent: arithmetic would round a very long fraction away.
    exponent = yuan.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -2:
        raise ValueError(f"Expected at most two decimals - at `$.{field}`")
    return int(yuan * 100)
