"""A month's statement: what an account had, was given and spent, while the ledger goes on."""

import csv
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.cli.conftest import CALLS, Command
from tests.support.stores import Store
from tollway.ledger.charging import Charge, post_charges
from tollway.ledger.entries import Entry, newest_entries
from tollway.ledger.usage import roll_up
from tollway.store.database import Transaction
from tollway.store.open import OpenDatabase

JANUARY, FEBRUARY, MARCH = (
    round(datetime(2026, month, 10, tzinfo=UTC).timestamp()) for month in (1, 2, 3)
)
# The first moment of February in the time zone of the gateway, which is still January in UTC.
FIRST_OF_FEBRUARY = round(datetime(2026, 1, 31, 16, tzinfo=UTC).timestamp())


@pytest.fixture
def account_id(tollway: Command, ledger_store: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    """An account that bought in January, February and March, and called in January and February."""
    _set_clock(monkeypatch, JANUARY)
    opened = str(tollway("account", "open", "acme", "--json").json["id"])
    tollway("credit", "add", "acme", "100", "--calls", "product_analysis")
    _charge(ledger_store, opened, FIRST_OF_FEBRUARY * 1000 - 1, 2)
    _charge(ledger_store, opened, FIRST_OF_FEBRUARY * 1000, 3)
    _set_clock(monkeypatch, FEBRUARY)
    tollway("credit", "add", "acme", "50", "--calls", "product_analysis")
    tollway("credit", "add", "acme", "-7", "--calls", "product_analysis")
    _set_clock(monkeypatch, MARCH)
    tollway("credit", "add", "acme", "1000", "--calls", "product_analysis")
    tollway("credit", "add", "acme", "9")
    return opened


def _set_clock(monkeypatch: pytest.MonkeyPatch, at_s: int) -> None:
    monkeypatch.setattr("tollway.ledger.runtime.Runtime.at_s", lambda _: at_s)
    monkeypatch.setattr("tollway.ledger.runtime.Runtime.at_ms", lambda _: at_s * 1000)


def _charge(store: Store, account_id: str, at_ms: int, count: int) -> None:
    async def work(database: OpenDatabase) -> None:
        async def post(transaction: Transaction) -> None:
            named = [f"{at_ms}-{number}" for number in range(count)]
            await post_charges(
                transaction,
                [
                    Charge(account_id, CALLS, 1, "product_analysis", each, "tok_x", at_ms)
                    for each in named
                ],
            )

        await database.write(post)

    store.do(work)


def _unit(before: int, after: int, **sums: int) -> dict[str, object]:
    none = dict.fromkeys(("topped_up", "refunded", "corrected", "charged", "held"), 0)
    return {"unit": CALLS, "before": before, **none, **sums, "after": after}


def test_each_month_begins_with_what_the_one_before_left(tollway: Command, account_id: str) -> None:
    months = {
        month: tollway("ledger", "statement", "acme", "--month", f"2026-0{month}", "--json").json
        for month in (1, 2, 3, 4)
    }
    calls = [months[month]["units"][0] for month in months]
    assert calls == [
        _unit(0, 98, topped_up=100, charged=2),
        _unit(98, 138, topped_up=50, corrected=-7, charged=3),
        _unit(138, 1138, topped_up=1000),
        _unit(1138, 1138),
    ]
    credits_ = [months[month]["units"][1] for month in (2, 3)]
    assert [(each["before"], each["after"]) for each in credits_] == [(0, 0), (0, 9)]
    spent = [months[month]["operations"] for month in (2, 3)]
    february = {"operation": "product_analysis", "unit": CALLS, "calls": 3, "charged": 3}
    assert spent == [[february], []]


def test_a_refund_is_no_top_up_that_was_paid_for(
    tollway: Command, ledger_store: Store, account_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set_clock(monkeypatch, FEBRUARY)
    of = ("--calls", "product_analysis", "--refund", f"{FIRST_OF_FEBRUARY * 1000}-0")
    tollway("credit", "add", "acme", "1", *of)

    def february() -> object:
        made = tollway("ledger", "statement", "acme", "--month", "2026-02", "--json").json
        return made["units"][0]

    wanted = _unit(98, 139, topped_up=50, refunded=1, corrected=-7, charged=3)
    assert february() == wanted
    ledger_store.do(lambda database: roll_up(database, ZoneInfo("Asia/Shanghai"), MARCH))
    assert february() == wanted
    (refund,) = ledger_store.run("SELECT operation FROM entry WHERE kind = 'top_up' AND amount = 1")
    assert tuple(refund) == ("product_analysis",)


def test_all_accounts_of_a_month_are_one_table_and_one_file(
    tollway: Command, account_id: str, tmp_path: Path
) -> None:
    tollway("account", "open", "=idle")
    tollway("account", "open", "busy")
    tollway("credit", "add", "busy", "30")
    tollway("account", "close", "busy", "--yes")
    shown = tollway("ledger", "statement", "--month", "2026-03").out
    assert shown.startswith("All accounts in 2026-03 (Asia/Shanghai).\n")
    rows = [line.split() for line in shown.splitlines()[3:]]
    assert rows == [
        ["acme", CALLS, "138", "1,000", "0", "0", "0", "0", "1,138"],
        ["acme", "credits", "0", "9", "0", "0", "0", "0", "9"],
        ["busy", "credits", "0", "30", "0", "0", "0", "0", "30"],
    ]
    file = tmp_path / "march.csv"
    said = tollway("ledger", "statement", "--month", "2026-03", "--out", str(file)).out
    assert said == f"The statements of 2 accounts are in {file}.\n"
    with file.open(encoding="utf-8-sig", newline="") as stream:
        written = list(csv.DictReader(stream))
    first = written[0]
    assert (first["account_id"], first["account"], first["after"]) == (account_id, "acme", "1138")
    assert [each["topped_up"] for each in written] == ["1000", "9", "30"]
    named = tollway("ledger", "statement", "--month", "2026-03", "--json").json
    assert [each["account"] for each in named] == ["acme", "busy"]
    assert named[0]["units"][0] == _unit(138, 1138, topped_up=1000)
    assert "No account" in tollway("ledger", "statement", "--month", "2001-01").out


def test_what_a_hold_sets_aside_is_held_until_it_is_given_back(
    tollway: Command, ledger_store: Store, account_id: str
) -> None:
    held_ms = FEBRUARY * 1000
    for number, (kind, amount, at_ms) in enumerate(
        [("hold", -5, held_ms), ("release", 3, held_ms), ("release", 2, MARCH * 1000)], 100
    ):
        ledger_store.run(
            "INSERT INTO entry (account_id, unit, number, kind, amount, balance_after, at_ms) "
            f"VALUES ('{account_id}', '{CALLS}', {number}, '{kind}', {amount}, 0, {at_ms})"
        )
    held = [
        tollway("ledger", "statement", "acme", "--month", month, "--json").json["units"][0]["held"]
        for month in ("2026-02", "2026-03")
    ]
    assert held == [2, -2]


def test_the_table_names_the_month_and_its_time_zone(tollway: Command, account_id: str) -> None:
    shown = tollway("ledger", "statement", account_id, "--month", "2026-02").out
    assert shown.startswith("Account acme in 2026-02 (Asia/Shanghai).\n")
    assert [line.split() for line in shown.splitlines()][-1] == [
        "product_analysis",
        CALLS,
        "3",
        "3",
    ]
    tollway("account", "open", "new")
    empty = tollway("ledger", "statement", "new", "--month", "2026-02").out
    assert "Account new has no balance." in empty and "Nothing was charged." in empty


def test_a_month_of_which_entries_were_deleted_has_none(
    tollway: Command, account_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set_clock(monkeypatch, round(datetime(2026, 5, 15, tzinfo=UTC).timestamp()))
    whole = tollway("ledger", "statement", "acme", "--month", "2026-03").out
    monkeypatch.setenv("TOLLWAY_KEEP_ENTRIES_DAYS", "60")
    assert tollway("retention", "apply").status == 0
    for command in ("statement", "export"):
        refused = tollway("ledger", command, "acme", "--month", "2026-02")
        assert (refused.status, refused.out) == (1, "")
        assert f"were deleted, as keep_entries_days says: there is no {command}" in refused.err
    assert tollway("ledger", "statement", "acme", "--month", "2026-04").status == 0
    assert "1,138" in whole


def test_an_account_with_deleted_entries_is_listed_without_figures_beside_the_others(
    tollway: Command, account_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set_clock(monkeypatch, JANUARY + 1)
    tollway("account", "open", "busy")
    tollway("credit", "add", "busy", "30")
    _set_clock(monkeypatch, round(datetime(2026, 5, 15, tzinfo=UTC).timestamp()))
    monkeypatch.setenv("TOLLWAY_KEEP_ENTRIES_DAYS", "60")
    assert tollway("retention", "apply").status == 0
    of_all = ("ledger", "statement", "--month", "2026-02")
    shown = tollway(*of_all)
    assert shown.status == 1 and shown.err.endswith("there is no statement of acme.\n")
    rows = [line.split() for line in shown.out.splitlines()[3:]]
    assert rows == [
        ["acme", *"--------"],
        ["busy", "credits", "30", "0", "0", "0", "0", "0", "30"],
    ]
    file = tmp_path / "february.csv"
    assert tollway(*of_all, "--out", str(file)).status == 1
    with file.open(encoding="utf-8-sig", newline="") as stream:
        written = list(csv.DictReader(stream))
    assert [(each["account"], each["after"]) for each in written] == [("acme", ""), ("busy", "30")]
    listed = tollway(*of_all, "--json")
    assert listed.status == 1
    found = [(each["account"], each["is_complete"], len(each["units"])) for each in listed.json]
    assert found == [("acme", False, 0), ("busy", True, 1)]


@pytest.mark.parametrize("month", ["2026", "2026-13", "January", "2026-01-31", "9999-12", "2026-1"])
def test_what_is_no_month_is_refused(tollway: Command, account_id: str, month: str) -> None:
    for command in ("statement", "export"):
        answer = tollway("ledger", command, "acme", "--month", month)
        assert (answer.status, answer.out) == (2, "")
        assert answer.err.startswith(f"{month} is no month: write it as 2026-01")


def test_the_entries_of_one_month_are_exported(tollway: Command, account_id: str) -> None:
    written = tollway("ledger", "export", "acme", "--month", "2026-02").out
    rows = list(csv.DictReader(written.splitlines()))
    assert [int(row["amount"]) for row in rows] == [-1, -1, -1, 50, -7]


@pytest.mark.parametrize("page", [1, 2, 1000])
def test_the_export_of_a_month_reads_the_entries_of_its_days_and_what_is_in_no_sum_yet(
    tollway: Command,
    ledger_store: Store,
    account_id: str,
    monkeypatch: pytest.MonkeyPatch,
    page: int,
) -> None:
    monkeypatch.setattr("tollway.cli.ledger._PAGE_ENTRIES", page)
    read: list[int] = []

    async def counted(*args: object, **values: object) -> Sequence[Entry]:
        found = await newest_entries(*args, **values)  # type: ignore[arg-type]
        # One alone is the newest of all, which is where each unit ends.
        read.extend(each.number for each in found if values)
        return found

    monkeypatch.setattr("tollway.cli.ledger.newest_entries", counted)

    def exported(month: str) -> list[int]:
        read.clear()
        options = ("--unit", CALLS, "--month", month, "--json")
        return [each["number"] for each in tollway("ledger", "export", "acme", *options).json]

    assert exported("2026-02") == [4, 5, 6, 7, 8] and sorted(read) == list(range(1, 10))
    ledger_store.do(lambda database: roll_up(database, ZoneInfo("Asia/Shanghai"), MARCH))
    # The last two of January are of the same day of UTC.
    assert exported("2026-02") == [4, 5, 6, 7, 8] and sorted(read) == list(range(2, 9))
    assert exported("2026-03") == [9] and read == [9]
    assert exported("2026-04") == [] and read == []
    _charge(ledger_store, account_id, FEBRUARY * 1000, 2)
    assert exported("2026-02") == [4, 5, 6, 7, 8, 10, 11]
    assert sorted(read) == [*range(2, 9), 10, 11]
    assert exported("2026-04") == [] and sorted(read) == [10, 11]
