"""What a command makes can be read by its own user alone, whatever the umask was; keys that others
can write to, and databases with parts that Tollway did not make, are refused."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.cli.conftest import Command
from tests.support.gateway import Gateway
from tests.support.ports import free_port
from tests.support.stores import Store

pytestmark = pytest.mark.sqlite


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_files_are_private(tollway: Command, workplace: Path) -> None:
    for command in (
        ("migrate", "--database", "sqlite:///new.db"),
        ("backup", "copy.db", "--with-keys", "--database", "sqlite:///new.db"),
        ("restore", "copy.db", "--database", "sqlite:///again.db"),
    ):
        assert tollway(*command).status == 0, command
    (workplace / "orders.jsonl").write_text("{}\n", encoding="utf-8")
    tollway("import", "orders", "orders.jsonl", "--database", "sqlite:///new.db")
    made = ("new.db", "copy.db", "again.db", "orders.jsonl.rejected.jsonl")
    modes = {name: oct((workplace / name).stat().st_mode & 0o777) for name in made}
    assert modes == dict.fromkeys(made, "0o600")


@pytest.mark.parametrize("mode", [0o666, 0o660, 0o602])
def test_a_key_file_that_others_can_write_to_is_refused(
    tollway: Command, ledger_store: Store, mode: int
) -> None:
    add = ("source", "add", "market", "--shop", "*")
    assert tollway(*add).status == 0
    keys = Path(f"{ledger_store.path}.keys")
    keys.chmod(mode)
    refused = tollway("source", "add", "other", "--shop", "*")
    assert refused.status == 1
    assert "other users can write to it" in refused.err and "chmod 600" in refused.err
    elsewhere = tollway(*add, "--database", f"sqlite:///{ledger_store.path}")
    assert f"run `chmod 600 {keys}`" in elsewhere.err
    keys.chmod(0o600)
    assert tollway("source", "add", "other", "--shop", "*").status == 0


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_files_that_others_can_read_are_named_at_the_start(
    ledger_store: Store, workplace: Path, mode: int
) -> None:
    files = [Path(f"{ledger_store.path}{ending}") for ending in ("", ".keys", ".secret")]
    Gateway(ledger_store).stop()
    for file in files:
        file.chmod(mode)
    served = Gateway(ledger_store)
    try:
        for file in files:
            assert f"can read {file}: run `chmod 600 {file}`" in served.log()
            file.chmod(0o600)
    finally:
        assert served.stop() == 0
    served = Gateway(ledger_store)
    assert served.stop() == 0
    assert "can read" not in served.log()


STRANGE = {
    "trigger": "CREATE TRIGGER gift AFTER INSERT ON entry BEGIN UPDATE balance SET amount = 9; END",
    "view": "CREATE VIEW gift AS SELECT * FROM account",
}


@pytest.mark.parametrize("kind", STRANGE)
def test_a_backup_with_an_added_part_is_not_restored(
    tollway: Command, ledger_store: Store, workplace: Path, kind: str
) -> None:
    assert tollway("backup", "copy.db").status == 0
    (workplace / "copy.db.sha256").unlink()
    with closing(apsw.Connection(str(workplace / "copy.db"))) as connection:
        connection.execute(STRANGE[kind])
    refused = tollway("restore", "copy.db", "--database", "sqlite:///again.db")
    assert refused.status == 1
    assert f"the {kind} 'gift', which Tollway did not make" in refused.err
    assert not (workplace / "again.db").exists()


CHANGED = {
    "the index 'waybill_number_once' is missing": "DROP INDEX waybill_number_once",
    "the table 'account' is not as Tollway made it": "ALTER TABLE account ADD COLUMN extra VARCHAR",
    "the trigger 'operator_act_is_not_deleted' is missing": (
        "DROP TRIGGER operator_act_is_not_deleted"
    ),
    "the index 'gift', which Tollway did not make": "CREATE INDEX gift ON entry (account_id)",
    "the trigger 'gift', which Tollway did not make": STRANGE["trigger"],
}


@pytest.mark.parametrize("difference", CHANGED)
def test_a_file_with_a_changed_schema_is_neither_served_nor_swept_nor_passes_the_audit(
    tollway: Command, process: Command, ledger_store: Store, difference: str
) -> None:
    assert tollway("retention", "apply").status == 0
    ledger_store.run(CHANGED[difference])
    serve = process("serve", "--port", str(free_port()))
    for refused in (serve, tollway("retention", "apply"), tollway("migrate")):
        assert refused.status == 1
        assert difference in refused.err and "changed by another program" in refused.err
    failed = tollway("audit")
    assert failed.status == 1
    assert difference in failed.out + failed.err


@pytest.mark.parametrize("kind", STRANGE)
def test_the_audit_refuses_a_file_with_an_added_part(
    tollway: Command, ledger_store: Store, kind: str
) -> None:
    assert tollway("audit").status == 0
    ledger_store.run(STRANGE[kind])
    refused = tollway("audit")
    assert refused.status == 1
    assert f"the {kind} 'gift', which Tollway did not make" in refused.err
