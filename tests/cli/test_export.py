"""The ledger as an accountant gets it: whole, in order, page by page."""

import csv
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CALLS, Command, charge_calls
from tests.support.stores import Store
from tollway.ledger.archiving import archive_entries
from tollway.ledger.entries import Entry, newest_entries
from tollway.store.database import Database


@pytest.fixture
def account_id(tollway: Command, ledger_store: Store) -> str:
    """An account with 25 charged calls and one purchase of credits."""
    opened = str(tollway("account", "open", "acme", "--json").json["id"])
    tollway("credit", "add", "acme", "100", "--calls", "product_analysis")
    charge_calls(ledger_store, opened, 25)
    tollway("credit", "add", "acme", "9", "--note", '发票, "7"')
    return opened


@pytest.mark.parametrize("page", [1, 4, 26, 1000])
def test_all_entries_are_written_from_the_oldest_on(
    tollway: Command, account_id: str, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr("tollway.cli.ledger._PAGE_ENTRIES", page)
    rows = list(csv.DictReader(tollway("ledger", "export", account_id).out.splitlines()))
    calls = [row for row in rows if row["unit"] == CALLS]
    assert [int(row["number"]) for row in calls] == list(range(1, 27))
    assert [int(row["balance_after"]) for row in calls] == list(range(100, 74, -1))
    assert rows[-1]["note"] == '发票, "7"'
    assert len(rows) == 27
    array = tollway("ledger", "export", account_id, "--json").json
    assert [entry["number"] for entry in array] == [int(row["number"]) for row in rows]


@pytest.mark.parametrize("month", [None, "1970-01"])
@pytest.mark.parametrize(("deleted", "status"), [(5, 0), (6, 1), (26, 1)])
def test_entries_that_are_deleted_while_they_are_written_leave_no_gap(
    tollway: Command,
    account_id: str,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    month: str | None,
    deleted: int,
    status: int,
) -> None:
    async def read_and_delete(
        database: Database, account: str, unit: str, count: int, before_number: int = 2**62
    ) -> Sequence[Entry]:
        page = await newest_entries(database, account, unit, count, before_number)
        if page and page[-1].number == 1:
            of: dict[str, Any] = {"account_id": account, "unit": unit, "before_ms": 2**62}
            await database.write(partial(archive_entries, most=deleted, **of))
        return page

    monkeypatch.setattr("tollway.cli.ledger._PAGE_ENTRIES", 5)
    monkeypatch.setattr("tollway.cli.ledger.newest_entries", read_and_delete)
    options = ("--unit", CALLS, *(("--month", month) if month else ()), "--out", "a.csv")
    exported = tollway("ledger", "export", account_id, *options)
    assert exported.status == status
    if status:
        assert "were deleted" in exported.err and not (workplace / "a.csv").exists()
    else:
        rows = list(csv.DictReader((workplace / "a.csv").read_text("utf-8-sig").splitlines()))
        numbers = list(range(2 if month else 1, 27))
        assert [int(row["number"]) for row in rows] == numbers


def test_a_file_is_written_whole_or_not_at_all(
    tollway: Command, account_id: str, workplace: Path
) -> None:
    written = tollway(
        "ledger", "export", account_id, "--unit", CALLS, "--lines", "--out", "a.jsonl"
    )
    assert written.out == f"26 entries of account {account_id} are in a.jsonl.\n"
    lines = (workplace / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["number"] for line in lines] == list(range(1, 27))
    again = tollway("ledger", "export", account_id, "--out", "a.jsonl")
    assert again.status == 1
    assert (workplace / "a.jsonl").read_text(encoding="utf-8").splitlines() == lines
    assert list(workplace.glob("*.unfinished")) == []


def test_a_csv_file_has_the_mark_by_which_excel_reads_chinese_and_a_pipe_has_none(
    tollway: Command, account_id: str, workplace: Path
) -> None:
    tollway("ledger", "export", account_id, "--out", "a.csv")
    written = (workplace / "a.csv").read_bytes()
    assert written.startswith(b"\xef\xbb\xbfat,") and "发票".encode() in written
    assert tollway("ledger", "export", account_id).out.startswith("at,")
    tollway("ledger", "export", account_id, "--lines", "--out", "a.jsonl")
    assert (workplace / "a.jsonl").read_bytes().startswith(b"{")


def test_no_note_is_a_formula_to_a_spreadsheet(tollway: Command, account_id: str) -> None:
    for sign in "=+@＝＋－＠":
        tollway("credit", "add", account_id, "9", "--note", f"{sign}1+1")
    rows = list(csv.DictReader(tollway("ledger", "export", account_id).out.splitlines()))
    assert [row["note"] for row in rows[-7:]] == [f"'{sign}1+1" for sign in "=+@＝＋－＠"]
    array = tollway("ledger", "export", account_id, "--json").json
    assert array[-7]["note"] == "=1+1"


def test_an_account_without_entries_exports_nothing_but_the_heading(
    tollway: Command, ledger_store: Store
) -> None:
    tollway("account", "open", "new")
    assert tollway("ledger", "export", "new").out.startswith("at,account_id,unit,number,")
    assert tollway("ledger", "export", "new", "--lines").out == ""
    assert tollway("ledger", "export", "new", "--json").json == []
    assert tollway("ledger", "show", "new").out == "Account new has no entries yet.\n"


def test_show_gives_the_newest_of_all_units_or_of_one_call(
    tollway: Command, account_id: str
) -> None:
    newest = tollway("ledger", "show", account_id, "--limit", "2", "--json").json
    assert [entry["unit"] for entry in newest] == ["credits", CALLS]
    calls = tollway("ledger", "show", account_id, "--unit", CALLS, "--limit", "3", "--json").json
    assert [entry["number"] for entry in calls] == [26, 25, 24]
    (of_call,) = tollway("ledger", "show", "--request", "r3", "--json").json
    assert (of_call["amount"], of_call["number"]) == (-1, 5)
    assert "r3" in tollway("ledger", "show", "--request", "r3").out
    assert tollway("ledger", "show", "--request", "no").out == (
        "Nothing was charged for request no.\n"
    )
