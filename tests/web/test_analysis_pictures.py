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
from tollway.web.blocks import Cell, Figures, Notice, Table
from tollway.web.caller.analysis_pictures import DayAnswer, pictures

pytestmark = pytest.mark.sqlite
_AGAINST = "against the mean of the days before"


def _context() -> Context:
    context = SimpleNamespace(number=lambda value: Cell(str(value), "number"))
    context.say = lambda said, /, **values: said.format_map(values) if values else said
    return cast(Context, context)


def _answer(visitors: list[int], **more: Any) -> ProductAnalysis:
    days = [f"01-{day:02}" for day in range(1, 31)]
    numbers = [0] * (30 - len(visitors)) + visitors
    series = DailySeries([1.0] * 30, days, [1.0] * 30, [1] * 30, numbers)
    sources = [TrafficEntry("search", 2, 3, 40, 5.0), TrafficEntry("home", 0, 0, 25, 0.01)]
    return ProductAnalysis(sources, [], [], DateData(series), "1", "", "", "", "", **more)


def _shown(visitors: list[int], **more: Any) -> list[Any]:
    return pictures(_context(), [DayAnswer(date(2026, 1, 30), _answer(visitors, **more))])


def _visitors(shown: list[Any]) -> str:
    (figures,) = [each for each in shown if isinstance(each, Figures)]
    return str(figures.figures[0].note)


def test_a_day_is_compared_with_the_days_that_have_figures() -> None:
    assert _visitors(_shown([100] * 29 + [110])) == f"+10 % {_AGAINST}"
    # Days before the first figures were loaded are no days without visitors.
    assert _visitors(_shown([100, 100, 110])) == f"+10 % {_AGAINST}"
    assert _visitors(_shown([100, 0, 100])) == f"+100 % {_AGAINST}"
    assert _visitors(_shown([110])) == ""


_TODAY = {"itemCltByrCnt": 1, "payItmCnt": 1, "itemCartCnt": 1}


def test_today_is_not_compared_with_whole_days() -> None:
    assert _visitors(_shown([100] * 29 + [5], **_TODAY)) == "today, until now"


def test_today_beside_another_day_is_said_to_be_a_part_of_one() -> None:
    whole = DayAnswer(date(2026, 1, 29), _answer([100] * 30))
    part = DayAnswer(date(2026, 1, 30), _answer([5] * 30, **_TODAY))
    for days, note, change in (
        ((part, whole), "so far −95 % against all of 2026-01-29", "2026-01-29"),
        ((whole, part), "+1900 % against 2026-01-30 so far", "2026-01-30"),
        ((part, part), "so far +0 % against 2026-01-30 so far", "2026-01-30"),
    ):
        shown = pictures(_context(), days)
        (notice,) = [each for each in shown if isinstance(each, Notice)]
        assert "2026-01-30: counted until it was asked for" in notice.text
        (figures,) = [each for each in shown if isinstance(each, Figures)]
        assert figures.figures[0].note == note
        # The rate of a part of a day can be compared.
        assert figures.figures[3].note == f"+0 % against {change}"
    shown = pictures(_context(), [whole, whole])
    assert _visitors(shown) == "+0 % against 2026-01-29"
    assert not [each for each in shown if isinstance(each, Notice)]


def test_a_source_without_buyers_has_no_conversion() -> None:
    (table,) = [each for each in _shown([1] * 30) if isinstance(each, Table)]
    assert [row[-1].text for row in table.rows] == ["5.00 %", "0.00 %"]
