"""The tables of `make bench`: one for the terminal, and those of docs/performance.md."""

from collections.abc import Sequence

from bench.results import MAIN, Ratio, Results, by_cpu, by_own_cpu, by_rate

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
# A page of orders for a second of the gateway's processor time, PostgreSQL beside SQLite.
SHARED_ORDERS_MIN = 0.6
OWN = ("sqlite", "postgresql")
# In the order in which goals are listed.
_VERDICTS = ("missed", "unclear", "met")


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
    return "\n".join([*lines, "", *goals(found), rounds_text(found), *found.missing])


def comparison(found: Results) -> list[list[str]]:
    """Rates at the main number of connections, and the two ratios; the first row is the head."""
    names = list(found.contestants)
    head = ["", *found.contestants.values(), "of bare", "beside nginx"]
    rows = [head]
    for scenario, title in found.scenarios.items():
        rates = [found.rate(scenario, name) for name in names]
        ratios = [found.ratio(scenario, "sqlite", other, by_rate) for other in ("bare", "nginx")]
        rows.append([title, *map(rate_text, rates), *map(ratio_text, ratios)])
    return rows


def ratio_table(found: Results) -> list[list[str]]:
    """Each engine by the bare server and by nginx, by rate and by processor time."""
    head = ["", "of bare", "by processor time", "beside nginx", "by processor time"]
    rows = [head]
    for scenario, title in found.scenarios.items():
        for name in OWN:
            cells = [
                ratio_text(found.ratio(scenario, name, other, value))
                for other in ("bare", "nginx")
                for value in (by_rate, by_cpu)
            ]
            rows.append([f"{title}, {found.contestants[name].split(', ')[-1]}", *cells])
    return rows


def rounds_text(found: Results) -> str:
    """How steady the machine was."""
    rounds = [each for several in found.rounds.values() for each in several]
    kept = [each for each in rounds if each.is_kept]
    rates = [each.measured["bare"].calls_a_s for each in rounds]
    of_kept, of_all = (max(each.change for each in some) for some in (kept, rounds))
    return (
        f"Of {len(rounds)} rounds, {len(kept)} count. The bare server changed by at most "
        f"{of_kept:.0%} in those, by {of_all:.0%} in all; from the slowest round to the fastest it "
        f"had {rate_text(min(rates))} to {rate_text(max(rates))} calls a second."
    )


def goals(found: Results) -> list[str]:
    """One line for each goal: what was missed comes first."""
    lines = [
        _goal(
            f"{found.scenarios[scenario]}, of {other}",
            goal,
            found.ratio(scenario, "sqlite", other, by_rate),
            found.ratio(scenario, "sqlite", other, by_cpu),
        )
        for scenario, wanted in GOALS.items()
        for other, goal in zip(("bare", "nginx"), wanted, strict=True)
        if goal is not None and scenario in found.scenarios
    ]
    shared = found.ratio("orders", "postgresql", "sqlite", by_own_cpu)
    lines.append(
        _goal(
            "orders on PostgreSQL, of SQLite, without the database itself",
            SHARED_ORDERS_MIN,
            None,
            shared,
        )
    )
    for row in found.rows:
        if row.contestant in OWN and row.paced:
            title = f"{found.scenarios[row.scenario]}, {found.contestants[row.contestant]}"
            is_met = row.paced.is_held and row.paced.spread <= SPREAD_MAX
            lines.append(
                f"{'met' if is_met else 'missed'}: {title}: p99 {row.paced.spread:.1f} times p50 "
                f"at 70 % of the highest rate, wanted at most {SPREAD_MAX:.0f}"
                + ("" if row.paced.is_held else "; the rate was not held")
            )
    return sorted(filter(None, lines), key=lambda line: _VERDICTS.index(line.split(":")[0]))


def _goal(title: str, goal: float, rate: Ratio | None, cpu: Ratio | None) -> str:
    """Decided by rate, where there is one: it is what a caller gets."""
    reached = rate or cpu
    if reached is None:
        return ""
    verdict = "met" if round(reached.median, 2) >= goal else "missed"
    # A machine whose speed changed within the rounds decides nothing.
    if reached.low < goal <= reached.high:
        verdict = "unclear"
    beside = f"; {ratio_text(cpu)} by processor time" if rate else " by processor time"
    return f"{verdict}: {title}: {ratio_text(reached)}{beside if cpu else ''}, wanted {goal:.2f}"


def connections_table(found: Results, contestant: str) -> list[list[str]]:
    """Calls a second, p50 and p99 of one server, for each number of connections."""
    counts = sorted({count for row in found.rows for count in row.by_connections})
    heads = (f"{count} connection{'s' * (count != 1)}" for count in counts)
    rows = [["calls/s, p50/p99 ms", *heads]]
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
            late = "" if each is None or each.is_held else ", rate not held"
            cells.append(f"{ms(each.p50_ms)}/{ms(each.p99_ms)}{late}" if each else "–")
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


def ratio_text(ratio: Ratio | None) -> str:
    """With the quartiles, which say what the digits are worth."""
    return "–" if ratio is None else f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"


def ms(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"
