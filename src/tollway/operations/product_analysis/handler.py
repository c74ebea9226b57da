"""The work of product analysis: checks the date, reads the figures, joins what is encoded.

An answer for a past day stays the same until figures are loaded, so the last answers are cached,
and the days that were read. Both go when the version of the figures changes.
"""

from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any

import msgspec

from tollway.contract.envelope import encode_data
from tollway.contract.operation import CallInfo
from tollway.contract.reasons import Reason, Refusal
from tollway.operations.product_analysis.operation import (
    DateData,
    ProductAnalysis,
    ProductAnalysisRequest,
)
from tollway.operations.product_analysis.queries import KnownFigures
from tollway.operations.product_analysis.series import series_of
from tollway.store.concurrency import read_at_once
from tollway.store.database import Database
from tollway.store.versions import Versions

_KEPT_BYTES_MAX = 16 * 1024 * 1024
_encoded: Any = msgspec.Raw


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
        if answer is not None:
            return answer
        return read_at_once(self._database, self._make(request, today, kept))

    async def _make(self, request: ProductAnalysisRequest, today: date, kept: "_Answers") -> bytes:
        answer = encode_data(await self._analyse(request, today, kept.figures))
        # If figures were loaded meanwhile, this goes to a cache that is no longer read.
        kept.keep(request, answer)
        return answer

    async def _analyse(
        self, request: ProductAnalysisRequest, today: date, known: KnownFigures
    ) -> ProductAnalysis:
        product_id, day = request.product_id, request.query_date
        figures = await known.read(self._database, product_id, day)
        if figures is None:
            raise Refusal(Reason.PRODUCT_UNKNOWN)
        asked = figures.days.figures.get(day.toordinal())
        if asked is None:
            raise Refusal(Reason.PRODUCT_WITHOUT_DATA)
        facts, parts = figures.product, figures.parts
        # Sent for today only.
        live = asked if day == today else None
        return ProductAnalysis(
            trafficSource=_encoded(parts.sources),
            keywords=_encoded(parts.keywords),
            searchKeywords=_encoded(parts.searches),
            dateData=DateData(figures.days.series(series_of(day))),
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
