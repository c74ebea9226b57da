"""The table of `make bench`, and the page that it writes."""

import sys
from pathlib import Path
from unittest.mock import Mock
from xml.etree import ElementTree

import msgspec
import pytest

from bench import performance
from bench.growth_curves import CURVES_FILE, Curve, Growth
from bench.page import RESULTS_FILE, write_page
from bench.report import comparison, goals, paced_table, printed, ratio_table, rounds_text
from bench.results import (
    CHANGE_MAX,
    Measured,
    Paced,
    Ratio,
    Results,
    Round,
    Row,
    by_cpu,
    by_rate,
    median_of,
    medians,
    ratio_of,
    take_rounds,
)

pytestmark = pytest.mark.sqlite
RATES = {"bare": 20_000.0, "sqlite": 9000.0, "postgresql": 5000.0, "nginx": 12_000.0}


def measured(name: str, rate: float) -> Measured:
    return Measured(rate, 5, 12, 1e6 / rate, 30 if name == "postgresql" else 0)


def results(*, without: str = "", speeds: tuple[float, ...] = (1, 1, 1)) -> Results:
    """A run on a machine that had these speeds in its rounds."""
    rates = {name: rate for name, rate in RATES.items() if name != without}
    rows = [
        Row(
            "analysis_ready",
            name,
            {1: Measured(rate / 4, 0.4, 0.9, 100), 64: measured(name, rate)},
            None if name == "bare" else Paced(rate * 0.7, 1, 4, 4, is_held=True),
        )
        for name, rate in rates.items()
    ]
    rounds = [
        Round({name: measured(name, rate * speed) for name, rate in rates.items()}, 0.1)
        for speed in speeds
    ]
    return Results(
        made_at="2026-01-02 03:04 UTC",
        length="quick",
        machine={"processor": "2 × Example"},
        orders=1234,
        scenarios={"analysis_ready": "product analysis, kept ready"},
        contestants={name: name for name in rates},
        rows=rows,
        rounds={"analysis_ready": rounds},
        memory_mib=dict.fromkeys(rates, 80.0),
        missing=[f"{without} was left out; it needs x (apt install x)"] if without else [],
    )


def test_the_table_has_rates_and_ratios_and_names_missed_and_met_goals() -> None:
    *head, of_bare, beside_nginx = comparison(results())[1]
    assert head == ["product analysis, kept ready", "20,000", "9,000", "5,000", "12,000"]
    assert (of_bare, beside_nginx) == ("0.45 (0.45–0.45)", "0.75 (0.75–0.75)")
    text = printed(results())
    assert "missed: product analysis, kept ready, of bare: 0.45 (0.45–0.45)" in text
    assert "missed: product analysis, kept ready, of nginx: 0.75" in text
    assert "sqlite: p99 4.0 times p50 at 70 % of the highest rate" in text
    found = results()
    for each in found.rounds["analysis_ready"]:
        each.measured["sqlite"].calls_a_s = 10_000
    assert any(
        line.startswith("met: product analysis, kept ready, of bare") for line in goals(found)
    )


def test_a_ratio_is_of_one_moment_whatever_the_machine_did_between_the_rounds() -> None:
    found = results(speeds=(1, 5, 0.3))
    # The medians of the rates would say something else.
    found.rounds["analysis_ready"][1].measured["sqlite"].calls_a_s = 20_000
    assert found.ratio("analysis_ready", "sqlite", "bare", by_rate) == Ratio(0.325, 0.45, 0.45)
    cpu = found.ratio("analysis_ready", "postgresql", "bare", by_cpu)
    assert cpu is not None
    assert cpu.median == pytest.approx(50 / (200 + 30))
    assert ["product analysis, kept ready, sqlite", "0.45 (0.33–0.45)"] in [
        row[:2] for row in ratio_table(found)
    ]


def test_a_round_in_which_the_machine_changed_is_repeated_and_does_not_count() -> None:
    # Turns of a server that is half as fast; the machine is slow from the third slice to the fifth.
    speeds = [1, 1, 0.2, 0.2, 0.2, *[1] * 20]
    asked: list[str] = []

    def measure(name: str) -> Measured:
        asked.append(name)
        return Measured(1000 * speeds[len(asked) - 1] / (2 if name == "half" else 1), 1, 2, 3)

    rounds = take_rounds("bare", ["half"], measure, count=2, repeats=5)
    assert asked == ["bare", "half", "bare", "half", "bare", "half", "bare", "half", "bare"]
    assert [each.change <= CHANGE_MAX for each in rounds] == [False, True, False, True]
    assert [each.is_kept for each in rounds] == [False, True, False, True]
    assert ratio_of(rounds, "half", "bare", by_rate) == Ratio(0.5, 0.5, 0.5)
    assert medians(rounds)["half"].calls_a_s == 300


def test_a_machine_that_is_never_steady_ends_the_rounds_all_the_same() -> None:
    rates = iter(range(1, 1000))
    rounds = take_rounds("bare", [], lambda _: Measured(2.0 ** next(rates), 1, 2, 3), 3, 2)
    assert len(rounds) == 5
    assert sum(each.is_kept for each in rounds) == 3


def test_the_report_says_which_rounds_did_not_count() -> None:
    found = results()
    changed = found.rounds["analysis_ready"][0]
    changed.change, changed.is_kept, changed.measured["sqlite"].calls_a_s = 2.0, False, 1.0
    assert found.ratio("analysis_ready", "sqlite", "bare", by_rate) == Ratio(0.45, 0.45, 0.45)
    assert "Of 3 rounds, 2 count." in rounds_text(found)
    assert "at most 10% in those, by 200% in all" in rounds_text(found)


def test_a_rate_that_was_not_held_meets_no_goal() -> None:
    found = results()
    for row in found.rows:
        row.paced = Paced(100, 300, 310, 1.03, is_held=False)
    assert "missed: product analysis, kept ready, sqlite: p99 1.0 times p50" in printed(found)
    assert paced_table(found)[1][1] == "300/310, rate not held"


def test_a_peer_that_is_not_installed_leaves_a_gap_and_a_sentence() -> None:
    text = printed(results(without="nginx"))
    assert "nginx was left out; it needs x (apt install x)" in text
    assert comparison(results(without="nginx"))[1][-1] == "–"


def test_slices_become_their_median() -> None:
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


def test_a_folder_for_the_page_is_made_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = tmp_path / "new" / "docs"

    def run(*_: object) -> Results:
        assert docs.is_dir()
        return results()

    monkeypatch.setattr(sys, "argv", ["bench", "quick", "--docs", str(docs)])
    monkeypatch.setattr(performance, "run", run)
    monkeypatch.setattr(performance, "missing", lambda _: [])
    monkeypatch.setattr(performance, "os", Mock(cpu_count=lambda: 2))
    performance.main()
    assert (docs / "performance.md").is_file()


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
