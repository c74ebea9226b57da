"""The table of `make bench`, and the page that it writes."""

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from bench.growth_curves import CURVES_FILE, Curve, Growth
from bench.page import RESULTS_FILE, write_page
from bench.report import comparison, printed
from bench.results import Measured, Paced, Results, Row, median_of

pytestmark = pytest.mark.sqlite
RATES = {"bare": 20_000.0, "sqlite": 9000.0, "postgresql": 5000.0, "nginx": 12_000.0}


def results(*, without: str = "") -> Results:
    rates = {name: rate for name, rate in RATES.items() if name != without}
    rows = [
        Row(
            "analysis_ready",
            name,
            {
                1: Measured(rate / 4, 0.4, 0.9, 100),
                64: Measured(rate, 5, 12, 1e6 / rate, 30 if name == "postgresql" else 0),
            },
            None if name == "bare" else Paced(rate * 0.7, 1, 4),
        )
        for name, rate in rates.items()
    ]
    return Results(
        made_at="2026-01-02 03:04 UTC",
        length="quick",
        machine={"processor": "2 × Example"},
        orders=1234,
        scenarios={"analysis_ready": "product analysis, kept ready"},
        contestants={name: name for name in rates},
        rows=rows,
        memory_mib=dict.fromkeys(rates, 80.0),
        missing=[f"{without} was left out; it needs x (apt install x)"] if without else [],
    )


def test_the_table_has_rates_and_ratios_and_names_missed_goals() -> None:
    assert comparison(results()) == [
        ["", "bare", "sqlite", "postgresql", "nginx", "of bare", "beside nginx"],
        ["product analysis, kept ready", "20,000", "9,000", "5,000", "12,000", "0.45", "0.75"],
    ]
    text = printed(results())
    assert "missed: product analysis, kept ready: 0.45 of bare, wanted 0.50" in text
    assert "missed: product analysis, kept ready: 0.75 of nginx, wanted 1.00" in text
    assert "sqlite: p99 4.0 times p50 at 70 % of the highest rate" in text


def test_a_peer_that_is_not_installed_leaves_a_gap_and_a_sentence() -> None:
    text = printed(results(without="nginx"))
    assert "nginx was left out; it needs x (apt install x)" in text
    assert comparison(results(without="nginx"))[1][-1] == "–"


def test_rounds_become_their_median() -> None:
    rounds = [Measured(rate, 1, 2, 3) for rate in (10, 1000, 30)]
    assert median_of(rounds).calls_a_s == 30


def test_the_page_is_made_wholly_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / RESULTS_FILE
    file.parent.mkdir()
    file.write_bytes(msgspec.json.encode(results()))
    write_page(tmp_path)
    page = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert "{{" not in page
    assert "Not measured yet." in page
    assert "| product analysis, kept ready | 20,000 | 9,000 |" in page
    assert "| 200 + 30 |" in page
    for chart in ("calls.svg", "connections.svg"):
        assert f"performance/{chart}" in page
        drawn = ElementTree.parse(tmp_path / "performance" / chart)
        assert drawn.getroot().tag.endswith("svg")


def test_a_curve_becomes_a_chart_and_a_sentence(tmp_path: Path) -> None:
    by_number = Curve("orders", "Orders", "orders", "Why.", [10, 1000], {"a page": [100.0, 120.0]})
    by_name = Curve("filters", "Filters", "", "Why.", [], {"a page": [50.0, 55.0]}, ["no", "all"])
    file = tmp_path / CURVES_FILE
    file.parent.mkdir()
    found = Growth("2026-01-02", "quick", {"processor": "2 × Example"}, [by_number, by_name])
    file.write_bytes(msgspec.json.encode(found))
    write_page(tmp_path)
    page = " ".join((tmp_path / "performance.md").read_text(encoding="utf-8").split())
    assert "A page: 100 µs per call at 10 orders, 120 at 1,000 orders (1.20 times)" in page
    assert "50 µs per call at no, 55 at all (1.10 times)" in page
    for curve in (by_number, by_name):
        ElementTree.parse(tmp_path / "performance" / f"growth-{curve.name}.svg")
