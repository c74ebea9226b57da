"""Product analysis: its request, its response, and its descriptor."""

from datetime import date
from typing import Annotated

import msgspec

from tollway.contract.fields import Field, Text
from tollway.contract.operation import Encoding, Operation, Unit
from tollway.contract.reasons import Reason
from tollway.contract.time_fields import Day


class ProductAnalysisRequest(msgspec.Struct, frozen=True):
    product_id: Annotated[
        str, Field(Text(max_length=64), "Product id; the service finds the shop from it.")
    ]
    query_date: Annotated[date, Field(Day(), "Date to query; today or earlier.")]


class TrafficEntry(msgspec.Struct, frozen=True):
    """One traffic source."""

    pageName: str
    payByrCntIndex: int
    crtByrCntIndex: int
    uvIndex: int
    payRateIndex: float


class KeywordEntry(msgspec.Struct, frozen=True):
    """One keyword that brought visitors."""

    pageName: str
    payByrCntIndex: int
    crtByrCntIndex: int
    uvIndex: int
    payRateIndex: float
    pv: int


class SearchEntry(msgspec.Struct, frozen=True):
    """One search term."""

    pageName: str
    uvIndex: int
    payRateIndex: float
    payByrCntIndex: int


class DailySeries(msgspec.Struct, frozen=True):
    """Five parallel lists, oldest day first."""

    paymentConversionRate: list[float]
    date: list[str]
    paymentAmount: list[float]
    paidNum: list[int]
    visitorNum: list[int]


class DateData(msgspec.Struct, frozen=True):
    data: DailySeries


class ProductAnalysis(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload. The last three are sent for today only."""

    trafficSource: list[TrafficEntry]
    keywords: list[KeywordEntry]
    searchKeywords: list[SearchEntry]
    dateData: DateData
    itemId: str
    itemName: str
    pic: str
    shopName: str
    shop_name: str
    itemCltByrCnt: int | None = None
    payItmCnt: int | None = None
    itemCartCnt: int | None = None


PRODUCT_ANALYSIS = Operation(
    name="product_analysis",
    title="Product analysis",
    method="GET",
    path="/papi/tool/accounts/goods-analysis",
    encoding=Encoding.QUERY,
    request_type=ProductAnalysisRequest,
    response_type=ProductAnalysis,
    unit=Unit.CALLS,
    default_price=1,
    own_reasons=(Reason.PRODUCT_UNKNOWN, Reason.PRODUCT_WITHOUT_DATA, Reason.DATE_IN_FUTURE),
)
