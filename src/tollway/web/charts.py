"""Charts as SVG, drawn on the server: columns, lines, a sparkline. Values show on hover and focus,
and a page shows the same values as a table."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup, escape

from tollway.web.wording import Say, grouped

_HEIGHT = 220
_TOP, _BOTTOM, _LEFT = 24, 24, 44
# The full width of a page, and half of it. Texts have the same size in both.
WIDE, HALF = 960, 480
# Drawn again for phones: scaled down, the texts would be too small to read.
_PHONE = 330
_LABEL_WIDTH = 66
_LINE_HEIGHT = 15


class Series(NamedTuple):
    """One kind of value; `kind` is a class of the style sheet."""

    name: str
    kind: str
    values: Sequence[float]


def stacked_columns(
    labels: Sequence[str], series: Sequence[Series], title: str, say: Say
) -> Markup:
    """Stacked columns, one part per series, at full width."""
    draw = partial(_columns, labels, series, title, say)
    return draw(WIDE) + draw(_PHONE)


def _columns(
    labels: Sequence[str], series: Sequence[Series], title: str, say: Say, whole: int
) -> Markup:
    totals = [sum(each.values[index] for each in series) for index in range(len(labels))]
    most = _nice(max(totals, default=0))
    width = (whole - _LEFT) / max(1, len(labels))
    drawn = [_axis(most, whole)]
    for index, label in enumerate(labels):
        x, y = _LEFT + index * width, float(_HEIGHT - _BOTTOM)
        bars = []
        for each in series:
            height = each.values[index] / most * (_HEIGHT - _TOP - _BOTTOM)
            y -= height
            if height:
                bars.append(
                    f'<rect class="{each.kind}" x="{x + width * 0.12:.1f}" y="{y:.1f}" '
                    f'width="{width * 0.76:.1f}" height="{height:.1f}"/>'
                )
        parts = [f"{each.name} {grouped(each.values[index])}" for each in series]
        shown = [part for part, each in zip(parts, series, strict=True) if each.values[index]]
        shown = shown or [grouped(0)]
        drawn.append(_column(x, width, whole, say, label, shown, "".join(bars)))
        drawn.append(_below(index, len(labels), x, whole, label))
    return _svg(drawn, title, whole)


def lines(
    labels: Sequence[str], series: Sequence[Series], title: str, say: Say, marked: int | None = None
) -> Markup:
    """Lines over time, at half width; one position can be marked."""
    draw = partial(_lines, labels, series, title, say, marked)
    return draw(HALF) + draw(_PHONE)


def _lines(
    labels: Sequence[str],
    series: Sequence[Series],
    title: str,
    say: Say,
    marked: int | None,
    whole: int,
) -> Markup:
    most = _nice(max((value for each in series for value in each.values), default=0))
    width = (whole - _LEFT) / max(1, len(labels))
    scale = (_HEIGHT - _TOP - _BOTTOM) / most
    drawn = [_axis(most, whole)]
    if marked is not None:
        x = _LEFT + (marked + 0.5) * width
        drawn.append(
            f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
        )
    for each in series:
        points = [
            (_LEFT + (index + 0.5) * width, _HEIGHT - _BOTTOM - value * scale)
            for index, value in enumerate(each.values)
        ]
        path = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for (a, b), (c, d) in pairwise(points))
        drawn.append(f'<path class="{each.kind}" d="{path}"/>')
    for index, label in enumerate(labels):
        parts = [f"{each.name} {grouped(each.values[index])}" for each in series]
        x = _LEFT + index * width
        drawn.append(_column(x, width, whole, say, label, parts))
        drawn.append(_below(index, len(labels), x, whole, label))
    return _svg(drawn, title, whole)


def spark(values: Sequence[float]) -> Markup:
    """A sparkline: small columns without labels, beside the current number."""
    most = max(values, default=0) or 1
    width = 100 / max(1, len(values))
    bars = "".join(
        f'<rect class="bar1" x="{index * width:.2f}" y="{28 - value / most * 26:.1f}" '
        f'width="{width * 0.8:.2f}" height="{value / most * 26:.1f}"/>'
        for index, value in enumerate(values)
    )
    return Markup(  # noqa: S704 - numbers and our own names
        f'<svg class="spark chart" viewBox="0 0 100 28" preserveAspectRatio="none" '
        f'aria-hidden="true">{bars}</svg>'
    )


def _below(index: int, count: int, x: float, whole: int, label: str) -> str:
    """The label below a column: always for the last one, for others as space allows."""
    space = _LABEL_WIDTH if whole == _PHONE else 2 * _LABEL_WIDTH
    if index == count - 1:
        return f'<text x="{whole}" y="{_HEIGHT - 6}" text-anchor="end">{escape(label)}</text>'
    if index % -(-count * space // whole) or x > whole - space:
        return ""
    return f'<text x="{x:.1f}" y="{_HEIGHT - 6}">{escape(label)}</text>'


def _column(
    x: float, width: float, whole: int, say: Say, label: str, parts: Sequence[str], inner: str = ""
) -> str:
    tip = say("{title}: {text}", title=label, text=say(", ").join(parts))
    # Anchored so that the text stays within the chart.
    at, side = (x + width, "end") if x > whole * 0.5 else (x, "start")
    # On one line the values do not fit on a phone.
    lines = [tip] if whole > _PHONE else [label, *parts]
    drawn = "".join(
        f'<text x="{at:.1f}" y="{14 + _LINE_HEIGHT * index}" text-anchor="{side}">'
        f"{escape(line)}</text>"
        for index, line in enumerate(lines)
    )
    return (
        f'<g class="column" tabindex="0" role="img" aria-label="{escape(tip)}">{inner}'
        f'<rect class="hit" x="{x:.1f}" y="{_TOP}" width="{width:.1f}" '
        f'height="{_HEIGHT - _TOP - _BOTTOM}"/>'
        f'<g class="tip">{drawn}</g></g>'
    )


def _axis(most: int, whole: int) -> str:
    drawn = []
    for share in (0, 0.5, 1):
        y = _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)
        label = most * share
        shown = grouped(int(label) if label == int(label) else label)
        drawn.append(
            f'<line class="axis" x1="{_LEFT}" x2="{whole}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{shown}</text>'
        )
    return "".join(drawn)


def _nice(most: float) -> int:
    """The next round number up. Its half is a whole number too, unless the values are fractions
    below 1."""
    if 0 < most < 1:
        return 1
    factors: tuple[int, ...] = (2, 4, 6, 8, 10)
    while most > factors[-1]:
        last = factors[-1]
        factors = tuple(each * last // 10 for each in (12, 16, 20, 24, 30, 40, 50, 60, 80, 100))
    return next(each for each in factors if most <= each)


def _svg(drawn: Sequence[str], title: str, whole: int) -> Markup:
    kind = {_PHONE: "chart phone", WIDE: "chart page wide"}.get(whole, "chart page")
    return Markup(  # noqa: S704 - every text in it is escaped
        f'<svg class="{kind}" viewBox="0 0 {whole} {_HEIGHT}" role="group" '
        f'aria-label="{escape(title)}">{"".join(drawn)}</svg>'
    )
