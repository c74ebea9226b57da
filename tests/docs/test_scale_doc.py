"""What the page about scale says of the tables is so, for every table; its arithmetic adds up."""

import re

from tests.docs.pages import DOCS, rows_of
from tollway.store.tables import ALL_TABLES

PAGE = DOCS / "scale.md"
SHARDED = PAGE.read_text(encoding="utf-8").partition("\n## Sharded\n")[2].partition("\n## ")[0]
# What the arithmetic starts from, as the page says.
_GATEWAY_S, _DATABASE_S, _LOG_BYTES, _ENTRY_BYTES = 127e-6, 110e-6, 850, 376
_USED, _CALLS_A_COMMIT, _DAY_S = 0.6, 30, 86_400


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


def test_the_arithmetic_adds_up() -> None:
    rates, each = _row("calls a second"), _row("calls a second on each")
    expected = {
        "cores for gateways": [rate * _GATEWAY_S / _USED for rate in rates],
        "cores for databases": [rate * _DATABASE_S / _USED for rate in rates],
        "commits, and at most as many fsyncs, on each": [one / _CALLS_A_COMMIT for one in each],
        "log on each, and to its standby": [one * _LOG_BYTES / 1e6 for one in each],
        "log of all in a day": [rate * _LOG_BYTES * _DAY_S / 1e12 for rate in rates],
        "entries a day": [rate * _DAY_S / 1e9 for rate in rates],
        "bytes of entries a day": [rate * _ENTRY_BYTES * _DAY_S / 1e12 for rate in rates],
    }
    for title, numbers in expected.items():
        for told, number in zip(_row(title), numbers, strict=True):
            # Rounded for reading, and cores up to whole ones.
            assert abs(told - number) <= max(0.06 * number, 1 if "cores" in title else 0), title
