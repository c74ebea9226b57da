"""What the page about scale says of the tables is so, for every table; its arithmetic adds up."""

import re

from tests.docs.pages import DOCS, rows_of
from tollway.operations.catalogue import ALL_TABLES

PAGE = DOCS / "scale.md"
SHARDED = PAGE.read_text(encoding="utf-8").partition("\n## Sharded\n")[2].partition("\n## ")[0]
_DAY_S = 86_400


def test_every_table_has_its_place() -> None:
    for table in ALL_TABLES:
        assert f"`{table.name}`" in SHARDED, table.name


def test_no_table_refers_to_another() -> None:
    assert not [table.name for table in ALL_TABLES if table.foreign_keys]


def test_the_keys_of_distributed_tables_start_with_their_column() -> None:
    tables = {table.name: table for table in ALL_TABLES}
    distributed = [row for row in rows_of(PAGE) if len(row) == 3 and re.match(r"`\w+_?id`", row[1])]
    assert len(distributed) >= 4
    for names, column, _ in distributed:
        for name in re.findall(r"`(\w+)`", names):
            if name in tables:
                first = next(iter(tables[name].primary_key.columns)).name
                assert first == column.partition("`")[2].partition("`")[0], name


def _row(title: str) -> list[float]:
    (found,) = [row for row in rows_of(PAGE) if row[0] == title]
    return [float(re.sub(r"[^\d.]", "", cell)) for cell in found[1:]]


def _start() -> list[float]:
    """What the arithmetic starts from, as the page says."""
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    found = re.search(
        r"(\d+) calls to a commit, (\d+) µs of a gateway, (\d+) µs of a database, "
        r"(\d+) bytes of log, (\d+) bytes an entry; cores used to (\d+) %",
        text,
    )
    assert found is not None
    return [float(number) for number in found.groups()]


def test_the_arithmetic_adds_up() -> None:
    a_commit, gateway_us, database_us, log_bytes, entry_bytes, used_percent = _start()
    used_us_a_s = used_percent / 100 * 1e6
    rates, each = _row("calls a second"), _row("calls a second on each")
    expected = {
        "cores for gateways": [rate * gateway_us / used_us_a_s for rate in rates],
        "cores for databases": [rate * database_us / used_us_a_s for rate in rates],
        "commits, and at most as many fsyncs, on each": [one / a_commit for one in each],
        "log on each, and to its standby": [one * log_bytes / 1e6 for one in each],
        "log of all in a day": [rate * log_bytes * _DAY_S / 1e12 for rate in rates],
        "entries a day": [rate * _DAY_S / 1e9 for rate in rates],
        "bytes of entries a day": [rate * entry_bytes * _DAY_S / 1e12 for rate in rates],
    }
    for title, numbers in expected.items():
        for shown, number in zip(_row(title), numbers, strict=True):
            # Rounded for reading, and cores up to whole ones.
            assert abs(shown - number) <= max(0.06 * number, 1 if "cores" in title else 0), title
