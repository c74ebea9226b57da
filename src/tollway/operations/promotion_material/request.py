"""What a caller sends."""

from typing import Annotated

import msgspec

from tollway.contract.fields import Field, Whole

_ID = Whole(least=1, most=10**18 - 1)


class PromotionMaterialRequest(msgspec.Struct, frozen=True):
    adzone_id: Annotated[
        int, Field(_ID, "Third segment of the promotion slot code, which has the form mm_x_x_x.")
    ]
    promotion_id: Annotated[
        int,
        Field(
            _ID,
            "Official benefit material id: 37104 paid coupon, 37116 large shop coupon, "
            "62191 mall shop coupon, 61809 stacked coupon.",
            other_spelling="material_id",
        ),
    ]
    site_id: Annotated[int, Field(_ID, "Second segment of the promotion slot code.")]
    platform_user_id: Annotated[int, Field(_ID, "Id of the authorizing user.")]
    page_size: Annotated[int, Field(Whole(least=1, most=10), "Page size; default 10.")] = 10
    page_num: Annotated[
        int, Field(Whole(least=1, most=1_000_000), "Page number; the first page is 1, the default.")
    ] = 1
