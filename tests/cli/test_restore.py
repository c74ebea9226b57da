"""A backup becomes the database again only if nothing is wrong with it; else nothing changes."""

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.cli.conftest import Command, assert_refused, files, ruin_a_page
from tests.support.migrations import NEXT
from tests.support.stores import Store
from tollway.ledger.runtime import Runtime
from tollway.store.key_check import SECRET_FILE, CheckedKeyFile, use_files
from tollway.store.key_file import add_key, drop_keys, use_key
from tollway.store.keys import left_of
from tollway.store.migrate import newest_revision
from tollway.store.sealing import load_sealer
from tollway.store.sqlite.files import ServingLock

# A shared database is copied with its own tools.
pytestmark = pytest.mark.sqlite
INTO = ("--database", "sqlite:///again.db")


@pytest.fixture
def unsigned(backup: Path) -> Path:
    """The same without its digest, so that only what is in it can tell."""
    backup.with_name("copy.db.sha256").unlink()
    return backup


def test_what_is_restored_is_what_was_backed_up(
    process: Command, tollway: Command, backup: Path
) -> None:
    answer = process("restore", "copy.db", *INTO)
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith("again.db is restored from copy.db: schema ")
    assert "accounts 1, entries 11; it passed the audit." in answer.out
    assert "Its keys are in again.db.keys." in answer.out
    restored, original = (tollway("audit", "--json", *of).json for of in (INTO, ()))
    # The restored one has one act more, which says that it was restored.
    for report, acts in ((restored, 1), (original, 0)):
        (trail,) = (each for each in report["checks"] if each["name"] == "trail")
        trail["rows"] -= acts
    assert restored == original
    keys = backup.with_name("again.db.keys")
    assert keys.read_bytes() == backup.with_name("ledger.db.keys").read_bytes()
    assert keys.stat().st_mode & 0o777 == 0o600
    # What was sealed is opened again.
    assert tollway("source", "rotate", "market", *INTO).status == 0
    assert list(backup.parent.glob("*.restoring*")) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_database_that_root_replaces_keeps_its_owner_and_mode(
    tollway: Command, backup: Path
) -> None:
    database, keys = backup.with_name("ledger.db"), backup.with_name("ledger.db.keys")
    os.chown(database, 12_345, 12_346)
    database.chmod(0o640)
    keys.unlink()
    assert tollway("restore", "copy.db", "--replace").status == 0
    # Its gateway must be able to read the keys that come along, and no other user.
    for file, mode in ((database, 0o640), (keys, 0o600)):
        found = file.stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (12_345, 12_346, mode)


def test_an_existing_database_is_replaced_only_on_request_and_kept(
    tollway: Command, backup: Path, workplace: Path
) -> None:
    tollway("account", "open", "since")
    before = files(workplace)
    assert_refused(tollway("restore", "copy.db"), "ledger.db exists already", "--replace")
    assert files(workplace) == before
    restored = tollway("restore", "copy.db", "--replace", "--json").json
    assert restored["replaced"].startswith("ledger.db.before-")
    names = [each["name"] for each in tollway("account", "list", "--json").json]
    assert names == ["acme"]
    old = ("--database", f"sqlite:///{restored['replaced']}")
    names = [each["name"] for each in tollway("account", "list", "--json", *old).json]
    assert sorted(names) == ["acme", "since"]
    assert backup.is_file()


def test_two_that_are_replaced_in_the_same_second_are_both_kept(
    tollway: Command, backup: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runtime, "at_s", lambda _: 1_800_000_000)
    replaced = []
    for number in (1, 2, 3):
        (workplace / "ledger.db").write_bytes(b"ruined %d" % number)
        (workplace / "ledger.db-wal").write_bytes(b"its commits %d" % number)
        replaced.append(tollway("restore", backup.name, "--replace", "--json").json["replaced"])
    for number, name in enumerate(replaced, 1):
        assert (workplace / name).read_bytes() == b"ruined %d" % number
        assert (workplace / f"{name}-wal").read_bytes() == b"its commits %d" % number


def test_a_database_behind_a_link_is_replaced_where_it_is(
    tollway: Command, backup: Path, workplace: Path
) -> None:
    tollway("account", "open", "since")
    (workplace / "links").mkdir()
    (workplace / "links/current.db").symlink_to("../ledger.db")
    behind = ("--database", "sqlite:///links/current.db")
    (workplace / "copy.db.keys").unlink()
    restored = tollway("restore", "copy.db", "--replace", "--json", *behind).json
    assert (workplace / "links/current.db").is_symlink()
    assert Path(restored["replaced"]).parent == workplace
    for database in ((), behind):
        names = [each["name"] for each in tollway("account", "list", "--json", *database).json]
        assert names == ["acme"]


def test_commits_beside_a_ruined_database_are_kept_with_it_and_not_mixed_in(
    tollway: Command, backup: Path, workplace: Path
) -> None:
    (workplace / "ledger.db").write_bytes(b"ruined" * 1000)
    (workplace / "ledger.db-wal").write_bytes(b"its commits")
    restored = tollway("restore", "copy.db", "--replace", "--json").json
    assert (workplace / restored["replaced"]).read_bytes() == b"ruined" * 1000
    assert (workplace / f"{restored['replaced']}-wal").read_bytes() == b"its commits"
    assert tollway("audit").status == 0
    assert backup.is_file()


def test_what_a_killed_gateway_left_beside_its_database_is_kept_too(
    tollway: Command, backup: Path, workplace: Path
) -> None:
    with closing(apsw.Connection("ledger.db")) as gateway:
        gateway.execute("UPDATE account SET name = 'renamed'").fetchall()
        for name in ("ledger.db", "ledger.db-wal"):
            shutil.copyfile(name, name.replace("ledger", "killed"))
    killed = ("--database", "sqlite:///killed.db")
    restored = tollway("restore", backup.name, "--replace", "--json", *killed).json
    assert tollway("account", "list", "--json", *killed).json[0]["name"] == "acme"
    with closing(apsw.Connection(restored["replaced"])) as kept:
        assert kept.execute("SELECT name FROM account").fetchall() == [("renamed",)]
    assert list(workplace.glob("killed.db.before*-wal")) == []


def test_an_older_backup_is_migrated_on_request(
    tollway: Command, backup: Path, workplace: Path, upgraded: Callable[..., None]
) -> None:
    older = newest_revision()
    upgraded()
    before = files(workplace)
    answer = tollway("restore", backup.name, *INTO)
    assert_refused(answer, f"copy.db is at schema {older}", f"needs {NEXT}", "--migrate")
    assert files(workplace) == before
    restored = tollway("restore", backup.name, "--migrate", "--json", *INTO).json
    assert restored["schema"] == NEXT
    assert tollway("audit", *INTO).status == 0
    assert files(workplace)[backup.name] == before[backup.name]


def test_a_database_that_is_served_or_open_is_not_replaced(
    tollway: Command, backup: Path, workplace: Path
) -> None:
    assert backup.is_file()
    lock = ServingLock("ledger.db")
    assert_refused(tollway("restore", "copy.db", "--replace"), "already being served by process")
    lock.release()
    with closing(apsw.Connection("ledger.db")) as other:
        other.execute("SELECT * FROM account").fetchall()
        answer = tollway("restore", "copy.db", "--replace")
        assert_refused(answer, "ledger.db is being used by another program")
        other.execute("UPDATE account SET name = 'still here'").fetchall()
    assert list(workplace.glob("*.before-*")) == []
    assert tollway("account", "list", "--json").json[0]["name"] == "still here"


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4096])


def swap_indexes(path: Path) -> None:
    """As after a lost write: an index that does not have what its table has."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.pragma("writable_schema", True)
        connection.execute(
            "UPDATE sqlite_schema SET rootpage = "
            "(SELECT rootpage FROM sqlite_schema WHERE name = 'shop_order_tag') "
            "WHERE name = 'shop_order_sn'"
        ).fetchall()


def sql(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with closing(apsw.Connection(str(path))) as connection:
            connection.execute(statement).fetchall()

    return change


def test_into_postgresql_it_is_a_file_first(tollway: Command, backup: Path) -> None:
    answer = tollway(
        "restore", backup.name, "--database", "postgresql://tollway@db.example/tollway"
    )
    assert_refused(answer, "sqlite:///FILE", "`tollway move`")


@pytest.mark.parametrize("damage", [flip_a_byte, ruin_a_page, truncate])
def test_bytes_other_than_those_written_are_refused(
    tollway: Command, backup: Path, workplace: Path, damage: Callable[[Path], None]
) -> None:
    damage(backup)
    before = files(workplace)
    assert_refused(tollway("restore", "copy.db", *INTO), "copy.db is damaged", "copy.db.sha256")
    assert files(workplace) == before


# What is done to a backup that has no digest, and what must be said of it.
DAMAGED: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "a page is ruined": (ruin_a_page, ("copy.db is damaged: ",)),
    "its end is missing": (truncate, ("copy.db is damaged: ",)),
    "an index is another one's": (swap_indexes, ("copy.db is damaged: ",)),
    "it is empty": (lambda path: path.write_bytes(b""), ("copy.db is not a database of Tollway",)),
    "it is a text": (lambda path: path.write_text("text" * 999), ("copy.db is damaged: ",)),
    "a balance is changed": (
        sql("UPDATE balance SET amount = amount + 1"),
        ("copy.db does not pass the audit", "amount_differs", "is 91 but its entries sum up to 90"),
    ),
    "an order is missing": (
        sql("DELETE FROM shop_order WHERE order_sn = '000007'"),
        ("copy.db does not pass the audit", "orders_miscounted", "300 orders are counted, 299"),
    ),
    "it is of a newer version": (
        sql("UPDATE alembic_version SET version_num = '9999'"),
        ("9999", "newer Tollway"),
    ),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_backup_that_is_wrong_is_refused_and_what_differs_is_named(
    tollway: Command, unsigned: Path, workplace: Path, what: str
) -> None:
    damage, parts = DAMAGED[what]
    damage(unsigned)
    before = files(workplace)
    assert_refused(tollway("restore", "copy.db", *INTO), *parts)
    assert_refused(tollway("restore", "copy.db", "--replace"), *parts)
    assert files(workplace) == before


def test_without_a_digest_it_is_restored_and_said(tollway: Command, unsigned: Path) -> None:
    answer = tollway("restore", unsigned.name, *INTO)
    assert answer.status == 0
    assert "There is no copy.db.sha256: its bytes could not be compared" in answer.out


def test_other_keys_are_never_written_over(tollway: Command, backup: Path, workplace: Path) -> None:
    assert backup.is_file()
    (workplace / "again.db.keys").write_text("mine")
    before = files(workplace)
    answer = tollway("restore", "copy.db", *INTO)
    assert_refused(answer, "again.db.keys is there already and is not copy.db.keys")
    assert files(workplace) == before


@pytest.mark.parametrize("has_secret", [False, True])
def test_keys_that_did_not_come_along_are_asked_for(
    tollway: Command, ledger_store: Store, backup: Path, workplace: Path, has_secret: bool
) -> None:
    names = "again.db.keys"
    if has_secret:
        secret = CheckedKeyFile(SECRET_FILE, workplace / "ledger.db.secret")
        ledger_store.do(lambda database: use_files(database, [secret], ()))
        names = "again.db.keys and again.db.secret"
    assert backup.is_file() and tollway("backup", "keyless.db").status == 0
    answer = tollway("restore", "keyless.db", *INTO)
    assert answer.status == 0
    assert f"put those of its gateway to {names} before" in answer.out
    assert not (workplace / "again.db.keys").exists()


def test_keys_of_sealed_rows_are_asked_for_also_without_their_fingerprints(
    tollway: Command, unsigned: Path
) -> None:
    sql("DELETE FROM key_check")(unsigned)
    unsigned.with_name("copy.db.keys").unlink()
    assert tollway("restore", "copy.db", "--json", *INTO).json["keys_missing"] == ["again.db.keys"]


def test_no_keys_are_asked_for_where_there_were_none(tollway: Command, ledger_store: Store) -> None:
    assert tollway("account", "open", "acme").status == 0
    assert tollway("backup", "plain.db").status == 0
    answer = tollway("restore", "plain.db", *INTO)
    assert answer.status == 0
    assert "keys are not in the backup" not in answer.out


def test_a_copy_that_is_still_being_written_is_refused(
    tollway: Command, backup: Path, workplace: Path
) -> None:
    shutil.copyfile("ledger.db", "live.db")
    with closing(apsw.Connection("live.db")) as writer:
        writer.execute("UPDATE version SET directory = directory + 1").fetchall()
        assert_refused(tollway("restore", "live.db", *INTO), "live.db-wal has a part of it")
    assert backup.is_file()
    assert not (workplace / "again.db").exists()


def test_other_keys_than_those_of_the_backup_are_refused(
    tollway: Command, backup: Path, workplace: Path
) -> None:
    right = backup.with_name("copy.db.keys").read_bytes()
    backup.with_name("copy.db.keys").unlink()
    load_sealer(backup.with_name("copy.db.keys"))
    before = files(workplace)
    assert_refused(
        tollway("restore", "copy.db", *INTO), "The key file copy.db.keys has another key 1 than"
    )
    assert files(workplace) == before
    # Also where it is put by hand.
    backup.with_name("copy.db.keys").rename("again.db.keys")
    assert_refused(
        tollway("restore", "copy.db", *INTO), "The key file again.db.keys has another key 1 than"
    )
    Path("again.db.keys").write_bytes(right)
    assert tollway("restore", "copy.db", *INTO).status == 0


def test_a_backup_with_records_of_a_key_that_was_dropped_since_needs_the_keys_of_its_time(
    tollway: Command, backup: Path, workplace: Path
) -> None:
    keys = workplace / "ledger.db.keys"
    # As `tollway keys rotate` begins beside a gateway: the new key is known, and not used yet.
    add_key(keys)
    assert tollway("source", "rotate", "market").status == 0
    assert tollway("backup", "half.db").status == 0
    of_then = keys.read_bytes()
    use_key(keys, 2)
    drop_keys(keys, left_of)
    before = files(workplace)
    refused = tollway("restore", "half.db", "--replace")
    assert_refused(refused, "ledger.db.keys does not have key 1", "of the time of the backup")
    assert files(workplace) == before
    keys.write_bytes(of_then)
    assert tollway("restore", "half.db", "--replace").status == 0
    assert tollway("source", "rotate", "market").status == 0
    assert backup.is_file()
