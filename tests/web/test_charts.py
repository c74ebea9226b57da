"""Charts: values fill them, and their axes have round numbers."""

import re
from collections.abc import Callable

import pytest
from markupsafe import Markup

from tollway.web.charts import Series, lines, stacked_columns
from tollway.web.wording import PLAIN_VIEW

pytestmark = pytest.mark.sqlite


def _drawn(most: float, columns: int = 30) -> str:
    labels = [f"d{number}" for number in range(columns)]
    values = [0.0] * (columns - 1) + [most]
    return str(stacked_columns(labels, [Series("calls", "bar1", values)], "Calls", PLAIN_VIEW.say))


def _below(drawn: str) -> list[str]:
    return re.findall(r'y="214"[^>]*>([^<]+)<', drawn)


@pytest.mark.parametrize(
    ("most", "top"),
    [(0, 2), (1, 2), (3, 4), (9.5, 10), (11, 12), (54, 60), (101, 120), (26_000, 30_000)],
)
def test_an_axis_ends_at_a_round_number_that_is_not_much_more(most: float, top: int) -> None:
    ends = re.findall(r'text-anchor="end">([0-9,]+)<', _drawn(most))
    assert ends[:3] == ["0", f"{top // 2:,}", f"{top:,}"]


@pytest.mark.parametrize("most", [2**30, 10**15 + 1])
def test_large_values_fit_too(most: int) -> None:
    top = re.findall(r'text-anchor="end">([0-9,]+)<', _drawn(most))[2].replace(",", "")
    assert most <= int(top) < 2 * most


def test_parts_of_one_fill_their_chart() -> None:
    assert re.findall(r'text-anchor="end">([0-9.]+)<', _drawn(0.7))[:3] == ["0", "0.5", "1"]


def test_the_last_column_has_its_label() -> None:
    labels = _below(_drawn(5))
    assert labels.count("d29") == 2 and labels[0] == "d0"
    assert _below(_drawn(5, columns=1)) == ["d0", "d0"]


@pytest.mark.parametrize("draw", [stacked_columns, lines])
def test_values_are_said_with_the_punctuation_of_the_reader(
    draw: Callable[..., Markup],
) -> None:
    series = [Series("甲", "bar1", [1234]), Series("乙", "bar2", [5])]
    for language, said in (("en", "03: 甲 1,234, 乙 5"), ("zh", "03：甲 1,234，乙 5")):
        drawn = str(draw(["03"], series, "图", PLAIN_VIEW._replace(language=language).say))
        assert drawn.count(f'aria-label="{said}"') == 2 and f">{said}<" in drawn
