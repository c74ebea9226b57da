"""What an answer has, in the spellings of the wire."""

import msgspec


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
