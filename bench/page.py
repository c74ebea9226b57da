"""docs/performance.md: made wholly from the JSON files of the last runs and a template."""

import ast
import sys
import textwrap
from pathlib import Path

import msgspec

from bench import report
from bench.charts import Series, bars, curves
from bench.growth_curves import CURVES_FILE, Growth
from bench.results import MAIN, Results

RESULTS_FILE = Path("performance/calls.json")
_HERE = Path(__file__).parent
_TEMPLATE = _HERE / "performance.template.md"
_PARTS = (
    *("run", "missing", "comparison", "rounds", "ratios", "connections", "paced", "costs"),
    *("memory", "peers", "goals", "growth"),
)
_PEERS = {
    "bare": ("The bare server", _HERE / "peers/bare.py"),
    "nginx": ("nginx + Lua + Redis", _HERE / "peers/nginx.py"),
    "fastapi_sqlite": ("FastAPI + SQLAlchemy", _HERE / "peers/fastapi_app.py"),
}


def write_results(docs: Path, file: Path, found: Results | Growth) -> None:
    """Stores what a run has found, and makes the page again."""
    (docs / file).parent.mkdir(exist_ok=True)
    (docs / file).write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    write_page(docs)


def write_page(docs: Path) -> None:
    """What was not measured yet is left out with a sentence."""
    values = dict.fromkeys(_PARTS, "Not measured yet.")
    if (docs / RESULTS_FILE).exists():
        found = msgspec.json.decode((docs / RESULTS_FILE).read_bytes(), type=Results)
        _write_charts(found, docs / RESULTS_FILE.parent)
        values |= _values(found)
    if (docs / CURVES_FILE).exists():
        growth = msgspec.json.decode((docs / CURVES_FILE).read_bytes(), type=Growth)
        values["growth"] = _growth(growth, docs)
    text = _TEMPLATE.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    (docs / "performance.md").write_text(text, encoding="utf-8")


def _values(found: Results) -> dict[str, str]:
    table = report.markdown
    connections = "\n\n".join(
        f"{found.contestants[name]}:\n\n{table(report.connections_table(found, name))}"
        for name in (*report.OWN, "nginx")
        if name in found.contestants
    )
    machine = ", ".join(f"{name} {value}" for name, value in found.machine.items())
    missing = "\n".join(f"- {each}." for each in found.missing)
    return {
        "run": _wrapped(
            f"Measured {found.made_at} by a {found.length} run of `make bench`, with "
            f"{found.orders:,} orders in the shop that is read. Machine: {machine}."
        ),
        "missing": f"\n{missing}\n" if missing else "",
        "comparison": table(report.comparison(found)),
        "rounds": _wrapped(report.rounds_text(found)),
        "ratios": table(report.ratio_table(found)),
        "connections": connections,
        "paced": table(report.paced_table(found)),
        "costs": table(report.cost_table(found)),
        "memory": table(report.memory_table(found)),
        "peers": "\n".join(
            _bullet(f"**{title}**: {_docstring(path)}")
            for name, (title, path) in _PEERS.items()
            if name in found.contestants
        ),
        "goals": "\n".join(_bullet(each) for each in report.goals(found)),
    }


def _growth(found: Growth, docs: Path) -> str:
    parts = [
        _wrapped(
            f"Measured {found.made_at} by a {found.length} run of `make growth`, on "
            f"{found.machine['processor']}, load before the run "
            f"{found.machine.get('load before the run', 'unknown')}, stolen by the host during the "
            f"run {found.machine.get('stolen by the host during the run', 'unknown')}."
        )
    ]
    for each in found.curves:
        chart = CURVES_FILE.parent / f"growth-{each.name}.svg"
        (docs / chart).write_text(each.drawn(), encoding="utf-8")
        sentence = each.sentence[0].upper() + each.sentence[1:]
        parts += [f"### {each.title}", f"![{each.title}]({chart})", _wrapped(sentence)]
    return "\n\n".join(parts)


def _write_charts(found: Results, folder: Path) -> None:
    scenarios = list(found.scenarios)
    series = [
        Series(title, [found.rate(each, name) for each in scenarios])
        for name, title in found.contestants.items()
    ]
    titles = list(found.scenarios.values())
    chart = bars(f"Calls a second on one core, {MAIN} connections, logarithmic", titles, series)
    (folder / "calls.svg").write_text(chart, encoding="utf-8")
    counts = sorted({count for row in found.rows for count in row.by_connections})
    lines = [
        Series(title, [found.rate(name, "sqlite", count) for count in counts])
        for name, title in list(found.scenarios.items())[:6]
    ]
    curve = curves("Calls a second, Tollway on SQLite", "connections", counts, lines)
    (folder / "connections.svg").write_text(curve, encoding="utf-8")


def _docstring(path: Path) -> str:
    """What a peer is and what it leaves out, from its own words."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split())


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _bullet(text: str) -> str:
    return textwrap.fill(
        text,
        100,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    write_page(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
