"""The audit is green on a sound ledger, and each kind of sabotage turns it red by its own name."""

import os
import time
from pathlib import Path

import msgspec
import pytest

from tests.cli.conftest import CALLS, Command, charge_calls, ruin_a_page
from tests.cli.damage import Damaged
from tests.support import forks
from tests.support.engines import Engine
from tests.support.stores import Store
from tollway.cli import audit
from tollway.ledger.charges import Charge
from tollway.ledger.holds import release, reserve
from tollway.store.database import StoreUnavailableError
from tollway.store.last_runs import last_runs


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Store:
    """A ledger with top-ups, a correction and charges of one account, and a sandbox token."""
    store = Store(tmp_path_factory.mktemp("filled") / "ledger.db")

    def tollway(*arguments: str) -> None:
        done = forks.run("tollway", *arguments, env={**os.environ, **store.settings})
        assert done.returncode == 0, done.stderr

    tollway("account", "open", "acme")
    tollway("permission", "add", "acme", "product_analysis")
    tollway("token", "issue", "acme", "--test")
    tollway("credit", "add", "acme", "100", "--calls", "product_analysis")
    charge_calls(store, str(store.run("SELECT id FROM account")[0][0]), 10)
    tollway("credit", "add", "acme", "-30", "--calls", "product_analysis")
    tollway("credit", "add", "acme", "9")
    return store


@pytest.fixture
def sound(filled: Store, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A copy of it for one test, as the database of the commands."""
    copy = filled.copied_to(workplace / "ledger.db")
    monkeypatch.setenv("TOLLWAY_DATABASE", copy.url)
    return copy


def test_a_sound_ledger_is_reported_in_figures(tollway: Command, sound: Store) -> None:
    answer = tollway("audit", "--json")
    assert answer.status == 0
    report = answer.json
    rows = {check["name"]: check["rows"] for check in report.pop("checks")}
    assert (rows["balances"], rows["entries"], rows["charged_once"]) == (2, 13, 13)
    assert report == {
        "accounts": 1,
        "tokens": 1,
        "entries": 13,
        "units": [
            {
                "unit": CALLS,
                "topped_up": 100,
                "corrected": -30,
                "charged": 10,
                "held": 0,
                "available": 60,
                "entries": 12,
            },
            {
                "unit": "credits",
                "topped_up": 9,
                "corrected": 0,
                "charged": 0,
                "held": 0,
                "available": 9,
                "entries": 1,
            },
        ],
        "breaches": [],
    }


@pytest.mark.sqlite
def test_a_damaged_file_is_named(tollway: Command, sound: Store) -> None:
    ruin_a_page(sound.path)
    answer = tollway("audit")
    assert (answer.status, answer.out) == (1, "")
    assert f"{sound.path.name} is damaged: " in answer.err and "restore a backup" in answer.err


def test_an_empty_ledger_is_sound(tollway: Command, ledger_store: Store) -> None:
    answer = tollway("audit")
    assert answer.status == 0
    assert "The ledger is empty." in answer.out


OF_CALLS = f"unit = '{CALLS}'"

# What is done to the file, and every breach that must be reported for it.
SABOTAGE = {
    "a balance is raised": (
        f"UPDATE balance SET amount = 61 WHERE {OF_CALLS}",
        {"amount_differs"},
    ),
    "a balance is negative": (
        f"UPDATE balance SET amount = -1 WHERE {OF_CALLS}",
        {"amount_differs", "balance_negative"},
    ),
    "more is held than was set aside": (
        f"UPDATE balance SET held = 5 WHERE {OF_CALLS}",
        {"held_differs", "holds_differ"},
    ),
    "less is posted than was charged": (
        f"UPDATE balance SET posted = 9 WHERE {OF_CALLS}",
        {"posted_differs"},
    ),
    "a balance is deleted": (f"DELETE FROM balance WHERE {OF_CALLS}", {"balance_missing"}),
    "the first entry is deleted": (
        f"DELETE FROM entry WHERE {OF_CALLS} AND number = 1",
        {"amount_differs", "count_differs", "entry_missing"},
    ),
    "an entry in the middle is deleted": (
        f"DELETE FROM entry WHERE {OF_CALLS} AND number = 5",
        {"amount_differs", "posted_differs", "count_differs", "entry_missing"},
    ),
    "the last entry is deleted": (
        f"DELETE FROM entry WHERE {OF_CALLS} AND number = 12",
        {"amount_differs", "count_differs"},
    ),
    "all entries are deleted": (
        f"DELETE FROM entry WHERE {OF_CALLS}",
        {"amount_differs", "posted_differs", "count_differs"},
    ),
    "an entry is renumbered": (
        f"UPDATE entry SET number = 0 WHERE {OF_CALLS} AND number = 1",
        {"entry_missing"},
    ),
    "an entry and its balance are made smaller together": (
        f"UPDATE entry SET amount = 50 WHERE {OF_CALLS} AND number = 1;"
        f"UPDATE balance SET amount = 10 WHERE {OF_CALLS}",
        {"step_differs"},
    ),
    "a balance after an entry is changed": (
        f"UPDATE entry SET balance_after = -3 WHERE {OF_CALLS} AND number = 5",
        {"step_differs", "balance_negative"},
    ),
    "a charge is called a purchase": (
        f"UPDATE entry SET kind = 'top_up' WHERE {OF_CALLS} AND number = 5",
        {"sign_wrong", "posted_differs"},
    ),
    "a call is charged twice": (
        "UPDATE entry SET request_id = 'r3' WHERE request_id = 'r4'",
        {"charged_twice"},
    ),
    "a sandbox token is charged": (
        "UPDATE entry SET token_id = (SELECT id FROM token) WHERE request_id = 'r4'",
        {"sandbox_charged"},
    ),
    "a call is charged to another account": (
        "INSERT INTO account (id, name, opened_at_s) VALUES ('acc_other', 'other', 0);"
        "UPDATE token SET kind = 'live', account_id = 'acc_other';"
        "UPDATE entry SET token_id = (SELECT id FROM token) WHERE request_id = 'r4'",
        {"caller_differs"},
    ),
    "what is charged has no receipt": (
        "UPDATE entry SET request_id = NULL WHERE request_id = 'r4'",
        {"caller_differs"},
    ),
    "what is charged is of no token": (
        "UPDATE entry SET token_id = NULL WHERE request_id = 'r4'",
        {"caller_differs"},
    ),
    "a cap has no count": (
        "UPDATE token SET kind = 'live', calls_per_day = 5",
        {"cap_uncounted"},
    ),
    "the count that a cap shares is lost": (
        "UPDATE token SET kind = 'live', credits_per_day = 5, counted_with = 'tok_first'",
        {"cap_uncounted"},
    ),
    "what was never charged is refunded": (
        f"UPDATE entry SET request_id = 'none' WHERE {OF_CALLS} AND number = 1",
        {"refund_differs"},
    ),
    "more is refunded than was charged": (
        f"UPDATE entry SET request_id = 'r3' WHERE {OF_CALLS} AND number = 1",
        {"refund_differs"},
    ),
    "a call is refunded twice": (
        "INSERT INTO entry (account_id, unit, number, kind, amount, balance_after, at_ms, "
        "operation, request_id) SELECT account_id, unit, number + nth, 'top_up', 1, "
        "balance_after + nth, at_ms, 'product_analysis', 'r3' FROM entry, "
        "(SELECT 1 AS nth UNION ALL SELECT 2) AS two WHERE number = 12;"
        f"UPDATE balance SET amount = 62, entries = 14 WHERE {OF_CALLS}",
        {"refunded_twice"},
    ),
    "an account is deleted": ("DELETE FROM account", {"account_missing"}),
}


@pytest.fixture(scope="module")
def damaged(filled: Store, tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    copy = filled.copied_to(tmp_path_factory.mktemp("damaged") / "ledger.db")
    return Damaged(copy, (sabotage for sabotage, _ in SABOTAGE.values()))


@pytest.mark.parametrize("what", SABOTAGE)
def test_sabotage_turns_the_audit_red(
    tollway: Command, damaged: Damaged, workplace: Path, what: str
) -> None:
    sabotage, breaches = SABOTAGE[what]
    with damaged.before(sabotage, workplace) as store:
        store.run_unchecked(sabotage)
        answer = tollway("audit", "--json")
    assert answer.status == 1
    assert {breach["name"] for breach in answer.json["breaches"]} == breaches


# As far from any real amount as a flipped bit takes it.
FAR = -(2**63) + 1


def test_numbers_that_are_too_large_to_be_added_up_are_named(
    tollway: Command, damaged: Damaged, workplace: Path
) -> None:
    """A file cannot add them up; PostgreSQL can."""
    sabotage = f"UPDATE entry SET amount = {FAR} WHERE {OF_CALLS} AND number IN (3, 4)"
    with damaged.before(sabotage, workplace) as store:
        store.run_unchecked(sabotage)
        answer = tollway("audit", "--json")
    assert answer.status == 1
    named = {breach["name"] for breach in answer.json["breaches"]}
    assert named >= {"step_differs", "amount_differs" if store.is_shared else "sum_too_large"}


def test_a_breach_is_reported_with_what_differs(process: Command, sound: Store) -> None:
    sound.run("UPDATE balance SET amount = amount + 1 WHERE unit = 'credits'")
    answer = process("audit")
    assert answer.status == 1
    assert "amount_differs" in answer.out
    assert "the balance is 10 but its entries sum up to 9" in answer.out
    assert answer.err == "The audit failed: breaches found, 1.\n"


def test_that_it_ran_and_how_it_ended_is_noted(tollway: Command, sound: Store) -> None:
    """For the metrics and the pages, which know it of an audit that a page has run."""
    began_s = int(time.time())
    assert tollway("audit").status == 0
    ((at_s, is_good),) = sound.run("SELECT at_s, is_good FROM last_run WHERE name = 'audit'")
    assert began_s <= at_s <= time.time() and is_good == 1
    sound.run("UPDATE balance SET amount = amount + 1 WHERE unit = 'credits'")
    assert tollway("audit").status == 1
    run = sound.do(last_runs)["audit"]
    assert not run.is_good and "amount_differs" in run.result


@pytest.mark.sqlite
def test_a_backup_that_is_audited_stays_as_it_is(tollway: Command, sound: Store) -> None:
    tollway("backup", "copy.db")
    content = Path("copy.db").read_bytes()
    assert tollway("audit", "--database", "sqlite:///copy.db").status == 0
    assert Path("copy.db").read_bytes() == content


def test_an_audit_that_cannot_be_noted_says_so(
    tollway: Command, sound: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise StoreUnavailableError("the disk can only be read")

    monkeypatch.setattr(audit, "note_run", fail)
    answer = tollway("audit")
    assert answer.status == 0
    assert "The database could not note that the audit ran: the disk can only be" in answer.out


def test_a_request_id_may_be_charged_once_to_each_of_two_accounts(
    tollway: Command, sound: Store
) -> None:
    other = tollway("account", "open", "other", "--json").json["id"]
    tollway("credit", "add", "other", "100", "--calls", "product_analysis")
    charge_calls(sound, other, 10)
    assert tollway("audit").status == 0


HELD = Charge("", "credits", 4, "waybills", "r-held", "tok_x", 2000)


def test_what_is_held_is_reported_and_a_hold_that_is_lost_is_named(
    tollway: Command, sound: Store
) -> None:
    account_id = tollway("account", "show", "acme", "--json").json["account"]["id"]
    charge = msgspec.structs.replace(HELD, account_id=account_id)
    sound.do(lambda database: database.write(lambda tx: reserve(tx, charge, "hold_1", 9000)))
    sound.do(lambda database: database.write(lambda tx: reserve(tx, charge, "hold_2", 9000)))
    sound.do(lambda database: database.write(lambda tx: release(tx, account_id, "hold_2", 3000)))
    report = tollway("audit", "--json").json
    # These holds are of no waybill and of long ago; the balances are what this is about.
    assert {each["name"] for each in report["breaches"]} == {"hold_overdue", "hold_without_waybill"}
    assert [(unit["held"], unit["available"]) for unit in report["units"]] == [(0, 60), (4, 5)]
    sound.run("DELETE FROM hold WHERE id = 'hold_1'")
    differences = {
        each["name"]: each["difference"] for each in tollway("audit", "--json").json["breaches"]
    }
    assert differences["holds_differ"] == "4 is held of the balance, but its open holds set aside 0"
