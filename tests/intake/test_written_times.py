"""Tables as shops export them: times written out, and numbers marked as text."""

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import openpyxl
import pytest

from tollway.intake.files import read_typed
from tollway.operations.catalogue import RECORD_KINDS

SHANGHAI = ZoneInfo("Asia/Shanghai")
AT_S = 1_793_495_580  # 2026-11-01 09:13:00 in Shanghai


def read(path: Path, kind: str = "orders") -> list[dict[str, object] | None]:
    records = read_typed(path, RECORD_KINDS[kind].record_types, SHANGHAI)
    return [each.values for each in records]


def read_cell(
    folder: Path, cell: str, column: str = "confirm_time", kind: str = "orders"
) -> object:
    path = folder / "table.csv"
    path.write_text(f"order_sn,{column}\n1,{cell}\n", encoding="gbk")
    (values,) = read(path, kind)
    assert values is not None
    return values[column]


@pytest.mark.parametrize(
    ("written", "at_s"),
    [
        ("2026-11-01 09:13:00", AT_S),
        ("2026-11-01 09:13", AT_S),
        ("2026/11/1 9:13", AT_S),
        ("2026/11/1 9:13:07", AT_S + 7),
        ("2026-11-01T01:13:00Z", AT_S),
        ("2026-11-01T10:13:00+09:00", AT_S),
        ("2026-11-01", AT_S - (9 * 60 + 13) * 60),
        ("2026/11/1", AT_S - (9 * 60 + 13) * 60),
    ],
)
def test_a_written_time_becomes_a_number_in_the_unit_of_its_field(
    tmp_path: Path, written: str, at_s: int
) -> None:
    assert read_cell(tmp_path, written) == str(at_s * 1000)
    assert read_cell(tmp_path, written, "claim_time", "coupon-claims") == str(at_s)


@pytest.mark.parametrize(
    "cell", ["1793495580000", "2026-02-30 09:13:00", "2026-11-01 24:00", "昨天", "-1", "11/1/2026"]
)
def test_what_is_no_written_time_stays_as_it_is(tmp_path: Path, cell: str) -> None:
    assert read_cell(tmp_path, cell) == cell


def test_only_fields_that_are_times_are_changed(tmp_path: Path) -> None:
    assert read_cell(tmp_path, "2026-11-01", "remark") == "2026-11-01"


def test_a_date_cell_of_a_spreadsheet_is_a_time(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["order_sn", "confirm_time"])
    book.active.append(["1", datetime(2026, 11, 1, 9, 13)])  # noqa: DTZ001
    book.save(tmp_path / "orders.xlsx")
    assert read(tmp_path / "orders.xlsx") == [{"order_sn": "1", "confirm_time": f"{AT_S}000"}]


def test_json_is_left_to_its_program(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    path.write_text('{"confirm_time": "2026-11-01 09:13:00"}', encoding="utf-8")
    assert read(path) == [{"confirm_time": "2026-11-01 09:13:00"}]


@pytest.mark.parametrize(
    ("cell", "text"), [("'2601150000012345", "2601150000012345"), ("'90s", "'90s"), ("'", "'")]
)
def test_the_mark_of_a_number_that_is_a_text_is_dropped(
    tmp_path: Path, cell: str, text: str
) -> None:
    assert read_cell(tmp_path, cell, "remark") == text
