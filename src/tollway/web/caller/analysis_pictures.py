"""The answers of product analysis as figures, charts and tables with bars, for one day or two."""

from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from typing import NamedTuple

from tollway.operations.product_analysis.operation import (
    DailySeries,
    KeywordEntry,
    ProductAnalysis,
    SearchEntry,
    TrafficEntry,
)
from tollway.web.area import Context
from tollway.web.blocks import Block, Cell, Chart, Columns, Empty, Figure, Figures, Notice, Table
from tollway.web.charts import Series, lines
from tollway.web.wording import grouped, listed, sentence

_KINDS = ("line1", "line2")
_ROWS_MAX = 10


class DayAnswer(NamedTuple):
    """What the API answered for one day."""

    day: date
    answer: ProductAnalysis

    @property
    def name(self) -> str:
        return self.day.isoformat()

    @property
    def is_over(self) -> bool:
        """Whether the day was over when it was asked for: the live figures are those of today."""
        return self.answer.itemCltByrCnt is None

    @property
    def series(self) -> DailySeries:
        return self.answer.dateData.data


class _Measure(NamedTuple):
    """One of the series: its title, its values, how to format one, and the unit of the axis."""

    title: str
    values: Callable[[DailySeries], Sequence[float]]
    written: Callable[[float], str]
    unit: str = ""


def _money(value: float) -> str:
    return f"¥{value:,.2f}"


def _rate(value: float) -> str:
    return f"{value:.2f} %"


_MEASURES = (
    _Measure(sentence("Visitors"), lambda series: series.visitorNum, grouped),
    _Measure(sentence("Buyers"), lambda series: series.paidNum, grouped),
    _Measure(sentence("Paid amount"), lambda series: series.paymentAmount, _money, "¥"),
    _Measure(sentence("Conversion"), lambda series: series.paymentConversionRate, _rate, "%"),
)


def pictures(context: Context, shown: Sequence[DayAnswer]) -> list[Block]:
    """The whole answer; with two days, the first beside the second."""
    say, parts = context.say, partial(_parts, context, shown)
    return [
        *_unfinished(context, shown),
        _figures(context, shown),
        Columns([_chart(context, shown, measure) for measure in _MEASURES]),
        parts(say("Traffic sources"), say("Source"), lambda its: its.trafficSource),
        Columns(
            [
                parts(say("Keywords"), say("Keyword"), lambda its: its.keywords),
                parts(say("Search terms"), say("Search term"), lambda its: its.searchKeywords),
            ]
        ),
    ]


def _unfinished(context: Context, shown: Sequence[DayAnswer]) -> list[Notice]:
    """Says of two days which of them was not over when it was asked for."""
    days = [each.name for each in shown if not each.is_over]
    if not days or not shown[1:]:
        return []
    text = context.say(
        "{days}: counted until it was asked for, not for the whole day. Rates can be compared.",
        days=listed(context.say, days),
    )
    return [Notice(text, "soon")]


def _against(context: Context, shown: Sequence[DayAnswer], measure: _Measure) -> str:
    """The change of the first day against the other one. A count says which of them was not over; a
    rate can be compared with that of a whole day."""
    say, (day, other) = context.say, shown
    now, before = measure.values(day.series)[-1], measure.values(other.series)[-1]
    is_whole = (day.is_over and other.is_over) or measure.unit == "%"
    name = other.name
    if not is_whole:
        name = say("all of {day}", day=name) if other.is_over else say("{day} so far", day=name)
    change = _change(context, now, before, name)
    if not change:
        return measure.written(before)
    return change if is_whole or day.is_over else say("so far {change}", change=change)


def _change(context: Context, value: float, before: float, name: str) -> str:
    """The change against an earlier value in percent; empty if that was zero."""
    if not before:
        return ""
    percent = f"{(value - before) / before * 100:+.0f}".replace("-", "−")
    return context.say("{percent} % against {what}", percent=percent, what=name)


def _first_day(series: DailySeries) -> int:
    """Which day is the first with visitors: those before it have no figures, and are sent as 0."""
    found = (at for at, visitors in enumerate(series.visitorNum) if visitors)
    return next(found, 0)


def _figures(context: Context, shown: Sequence[DayAnswer]) -> Figures:
    """The requested day, compared with the other one or with the mean of the days before it. Of
    today, which is not over, only the rate can be compared with whole days."""
    say, figures = context.say, []
    answer = shown[0].answer
    first = _first_day(shown[0].series)
    for measure in _MEASURES:
        values = measure.values(shown[0].series)
        if shown[1:]:
            note = _against(context, shown, measure)
        elif not shown[0].is_over and measure.unit != "%":
            note = say("today, until now")
        else:
            before = values[first:-1]
            mean = sum(before) / max(1, len(before))
            note = _change(context, values[-1], mean, say("the mean of the days before"))
        figures.append(Figure(say(measure.title), measure.written(values[-1]), note=note))
    for title, value in (
        (say("Added to favourites"), answer.itemCltByrCnt),
        (say("Pieces paid"), answer.payItmCnt),
        (say("Pieces in carts"), answer.itemCartCnt),
    ):
        if value is not None:
            figures.append(Figure(title, grouped(value), note=say("today, until now")))
    return Figures(figures)


def _chart(context: Context, shown: Sequence[DayAnswer], measure: _Measure) -> Chart:
    """Thirty days up to the requested one, which is marked; with two, each has its own line."""
    say, labels = context.say, shown[0].series.date
    series = [
        Series(
            say("to {day}", day=each.name) if shown[1:] else say(measure.title),
            _KINDS[index],
            measure.values(each.series),
        )
        for index, each in enumerate(shown)
    ]
    columns = [say("Day"), *(each.name for each in series)]
    rows = [
        [Cell(label), *(Cell(measure.written(each.values[at]), "number") for each in series)]
        for at, label in enumerate(labels)
    ]
    title = say(measure.title) + (f" ({measure.unit})" if measure.unit else "")
    return Chart(
        title,
        lines(labels, series, title, say, marked=len(labels) - 1),
        Table(columns, rows),
        [(each.kind, each.name) for each in series] if shown[1:] else [],
    )


def _parts(
    context: Context,
    shown: Sequence[DayAnswer],
    title: str,
    named: str,
    of: Callable[[ProductAnalysis], Sequence[TrafficEntry | KeywordEntry | SearchEntry]],
) -> Table:
    """Entries ranked by visitors, each with a bar; two days are in adjacent columns."""
    say = context.say
    ranked = sorted(of(shown[0].answer), key=lambda part: -part.uvIndex)
    most = max((part.uvIndex for part in ranked), default=0) or 1
    other_day = {part.pageName: part.uvIndex for each in shown[1:] for part in of(each.answer)}
    columns = [named, "", say("Visitors")]
    if shown[1:]:
        day = shown[1].day.strftime("%m-%d")
        columns.append(context.say("on {day}", day=day))
    columns += [say("Buyers"), say("Conversion")]
    rows = []
    for part in ranked[:_ROWS_MAX]:
        row = [
            Cell(part.pageName),
            Cell("", share=round(100 * part.uvIndex / most)),
            context.number(part.uvIndex),
        ]
        if shown[1:]:
            row.append(context.number(other_day.get(part.pageName)))
        # Without buyers the API sends 0.01, which is no rate.
        rate = part.payRateIndex if part.payByrCntIndex else 0.0
        row += [context.number(part.payByrCntIndex), Cell(_rate(rate), "number")]
        rows.append(row)
    left = len(ranked) - _ROWS_MAX
    note = say("{count} more with fewer visitors", count=left) if left > 0 else ""
    empty = Empty(say("There is none for this day."))
    return Table(columns, rows, empty, title=title, note=note, is_ranked=True)
