"""A backup is the whole database at one moment, taken while others write to it."""

from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.cli.conftest import Command, charge_calls
from tests.faults.disk import CORRUPT, FULL, IOERR, Fault, FaultyDisk
from tests.support.stores import Store
from tollway.cli import backup
from tollway.cli.command import CommandError
from tollway.cli.files import new_file
from tollway.store.sqlite.database import back_up_file

pytestmark = pytest.mark.sqlite


def test_a_copy_has_the_same_ledger(
    process: Command, tollway: Command, ledger_store: Store
) -> None:
    account_id = tollway("account", "open", "acme", "--json").json["id"]
    tollway("credit", "add", "acme", "100", "--calls", "product_analysis")
    charge_calls(ledger_store, account_id, 10)
    answer = process("backup", "copy.db")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith("The copy is in copy.db, ")
    of_copy = tollway("audit", "--database", "sqlite:///copy.db", "--json")
    assert of_copy.json == tollway("audit", "--json").json
    # To look at a copy does not change it.
    digest, name = Path("copy.db.sha256").read_text().split()
    assert (digest, name) == (sha256(Path("copy.db").read_bytes()).hexdigest(), "copy.db")


def test_a_postgresql_is_left_to_its_own_tools_whatever_files_are_named(tollway: Command) -> None:
    answer = tollway("backup", "copy.db", "--database", "postgresql://me@127.0.0.1:1/ledger")
    assert answer.status == 1
    assert answer.err.startswith("A PostgreSQL database is copied with its own tools: pg_dump")
    assert not Path("copy.db").exists()


def test_the_keys_come_along_when_asked_for_and_are_private(
    tollway: Command, ledger_store: Store, workplace: Path
) -> None:
    tollway("source", "add", "market", "--shop", "*")
    keys = ledger_store.path.with_name("ledger.db.keys")
    plain = tollway("backup", "copy.db")
    assert "The keys are not in it: keep ledger.db.keys too" in plain.out
    assert not (workplace / "copy.db.keys").exists()
    answer = tollway("backup", "whole.db", "--with-keys")
    assert "The keys are in whole.db.keys: keep them private." in answer.out
    copied = workplace / "whole.db.keys"
    assert copied.read_bytes() == keys.read_bytes()
    assert copied.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("found", [None, "", "other"])
def test_keys_that_are_not_those_of_the_database_are_not_taken_for_them(
    tollway: Command, ledger_store: Store, workplace: Path, found: str | None
) -> None:
    tollway("source", "add", "market", "--shop", "*")
    keys = ledger_store.path.with_name("ledger.db.keys")
    keys.unlink()
    if found is not None:
        keys.write_text(found)
    refused = tollway("backup", "copy.db", "--with-keys")
    assert (refused.status, refused.out) == (1, "")
    assert "key file ledger.db.keys" in refused.err
    assert list(workplace.glob("copy.db*")) == []


def test_a_copy_without_the_keys_names_those_that_are_gone(
    tollway: Command, ledger_store: Store, workplace: Path
) -> None:
    tollway("source", "add", "market", "--shop", "*")
    ledger_store.path.with_name("ledger.db.keys").unlink()
    assert tollway("backup", "copy.db", "--json").json["keys_missing"] == ["ledger.db.keys"]
    answer = tollway("backup", "another.db")
    assert answer.status == 0
    assert "There is no key file ledger.db.keys, and the database is used with one" in answer.out


def test_keys_that_change_meanwhile_are_noticed(
    tollway: Command, ledger_store: Store, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tollway("source", "add", "market", "--shop", "*")
    keys = ledger_store.path.with_name("ledger.db.keys")

    def with_another_key(*arguments: Any) -> None:
        back_up_file(*arguments)
        keys.write_text("other")

    monkeypatch.setattr(backup, "back_up_file", with_another_key)
    answer = tollway("backup", "copy.db", "--with-keys")
    assert (answer.status, answer.out) == (1, "")
    assert "ledger.db.keys changed while the database was copied: try again." in answer.err
    assert list(workplace.glob("copy.db*")) == []


@pytest.mark.parametrize("ending", [".sha256", ".keys"])
def test_a_file_of_another_copy_is_never_written_over(
    tollway: Command, ledger_store: Store, workplace: Path, ending: str
) -> None:
    assert ledger_store.path.is_file()
    tollway("source", "add", "market", "--shop", "*")
    (workplace / f"copy.db{ending}").write_text("mine")
    assert tollway("backup", "copy.db", "--with-keys").status == 1
    assert [each.name for each in workplace.glob("copy.db*")] == [f"copy.db{ending}"]


def test_an_existing_file_is_never_written_over(
    tollway: Command, ledger_store: Store, workplace: Path
) -> None:
    (workplace / "precious").write_text("mine")
    assert tollway("backup", "precious").status == 1
    assert (workplace / "precious").read_text() == "mine"


def test_a_command_that_makes_the_same_file_at_the_same_time_is_refused(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workplace / "copy.db"
    # One that was killed while it copied leaves a journal of SQLite too.
    for ending in ("", "-journal"):
        abandoned = workplace / f"copy.db.4194305.unfinished{ending}"
        abandoned.write_text("of a process that is gone")
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(new_file(path)).write_text("whole")
        monkeypatch.setattr("os.getpid", lambda: 1)
        second.enter_context(new_file(path)).write_text("ha")
        first.close()
        assert path.read_text() == "whole"
        with pytest.raises(CommandError, match="exists already"):
            second.close()
    assert [each.name for each in workplace.glob("copy.db*")] == ["copy.db"]


def test_what_is_not_committed_is_not_copied_and_not_waited_for(
    tollway: Command, ledger_store: Store, workplace: Path
) -> None:
    writer = apsw.Connection(str(ledger_store.path))
    writer.execute("BEGIN IMMEDIATE; UPDATE version SET directory = 4711").fetchall()
    assert tollway("backup", "copy.db").status == 0
    writer.execute("COMMIT")
    copy = apsw.Connection(str(workplace / "copy.db"))
    assert copy.execute("SELECT directory FROM version").fetchall() == [(0,)]
    assert list(workplace.glob("*.unfinished*")) == []


def test_a_database_on_a_full_disk_is_copied_elsewhere(
    tollway: Command, ledger_store: Store
) -> None:
    disk = FaultyDisk(ledger_store.path)
    # Every write to the database itself; the copy is on another disk.
    with disk.in_use(), disk.failing(Fault(1, FULL, times=1000, name="xWrite")):
        answer = tollway("backup", "copy.db")
    assert disk.failed
    assert (answer.status, answer.err) == (0, "")
    assert Path("copy.db").is_file()


@pytest.mark.parametrize("at", [1, 10])
def test_a_copy_for_which_there_is_no_space_is_named(
    tollway: Command, ledger_store: Store, workplace: Path, at: int
) -> None:
    tollway("account", "open", "acme")
    disk = FaultyDisk(workplace / "copy.db")
    with disk.in_use(), disk.failing(Fault(at, FULL, times=1000, name="xWrite")):
        answer = tollway("backup", "copy.db")
    assert disk.failed
    assert (answer.status, answer.out) == (1, "")
    assert answer.err == (
        "The database cannot be copied to copy.db: database or disk is full. Free some space on "
        "this disk.\n"
    )
    assert list(workplace.glob("copy.db*")) == []


@pytest.mark.parametrize(
    ("kind", "said"), [(IOERR, "disk I/O error"), (CORRUPT, "database disk image is malformed")]
)
def test_a_database_that_cannot_be_read_to_its_end_is_not_called_no_error(
    tollway: Command, ledger_store: Store, workplace: Path, kind: str, said: str
) -> None:
    tollway("account", "open", "acme")
    disk = FaultyDisk(ledger_store.path)
    # The calls before it are of the start.
    with disk.in_use(), disk.failing(Fault(30, kind, times=1000, name="xFetch")):
        answer = tollway("backup", "copy.db")
    assert disk.failed
    assert (answer.status, answer.out) == (1, "")
    assert answer.err == f"The database cannot be copied to copy.db: {said}.\n"
    assert list(workplace.glob("copy.db*")) == []


def test_a_full_disk_is_named_with_what_to_do(tollway: Command, ledger_store: Store) -> None:
    disk = FaultyDisk(ledger_store.path)
    with disk.in_use(), disk.failing(Fault(1, FULL, times=1, name="xWrite")):
        answer = tollway("account", "open", "acme")
    assert answer.status == 1
    assert answer.err.endswith(": database or disk is full. Free some space on this disk.\n")
