"""What the figures of a product analysis are compared with, and how its rates are shown."""

from datetime import date
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tollway.operations.product_analysis.operation import (
    DailySeries,
    DateData,
    ProductAnalysis,
    TrafficEntry,
)
from tollway.web.area import Context
from tollway.web.blocks import Cell, Figures, Table
from tollway.web.caller.analysis_pictures import DayAnswer, pictures

pytestmark = pytest.mark.sqlite
_AGAINST = "against the mean of the days before"


def _context() -> Context:
    context = SimpleNamespace(number=lambda value: Cell(str(value), "number"))
    context.say = lambda said, /, **values: said.format_map(values) if values else said
    return cast(Context, context)


def _shown(visitors: list[int], **more: Any) -> list[Any]:
    days = [f"01-{day:02}" for day in range(1, 31)]
    numbers = [0] * (30 - len(visitors)) + visitors
    series = DailySeries([1.0] * 30, days, [1.0] * 30, [1] * 30, numbers)
    sources = [TrafficEntry("search", 2, 3, 40, 5.0), TrafficEntry("home", 0, 0, 25, 0.01)]
    answer = ProductAnalysis(sources, [], [], DateData(series), "1", "", "", "", "", **more)
    return pictures(_context(), [DayAnswer(date(2026, 1, 30), answer)])


def _visitors(shown: list[Any]) -> str:
    (figures,) = [each for each in shown if isinstance(each, Figures)]
    return str(figures.figures[0].note)


def test_a_day_is_compared_with_the_days_that_have_figures() -> None:
    assert _visitors(_shown([100] * 29 + [110])) == f"+10 % {_AGAINST}"
    # Days before the first figures were loaded are no days without visitors.
    assert _visitors(_shown([100, 100, 110])) == f"+10 % {_AGAINST}"
    assert _visitors(_shown([100, 0, 100])) == f"+100 % {_AGAINST}"
    assert _visitors(_shown([110])) == ""


def test_today_is_not_compared_with_whole_days() -> None:
    today = {"itemCltByrCnt": 1, "payItmCnt": 1, "itemCartCnt": 1}
    assert _visitors(_shown([100] * 29 + [5], **today)) == "today, until now"


def test_a_source_without_buyers_has_no_conversion() -> None:
    (table,) = [each for each in _shown([1] * 30) if isinstance(each, Table)]
    assert [row[-1].text for row in table.rows] == ["5.00 %", "0.00 %"]
