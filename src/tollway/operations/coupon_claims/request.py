"""What a caller sends."""

from typing import Annotated

import msgspec

from tollway.contract.fields import Choice, Field, Seconds, Text, Whole

LIMIT_MAX = 1000
# Beyond every list there will ever be, and small enough for any client's integers.
_PAGE_MAX = 2_147_483_647


class CouponClaimsRequest(msgspec.Struct, frozen=True):
    startTime: Annotated[
        int, Field(Seconds(), "Start of the claim window, seconds timestamp; included.")
    ]
    endTime: Annotated[
        int,
        Field(
            Seconds(),
            "End of the claim window, seconds timestamp; excluded. At most 7 days after startTime.",
        ),
    ]
    page: Annotated[int, Field(Whole(1, _PAGE_MAX), "Page number, starting at 1.")]
    limit: Annotated[int, Field(Whole(1, LIMIT_MAX), "Rows per page, maximum 1000.")]
    sid: Annotated[str, Field(Text(max_length=64), "Channel user identifier.")]
    type: Annotated[
        int,
        Field(
            Choice(((4, "food delivery"), (6, "flash purchase"))),
            "4 = food delivery; 6 = flash purchase.",
        ),
    ]
