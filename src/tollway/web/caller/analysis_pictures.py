"""The answers of product analysis as figures, charts and tables with bars, for one day or two."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import NamedTuple

from tollway.operations.product_analysis.operation import DailySeries, ProductAnalysis
from tollway.web.area import Context
from tollway.web.blocks import (
    Block,
    Cell,
    Chart,
    Column,
    Columns,
    Empty,
    Figure,
    Figures,
    Table,
)
from tollway.web.charts import Series, lines
from tollway.web.wording import grouped, sentence

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
    def series(self) -> DailySeries:
        return self.answer.dateData.data


class _Measure(NamedTuple):
    """One of the series: what it is called, its values, how one of them is written, and the unit of
    the axis."""

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


class _Part(NamedTuple):
    """A source, keyword or search term of one day."""

    name: str
    visitors: int
    buyers: int
    rate: float


def pictures(context: Context, shown: Sequence[DayAnswer]) -> list[Block]:
    """All of it, the first day beside the second if there are two."""
    say = context.say
    return [
        _figures(context, shown),
        Columns([_chart(context, shown, measure) for measure in _MEASURES]),
        _parts(context, shown, say("Traffic sources"), say("Source"), _sources),
        Columns(
            [
                _parts(context, shown, say("Keywords"), say("Keyword"), _keywords),
                _parts(context, shown, say("Search terms"), say("Search term"), _searches),
            ]
        ),
    ]


def _change(context: Context, value: float, before: float, name: str) -> str:
    """How much more or less than another value; nothing if that was zero."""
    if not before:
        return ""
    percent = f"{(value - before) / before * 100:+.0f}".replace("-", "−")
    return context.say("{percent} % against {what}", percent=percent, what=name)


def _figures(context: Context, shown: Sequence[DayAnswer]) -> Figures:
    """The asked day: against the other one, or against the mean of the days before it."""
    say, figures = context.say, []
    for measure in _MEASURES:
        values = measure.values(shown[0].series)
        if shown[1:]:
            other = measure.values(shown[1].series)[-1]
            note = _change(context, values[-1], other, shown[1].name) or measure.written(other)
        else:
            mean = sum(values[:-1]) / max(1, len(values) - 1)
            note = _change(context, values[-1], mean, say("the mean of the days before"))
        figures.append(Figure(say(measure.title), measure.written(values[-1]), note=note))
    answer = shown[0].answer
    for title, value in (
        (say("Added to favourites"), answer.itemCltByrCnt),
        (say("Pieces paid"), answer.payItmCnt),
        (say("Pieces in carts"), answer.itemCartCnt),
    ):
        if value is not None:
            figures.append(Figure(title, grouped(value), note=say("today, until now")))
    return Figures(figures)


def _chart(context: Context, shown: Sequence[DayAnswer], measure: _Measure) -> Chart:
    """Thirty days up to the asked one, which is marked; two days have a line each."""
    say, labels = context.say, shown[0].series.date
    series = [
        Series(
            say("to {day}", day=each.name) if shown[1:] else say(measure.title),
            _KINDS[index],
            measure.values(each.series),
        )
        for index, each in enumerate(shown)
    ]
    columns = [Column(say("Day")), *(Column(each.name, "number") for each in series)]
    rows = [
        [Cell(label), *(Cell(measure.written(each.values[at]), "number") for each in series)]
        for at, label in enumerate(labels)
    ]
    title = say(measure.title) + (f" ({measure.unit})" if measure.unit else "")
    return Chart(
        title,
        lines(labels, series, title, say, marked=len(labels) - 1),
        Table(columns, rows, Empty("")),
        [(each.kind, each.name) for each in series] if shown[1:] else [],
    )


def _sources(answer: ProductAnalysis) -> list[_Part]:
    return [
        _Part(each.pageName, each.uvIndex, each.payByrCntIndex, each.payRateIndex)
        for each in answer.trafficSource
    ]


def _keywords(answer: ProductAnalysis) -> list[_Part]:
    return [
        _Part(each.pageName, each.uvIndex, each.payByrCntIndex, each.payRateIndex)
        for each in answer.keywords
    ]


def _searches(answer: ProductAnalysis) -> list[_Part]:
    return [
        _Part(each.pageName, each.uvIndex, each.payByrCntIndex, each.payRateIndex)
        for each in answer.searchKeywords
    ]


def _parts(
    context: Context,
    shown: Sequence[DayAnswer],
    title: str,
    named: str,
    of: Callable[[ProductAnalysis], list[_Part]],
) -> Table:
    """Ranked by visitors, with a bar for each; two days in columns beside each other."""
    say = context.say
    days = [{part.name: part for part in of(each.answer)} for each in shown]
    ranked = sorted(of(shown[0].answer), key=lambda part: -part.visitors)
    most = max((part.visitors for part in ranked), default=0) or 1
    columns = [Column(named), Column(""), Column(say("Visitors"), "number")]
    if shown[1:]:
        day = shown[1].day.strftime("%m-%d")
        columns.append(Column(context.say("on {day}", day=day), "number"))
    columns += [Column(say("Buyers"), "number"), Column(say("Conversion"), "number")]
    rows = []
    for part in ranked[:_ROWS_MAX]:
        row = [
            Cell(part.name),
            Cell("", share=round(100 * part.visitors / most)),
            context.number(part.visitors),
        ]
        if shown[1:]:
            other = days[1].get(part.name)
            row.append(context.number(other.visitors if other else None))
        row += [context.number(part.buyers), Cell(_rate(part.rate), "number")]
        rows.append(row)
    left = len(ranked) - _ROWS_MAX
    note = say("{count} more with fewer visitors", count=left) if left > 0 else ""
    empty = Empty(say("There is none for this day."))
    return Table(columns, rows, empty, title=title, note=note, is_ranked=True)
