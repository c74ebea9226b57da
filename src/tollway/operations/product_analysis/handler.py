"""The work of product analysis: checks the date, reads the figures, joins the encoded parts.

An answer for a past day stays the same until figures are loaded, so recent answers are cached, and
so are the days that were read. A new version of the figures clears both caches.
"""

from collections.abc import Awaitable, Callable
from datetime import date
from functools import lru_cache

from tollway.contract.envelope import LIST_TO_COME, template_around
from tollway.contract.operation import CallInfo
from tollway.contract.reasons import Reason, Refusal
from tollway.operations.product_analysis.operation import (
    DailySeries,
    DateData,
    ProductAnalysis,
    ProductAnalysisRequest,
)
from tollway.operations.product_analysis.queries import FigureCache, Figures, ProductFacts
from tollway.operations.product_analysis.series import DayFigures, series_of
from tollway.store.cache_versions import Versions
from tollway.store.concurrency import read_at_once
from tollway.store.database import Database

_KEPT_BYTES_MAX = 16 * 1024 * 1024
_TEMPLATES_MAX = 4096


class ProductAnalysisHandler:
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
        answer = kept.answers.get(request)
        if answer is not None:
            return answer
        product_id, day = request.product_id, request.query_date
        days = series_of(day)
        figures = kept.figures.read_at_once(self._database, product_id, day, days)
        if figures is None:
            return read_at_once(self._database, self._read(request, days, kept))
        return _analysis(request, days, figures, kept)

    async def _read(self, request: ProductAnalysisRequest, days: range, kept: "_Answers") -> bytes:
        product_id, day = request.product_id, request.query_date
        figures = await kept.figures.read(self._database, product_id, day, days)
        if figures is None:
            raise Refusal(Reason.PRODUCT_UNKNOWN)
        return _analysis(request, days, figures, kept)


def _analysis(
    request: ProductAnalysisRequest, days: range, figures: Figures, kept: "_Answers"
) -> bytes:
    """Makes the answer, and caches it."""
    asked = figures.days.figures.get(days[-1])
    if asked is None:
        raise Refusal(Reason.PRODUCT_WITHOUT_DATA)
    if request.query_date == kept.today:
        template = _template(request.product_id, figures.product, asked)
    else:
        template = _kept_template(request.product_id, figures.product)
    # The lists in the order of the answer's fields.
    answer = template % (figures.parts + figures.days.series(days))
    # Not if figures were loaded meanwhile: a failover may lose them, and bring the version back.
    if figures.version == kept.version:
        kept.keep(request, answer)
    return answer


def _template(product_id: str, facts: ProductFacts, live: DayFigures | None = None) -> bytes:
    """An answer without its lists; with the figures that are sent for today only, if given."""
    to_come = LIST_TO_COME
    return template_around(
        ProductAnalysis(
            trafficSource=to_come,
            keywords=to_come,
            searchKeywords=to_come,
            dateData=DateData(DailySeries(*[[to_come]] * 5)),
            itemId=product_id,
            itemName=facts.title,
            pic=facts.picture_url,
            shopName=facts.shop_name,
            shop_name=facts.shop_name,
            itemCltByrCnt=live.collections if live else None,
            payItmCnt=live.pieces_paid if live else None,
            itemCartCnt=live.pieces_carted if live else None,
        )
    )


# It depends only on its arguments, so it stays valid when figures change. Not used for today, whose
# figures change with every load.
_kept_template = lru_cache(_TEMPLATES_MAX)(_template)


class _Answers:
    """A cache of the answers for one version of the figures and one day, and of the figures."""

    def __init__(self, version: int, today: date) -> None:
        self.version = version
        self.today = today
        self.figures = FigureCache(version)
        self.answers: dict[ProductAnalysisRequest, bytes] = {}
        self._bytes = 0

    def keep(self, request: ProductAnalysisRequest, answer: bytes) -> None:
        if self._bytes + len(answer) > _KEPT_BYTES_MAX:
            self.answers.clear()
            self._bytes = 0
        self.answers[request] = answer
        self._bytes += len(answer)
