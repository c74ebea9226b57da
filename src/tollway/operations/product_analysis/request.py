"""What a caller sends."""

from datetime import date
from typing import Annotated

import msgspec

from tollway.contract.fields import Day, Field, Text


class ProductAnalysisRequest(msgspec.Struct, frozen=True):
    product_id: Annotated[
        str, Field(Text(max_length=64), "Product id; the service finds the shop from it.")
    ]
    query_date: Annotated[date, Field(Day(), "Date to query; today or earlier.")]
