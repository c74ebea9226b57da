"""What cannot be moved, or not there, or not now: each is refused with a sentence why."""

import os
import shutil
from pathlib import Path

import apsw
import pytest

from tests.cli.conftest import Command
from tests.cli.moves import FROM, assert_same, unfinish
from tests.support.gateway import Gateway
from tests.support.postgresql import run_on
from tests.support.stores import Store
from tollway.store.sealing import load_sealer
from tollway.store.sqlite.files import ServingLock

pytestmark = pytest.mark.postgresql


def test_what_cannot_be_moved_is_reported(tollway: Command, old: Path, target: Store) -> None:
    connection = apsw.Connection(str(old))
    connection.execute("UPDATE account SET name = 'Blue' || char(0)")
    connection.close()
    moved = tollway("move", "--from", FROM, "--to", target.url)
    assert moved.status == 1
    assert "PostgreSQL cannot hold a row of the source (table account, key acc_" in moved.err
    assert ", column name): invalid byte sequence" in moved.err


@pytest.mark.parametrize(
    ("source", "to", "status", "sentence"),
    [
        ("TARGET", "TARGET", 2, "The source and the target are the same database."),
        (FROM, FROM, 2, "The source and the target are the same database."),
        ("TARGET", FROM, 2, "--from is a PostgreSQL database"),
        (FROM, "sqlite:///new.db", 2, "The target is a file"),
        (FROM, "mysql://host/name", 1, "A database URL begins with sqlite:/// or postgresql://"),
        (
            "mysql://host/name",
            "TARGET",
            1,
            "A database URL begins with sqlite:/// or postgresql://",
        ),
        ("sqlite:///none.db", "TARGET", 1, "There is no database file none.db to move."),
        (FROM, "EMPTY", 1, "The target is at schema none, this version needs"),
        ("sqlite:///bare.db", "TARGET", 1, "The source is at schema none, this version needs"),
        (FROM, "postgresql://127.0.0.1:1/x", 1, "The target postgresql://127.0.0.1:1/x cannot be"),
    ],
)
def test_a_mistake_is_reported(
    tollway: Command, old: Path, target: Store, source: str, to: str, status: int, sentence: str
) -> None:
    apsw.Connection("bare.db").execute("CREATE TABLE mine (a)")
    urls = {"TARGET": target.url, "EMPTY": os.environ["TOLLWAY_DATABASE"]}
    answer = tollway("move", "--from", urls.get(source, source), "--to", urls.get(to, to))
    assert (answer.status, answer.out) == (status, "")
    assert answer.err.startswith(sentence)


def test_a_source_that_is_served_is_refused(tollway: Command, old: Path, target: Store) -> None:
    lock = ServingLock(str(old))
    refused = tollway("move", "--from", FROM, "--to", target.url)
    lock.release()
    assert refused.status == 1
    assert f"is already being served by process {os.getpid()}" in refused.err


@pytest.mark.parametrize("how", [(), ("--restart",)])
def test_a_target_that_is_served_is_refused(
    tollway: Command, old: Path, target: Store, how: tuple[str, ...]
) -> None:
    shutil.copy(f"{old}.keys", target.key_file)
    gateway = Gateway(target)
    try:
        if how:
            # As if it had begun to serve before the move that is now to start over.
            unfinish(target.url, old)
        refused = tollway("move", "--from", FROM, "--to", target.url, *how)
        assert (refused.status, refused.out) == (1, "")
        assert refused.err.startswith("The target is being served by the gateways ")
        assert f":{gateway.port}: stop them, then move." in refused.err
        is_marked = run_on(target.url, "SELECT to_regclass('unfinished_move') IS NOT NULL")
        assert is_marked == [(bool(how),)]
    finally:
        assert gateway.stop() == 0
    assert tollway("move", "--from", FROM, "--to", target.url, *how).status == 0
    assert_same(old, target.url)


def test_a_killed_gateway_counts_as_serving_for_a_while(
    tollway: Command, old: Path, target: Store
) -> None:
    run_on(target.url, "INSERT INTO node VALUES ('node_1', 'gone:8080', '1', '0001', 1, 1, 0)")
    seen = "UPDATE node SET seen_at_ms = (extract(epoch FROM now()) - {}) * 1000"
    run_on(target.url, seen.format(0))
    refused = tollway("move", "--from", FROM, "--to", target.url)
    assert "gone:8080: stop them, then move. One that was killed counts for 90" in refused.err
    run_on(target.url, seen.format(91))
    assert tollway("move", "--from", FROM, "--to", target.url).status == 0


def test_another_unfinished_move_is_refused(tollway: Command, old: Path, target: Store) -> None:
    unfinish(target.url, Path("other.db"))
    refused = tollway("move", "--from", FROM, "--to", target.url)
    assert refused.status == 1
    assert "has an unfinished move of" in refused.err
    assert tollway("move", "--from", FROM, "--to", target.url, "--restart").status == 0
    assert_same(old, target.url)


def test_the_keys_must_be_those_of_the_source(
    tollway: Command, old: Path, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(target.key_file).write_bytes(b"other keys")
    other = tollway("move", "--from", FROM, "--to", target.url)
    assert other.status == 1
    assert "is there already and is not old.db.keys" in other.err
    Path(target.key_file).unlink()
    Path("old.db.keys").rename("elsewhere.keys")
    missing = tollway("move", "--from", FROM, "--to", target.url)
    assert missing.status == 1
    assert "The source has encrypted data, and neither old.db.keys nor" in missing.err
    monkeypatch.setenv("TOLLWAY_KEY_FILE", "elsewhere.keys")
    assert tollway("move", "--from", FROM, "--to", target.url).status == 0
    monkeypatch.delenv("TOLLWAY_KEY_FILE")
    unset = tollway("move", "--from", FROM, "--to", target.url)
    assert "TOLLWAY_KEY_FILE=FILE), the same on every node" in unset.err


def test_the_target_is_used_with_the_keys_of_the_source(
    tollway: Command, old: Path, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOLLWAY_KEY_FILE", "old.db.keys")
    assert tollway("source", "add", "market", "--shop", "*", "--database", FROM).status == 0
    monkeypatch.setenv("TOLLWAY_KEY_FILE", target.key_file)
    right = Path("old.db.keys").read_bytes()
    load_sealer(Path("other.keys"))
    other = Path("other.keys").read_bytes()
    Path("old.db.keys").write_bytes(other)
    refused = tollway("move", "--from", FROM, "--to", target.url)
    assert refused.status == 1
    assert "The key file old.db.keys has another key 1 than" in refused.err
    assert not Path(target.key_file).exists()
    Path("old.db.keys").write_bytes(right)
    assert tollway("move", "--from", FROM, "--to", target.url).status == 0
    Path(target.key_file).write_bytes(other)
    refused = tollway("source", "add", "another", "--shop", "*", "--database", target.url)
    assert refused.status == 1
    assert f"The key file {target.key_file} has another key 1 than" in refused.err
