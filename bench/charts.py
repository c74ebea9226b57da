"""Charts as SVG files for the pages of docs/: bars for comparisons, curves for growth. Values are
written beside the bars and points, so that a chart can be read without its table."""

import math
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

_WIDTH, _LEFT, _RIGHT, _TOP = 860, 230, 90, 64
_BAR, _GAP, _GROUP_GAP = 13, 2, 14
_LEGEND_ROW = 18
_COLOURS = ("#0b6e4f", "#5aa9e6", "#e09f3e", "#8d99ae", "#9e2a2b", "#6a4c93", "#3d405b")
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.t{font-size:15px;font-weight:600}"
    ".v{font-size:11px;fill:#555}.a{stroke:#ddd}"
)


class Series(NamedTuple):
    """One line, or one bar of each group; None where nothing was measured."""

    name: str
    values: Sequence[float | None]


def bars(
    title: str, groups: Sequence[str], series: Sequence[Series], *, is_log: bool = True
) -> str:
    """Horizontal bars; on a logarithmic scale where they differ by a factor of a hundred."""
    values = [value for each in series for value in each.values if value]
    low = 10 ** math.floor(math.log10(min(values, default=1)))
    high, across = max(values, default=10.0), _WIDTH - _LEFT - _RIGHT

    def length(value: float) -> float:
        if is_log:
            return max(1.0, math.log10(value / low) / max(1e-9, math.log10(high / low)) * across)
        return value / high * across

    drawn, y = [], float(_TOP)
    for index, group in enumerate(groups):
        shown = [(n, each) for n, each in enumerate(series) if each.values[index]]
        middle = y + len(shown) * (_BAR + _GAP) / 2 + 4
        drawn.append(
            f'<text x="{_LEFT - 8}" y="{middle:.0f}" text-anchor="end">{escape(group)}</text>'
        )
        for number, each in shown:
            value = each.values[index] or low
            width = length(value)
            drawn.append(
                f'<rect x="{_LEFT}" y="{y:.0f}" width="{width:.1f}" height="{_BAR}" '
                f'fill="{_COLOURS[number]}"/><text class="v" x="{_LEFT + width + 4:.1f}" '
                f'y="{y + _BAR - 2:.0f}">{number_text(value)}</text>'
            )
            y += _BAR + _GAP
        y += _GROUP_GAP
    return _svg(title, [each.name for each in series], drawn, y)


def curves(title: str, unit: str, xs: Sequence[float], series: Sequence[Series]) -> str:
    """Lines over values that grow by factors, from zero upwards."""
    left, bottom, height = 70, 320.0, 230
    most = _round_up(max((value for each in series for value in each.values if value), default=1.0))
    first, last = math.log10(max(xs[0], 1)), math.log10(max(xs[-1], 1))
    across = (_WIDTH - left - 60) / max(1e-9, last - first)

    def point(x: float, value: float) -> tuple[float, float]:
        return left + (math.log10(max(x, 1)) - first) * across, bottom - value / most * height

    drawn = []
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * height
        drawn.append(
            f'<line class="a" x1="{left}" x2="{_WIDTH - 40}" y1="{y:.0f}" y2="{y:.0f}"/>'
            f'<text class="v" x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">'
            f"{number_text(most * share)}</text>"
        )
    for x in xs:
        at, _ = point(x, 0)
        drawn.append(
            f'<text class="v" x="{at:.0f}" y="{bottom + 18:.0f}" text-anchor="middle">'
            f"{number_text(x)}</text>"
        )
    for number, each in enumerate(series):
        points = [point(x, v) for x, v in zip(xs, each.values, strict=True) if v is not None]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        colour = _COLOURS[number % len(_COLOURS)]
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    drawn.append(f'<text class="v" x="{left}" y="{bottom + 38:.0f}">{escape(unit)}</text>')
    return _svg(title, [each.name for each in series], drawn, bottom + 48)


def number_text(value: float) -> str:
    """A number with as many digits as can be relied on."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _round_up(value: float) -> float:
    """The next round number, for the top of a scale; half of it is round too."""
    unit = 10.0 ** math.floor(math.log10(value))
    return next(each * unit for each in (1, 2, 3, 4, 5, 6, 8, 10) if each * unit >= value)


def _legend(names: Sequence[str]) -> tuple[list[str], int]:
    """The names with their colours, and in how many rows they fit."""
    drawn, x, row = [], 16.0, 0
    for number, name in enumerate(names):
        width = 34 + 6.9 * len(name)
        if x + width > _WIDTH and x > 16:
            x, row = 16.0, row + 1
        y = 34 + row * _LEGEND_ROW
        drawn.append(
            f'<rect x="{x:.0f}" y="{y}" width="12" height="12" '
            f'fill="{_COLOURS[number % len(_COLOURS)]}"/>'
            f'<text x="{x + 17:.0f}" y="{y + 10}">{escape(name)}</text>'
        )
        x += width
    return drawn, row + 1


def _svg(title: str, names: Sequence[str], drawn: Sequence[str], height: float) -> str:
    legend, rows = _legend(names)
    below = (rows - 1) * _LEGEND_ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height + below + 8:.0f}" '
        f'role="img" aria-label="{escape(title)}"><style>{_STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>'
        f'<text class="t" x="16" y="22">{escape(title)}</text>'
        f'{"".join(legend)}<g transform="translate(0 {below})">{"".join(drawn)}</g></svg>\n'
    )
