"""The audit of what remote carriers have issued: holds, the clock, the carrier's journal."""

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.damage import Damaged
from tests.support import forks
from tests.support.engines import Engine
from tests.support.fake_carrier import FakeCarrier
from tests.support.remote import age_pending, left_pending
from tests.support.stores import Store

JOURNAL = "carrier.jsonl"


@pytest.fixture
def pending(ledger_store: Store, carrier: FakeCarrier) -> Store:
    """A database with a waybill that the carrier has issued, but has not answered."""
    left_pending(ledger_store, carrier, "cut_after_commit")
    return ledger_store


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Store:
    """The same, settled; the journal lies beside it."""
    store = Store(tmp_path_factory.mktemp("settled") / "ledger.db")
    carrier = FakeCarrier(store.path.parent)
    left_pending(store, carrier, "cut_after_commit")
    own = {name: value for name, value in os.environ.items() if not name.startswith("TOLLWAY_")}
    done = forks.run("tollway", "reconcile", env={**own, **store.settings}, cwd=store.path.parent)
    assert done.returncode == 0, done.stderr
    assert carrier.stop() == 0
    store.drop_checks()
    return store


@pytest.fixture
def issued(settled: Store, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A copy of it for one test, as the database of the commands."""
    copy = settled.copied_to(workplace / "ledger.db")
    shutil.copy(settled.path.with_name(JOURNAL), workplace)
    monkeypatch.setenv("TOLLWAY_DATABASE", copy.url)
    return copy


def breaches_of(tollway: Command, *options: str) -> set[str]:
    answer = tollway("audit", "--json", *options)
    names = {breach["name"] for breach in answer.json["breaches"]}
    assert answer.status == (1 if names else 0)
    return names


def journal_of(tollway: Command) -> tuple[str, ...]:
    (line,) = tollway("carrier", "list", "--json").json
    return ("--journal", JOURNAL, "--carrier", line["wp_code"])


def test_what_is_pending_is_no_breach_until_its_time_is_over(
    tollway: Command, pending: Store
) -> None:
    assert breaches_of(tollway, *journal_of(tollway)) == set()
    age_pending(pending)
    assert breaches_of(tollway) == {"hold_overdue"}


SABOTAGE = {
    "a captured hold is opened": ("UPDATE hold SET state = 'held'", {"hold_state_differs"}),
    "a hold is lost": ("DELETE FROM hold", {"hold_state_differs", "hold_without_waybill"}),
    "a key is reserved for nothing": (
        "INSERT INTO idempotency_key (account_id, key, request_id, at_ms, fingerprint, sealed) "
        "SELECT account_id, 'k', request_id, at_ms, '', '' FROM hold",
        {"key_without_hold"},
    ),
    "a waybill is lost": ("DELETE FROM waybill", {"hold_without_waybill"}),
    "a hold is of another amount": (
        "UPDATE hold SET amount = amount + 1",
        {"hold_amount_differs"},
    ),
    "a hold is of another request": (
        "UPDATE hold SET request_id = 'other'",
        {"hold_request_differs"},
    ),
    "a waybill with a hold is of no request": (
        "UPDATE waybill SET request_id = NULL",
        {"hold_request_differs"},
    ),
    "an issued waybill has no number": (
        "UPDATE waybill SET number = NULL",
        {"number_state_differs"},
    ),
    "an issued waybill has no time": (
        "UPDATE waybill SET issued_at_s = NULL",
        {"number_state_differs"},
    ),
    "an issued waybill has a time of its cancellation": (
        "UPDATE waybill SET cancelled_at_s = issued_at_s",
        {"number_state_differs"},
    ),
    "a waybill was cancelled at no time": (
        "UPDATE waybill SET state = 'cancelled'",
        {"number_state_differs"},
    ),
    "a refused waybill has a number": (
        "UPDATE waybill SET state = 'refused'",
        {"number_state_differs", "hold_state_differs"},
    ),
}


@pytest.fixture(scope="module")
def damaged(settled: Store, tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    copy = settled.copied_to(tmp_path_factory.mktemp("damaged") / "ledger.db")
    return Damaged(copy, (sabotage for sabotage, _ in SABOTAGE.values()))


@pytest.mark.parametrize("what", SABOTAGE)
def test_holds_and_waybills_must_agree(
    tollway: Command, damaged: Damaged, workplace: Path, what: str
) -> None:
    sabotage, names = SABOTAGE[what]
    with damaged.before(sabotage, workplace) as store:
        assert breaches_of(tollway) == set()
        store.run_unchecked(sabotage)
        assert names <= breaches_of(tollway)


def test_the_journal_must_say_the_same(tollway: Command, issued: Store) -> None:
    options = journal_of(tollway)
    assert breaches_of(tollway, *options) == set()
    journal = Path(JOURNAL)
    (line,) = [each for each in journal.read_text("utf-8").splitlines() if '"issued"' in each]
    journal.write_text(f"{line}\n{line.replace('YT0', 'YT1')}\n", "utf-8")
    assert breaches_of(tollway, *options) == {
        "journal_issued_twice",
        "journal_differs",
        "journal_lacks",
    }
    journal.write_text("", "utf-8")
    assert breaches_of(tollway, *options) == {"journal_lacks"}
    for unreadable in (b"nonsense\n", line.encode().replace(b"SN", "单".encode("gbk"))):
        journal.write_bytes(unreadable)
        refused = tollway("audit", *options)
        assert refused.status == 1 and "Line 1 of the journal" in refused.err
    issued.run_unchecked("UPDATE waybill SET state = 'refused'")
    journal.write_text(f"{line}\n", "utf-8")
    assert "journal_differs" in breaches_of(tollway, *options)


def test_a_journal_needs_its_carrier(tollway: Command, ledger_store: Store) -> None:
    refused = tollway("audit", "--journal", "x.jsonl")
    assert refused.status == 2 and "--carrier" in refused.err
