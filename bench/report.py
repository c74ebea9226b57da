"""The tables of `make bench`: one for the terminal, and those of docs/performance.md."""

from collections.abc import Sequence

from bench.results import MAIN, Results

# What the project wants to reach, of the bare server and beside nginx + Lua + Redis.
GOALS: dict[str, tuple[float, float | None]] = {
    "analysis_ready": (0.50, 1.0),
    "analysis_rows": (0.30, None),
    "orders": (0.20, 1.0),
    "claims": (0.25, None),
    "materials": (0.25, None),
    "waybills": (0.12, None),
    "refused_401": (0.75, None),
}
# p99 at most so many times p50, at 70 % of the highest rate.
SPREAD_MAX = 3.0
OWN = ("sqlite", "postgresql")


def printed(found: Results) -> str:
    """The comparison as plain text, with what was reached of the goals."""
    rows = comparison(found)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        f"{found.made_at}, {found.length} run, {found.machine['processor']}, "
        f"calls a second at {MAIN} connections"
    ]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells[1:]]))
    return "\n".join([*lines, "", *goals(found), *found.missing])


def comparison(found: Results) -> list[list[str]]:
    """Rates at the main number of connections, and the two ratios; the first row is the head."""
    names = list(found.contestants)
    head = ["", *found.contestants.values(), "of bare", "beside nginx"]
    rows = [head]
    for scenario, title in found.scenarios.items():
        rates = [found.rate(scenario, name) for name in names]
        ratios = [ratio(found, scenario, other) for other in ("bare", "nginx")]
        rows.append(
            [
                title,
                *map(rate_text, rates),
                *("–" if each is None else f"{each:.2f}" for each in ratios),
            ]
        )
    return rows


def ratio(found: Results, scenario: str, other: str) -> float | None:
    """The gateway on SQLite, measured by another server."""
    own, its = found.rate(scenario, "sqlite"), found.rate(scenario, other)
    return own / its if own and its else None


def goals(found: Results) -> list[str]:
    """One line for each goal that was missed."""
    lines = []
    for scenario, wanted in GOALS.items():
        for other, goal in zip(("bare", "nginx"), wanted, strict=True):
            reached = ratio(found, scenario, other)
            if goal is not None and reached is not None and reached < goal:
                title = found.scenarios[scenario]
                lines.append(f"missed: {title}: {reached:.2f} of {other}, wanted {goal:.2f}")
    for row in found.rows:
        if row.contestant in OWN and row.paced and row.paced.p99_ms > SPREAD_MAX * row.paced.p50_ms:
            title = f"{found.scenarios[row.scenario]}, {found.contestants[row.contestant]}"
            spread = row.paced.p99_ms / row.paced.p50_ms
            lines.append(f"missed: {title}: p99 {spread:.1f} times p50 at 70 % of the highest rate")
    return lines or ["All goals were reached."]


def connections_table(found: Results, contestant: str) -> list[list[str]]:
    """Calls a second, p50 and p99 of one server, for each number of connections."""
    counts = sorted({count for row in found.rows for count in row.by_connections})
    rows = [["calls/s, p50/p99 ms", *(f"{count} connections" for count in counts)]]
    for scenario, title in found.scenarios.items():
        row = found.find(scenario, contestant)
        cells = []
        for count in counts:
            each = row.by_connections.get(count) if row else None
            cells.append(
                f"{rate_text(each.calls_a_s)}, {ms(each.p50_ms)}/{ms(each.p99_ms)}" if each else "–"
            )
        rows.append([title, *cells])
    return rows


def paced_table(found: Results) -> list[list[str]]:
    """p50 and p99 at 70 % of the highest rate."""
    names = [name for name in found.contestants if name != "bare"]
    rows = [["p50/p99 ms", *(found.contestants[name] for name in names)]]
    for scenario, title in found.scenarios.items():
        cells = []
        for name in names:
            row = found.find(scenario, name)
            each = row.paced if row else None
            cells.append(f"{ms(each.p50_ms)}/{ms(each.p99_ms)}" if each else "–")
        rows.append([title, *cells])
    return rows


def cost_table(found: Results) -> list[list[str]]:
    """Processor time of a call: of the server, and of its database."""
    rows = [["µs per call", *found.contestants.values()]]
    for scenario, title in found.scenarios.items():
        cells = []
        for name in found.contestants:
            row = found.find(scenario, name)
            each = row.by_connections.get(MAIN) if row else None
            text = f"{each.cpu_us:,.0f}" if each else "–"
            cells.append(
                text + (f" + {each.database_cpu_us:,.0f}" if each and each.database_cpu_us else "")
            )
        rows.append([title, *cells])
    return rows


def memory_table(found: Results) -> list[list[str]]:
    return [
        ["", *found.contestants.values()],
        ["MiB", *(f"{found.memory_mib[name]:.0f}" for name in found.contestants)],
    ]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    return "\n".join(lines)


def rate_text(rate: float | None) -> str:
    """Three digits: more are not the same in the next run."""
    if rate is None:
        return "–"
    step = 10 ** max(0, len(str(int(rate))) - 3)
    return f"{round(rate / step) * step:,}"


def ms(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"
