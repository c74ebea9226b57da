"""The work of product analysis: checks the date, reads the figures, computes the rates.

An answer for a past day stays the same until figures are loaded, so the last answers are cached,
and the figures of days that were read. Both go when the version of the figures changes.
"""

from collections.abc import Awaitable, Callable
from datetime import date

from tollway.contract.envelope import encode_data
from tollway.contract.operation import CallInfo
from tollway.contract.reasons import Reason, Refusal
from tollway.operations.product_analysis.operation import (
    DailySeries,
    DateData,
    KeywordEntry,
    ProductAnalysis,
    ProductAnalysisRequest,
    SearchEntry,
    TrafficEntry,
)
from tollway.operations.product_analysis.queries import (
    NO_FIGURES,
    DayFigures,
    KnownFigures,
    PartFigures,
    day_number,
    rate,
    series_days,
)
from tollway.store.database import Database
from tollway.store.versions import Versions

_KEPT_BYTES_MAX = 16 * 1024 * 1024
_RATE_FLOOR = 0.01


class ProductAnalysisHandler:
    """Answers product analysis from one database."""

    def __init__(self, database: Database, versions: Versions, today: Callable[[], date]) -> None:
        self._database = database
        self._versions = versions
        self._today = today
        self._kept = _Answers(-1, date.min)

    def __call__(self, request: ProductAnalysisRequest, _: CallInfo) -> Awaitable[bytes] | bytes:
        today = self._today()
        if request.query_date > today:
            raise Refusal(Reason.DATE_IN_FUTURE, today=today.isoformat())
        kept = self._kept
        # The cache also ends at midnight: an answer for today has three more fields.
        if (kept.version, kept.today) != (self._versions.figures, today):
            kept = self._kept = _Answers(self._versions.figures, today)
        answer = kept.get(request)
        return self._make(request, today, kept) if answer is None else answer

    async def _make(self, request: ProductAnalysisRequest, today: date, kept: "_Answers") -> bytes:
        answer = encode_data(await self._analyse(request, today, kept.figures))
        # If figures were loaded meanwhile, this goes to a cache that is no longer read.
        kept.keep(request, answer)
        return answer

    async def _analyse(
        self, request: ProductAnalysisRequest, today: date, figures: KnownFigures
    ) -> ProductAnalysis:
        product_id, day = request.product_id, request.query_date
        facts, days, parts = await figures.read(self._database, product_id, day)
        if facts is None:
            raise Refusal(Reason.PRODUCT_UNKNOWN)
        asked = days.get(day_number(day))
        if asked is None:
            raise Refusal(Reason.PRODUCT_WITHOUT_DATA)
        # Sent for today only.
        live = asked if day == today else None
        return ProductAnalysis(
            trafficSource=[_traffic(part) for part in parts if part.kind == "source"],
            keywords=[_keyword(part) for part in parts if part.kind == "keyword"],
            searchKeywords=[_search(part) for part in parts if part.kind == "search"],
            dateData=DateData(_series(day, days)),
            itemId=product_id,
            itemName=facts.title,
            pic=facts.picture_url,
            shopName=facts.shop_name,
            shop_name=facts.shop_name,
            itemCltByrCnt=live.collections if live else None,
            payItmCnt=live.pieces_paid if live else None,
            itemCartCnt=live.pieces_carted if live else None,
        )


class _Answers:
    """The answers of one version of the figures, and of one day, and the figures themselves."""

    def __init__(self, version: int, today: date) -> None:
        self.version = version
        self.today = today
        self.figures = KnownFigures(version)
        self._answers: dict[ProductAnalysisRequest, bytes] = {}
        self._bytes = 0

    def get(self, request: ProductAnalysisRequest) -> bytes | None:
        return self._answers.get(request)

    def keep(self, request: ProductAnalysisRequest, answer: bytes) -> None:
        if self._bytes + len(answer) > _KEPT_BYTES_MAX:
            self._answers.clear()
            self._bytes = 0
        self._answers[request] = answer
        self._bytes += len(answer)


def _rate_index(part: PartFigures) -> float:
    found = rate(part.buyers, part.visitors)
    return found if found > _RATE_FLOOR else _RATE_FLOOR


def _traffic(part: PartFigures) -> TrafficEntry:
    return TrafficEntry(
        part.name, part.buyers, part.pieces_ordered, part.visitors, _rate_index(part)
    )


def _keyword(part: PartFigures) -> KeywordEntry:
    return KeywordEntry(
        part.name,
        part.buyers,
        part.pieces_ordered,
        part.visitors,
        _rate_index(part),
        part.page_views,
    )


def _search(part: PartFigures) -> SearchEntry:
    return SearchEntry(part.name, part.visitors, _rate_index(part), part.buyers)


def _series(last: date, days: dict[int, DayFigures]) -> DailySeries:
    """Every day of the series; one without data counts as zero, and is never left out."""
    numbers, labels = series_days(last)
    figures = [days.get(number, NO_FIGURES) for number in numbers]
    return DailySeries(
        paymentConversionRate=[each.rate for each in figures],
        date=labels,
        paymentAmount=[each.payment for each in figures],
        paidNum=[each.buyers for each in figures],
        visitorNum=[each.visitors for each in figures],
    )
