"""A database is brought from any schema to the newest one, as a whole or not at all."""

from pathlib import Path

import apsw
import asyncpg
import pytest

from tests.support.engines import Engine
from tests.support.migrations import NEW_TABLE, NEXT, become_next_version
from tests.support.postgresql import new_database
from tests.support.stores import Store
from tollway.store.database import StoreError
from tollway.store.migrate import (
    SchemaError,
    check_current,
    migrate,
    migration_script,
    newest_revision,
)
from tollway.store.open import open_database
from tollway.telemetry.metrics import Metrics


@pytest.fixture
def migrated(tmp_path: Path) -> Store:
    return Store(tmp_path / "migrated.db")


def test_nothing_is_left_to_do_from_the_newest_revision(migrated: Store) -> None:
    for dialect in ("sqlite", "postgresql"):
        assert migration_script(dialect, newest_revision()).strip() == ""
    assert migrated.do(migrate) == (newest_revision(), newest_revision())
    migrated.do(check_current)


def test_a_database_is_upgraded_from_the_baseline_on(
    migrated: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline = newest_revision()
    migrated.run("INSERT INTO account (id, name, opened_at_s) VALUES ('acc_1', 'Acme', 1)")
    changes = 'op.add_column("account", sa.Column("nickname", sa.String))'
    become_next_version(monkeypatch, tmp_path / "migrations", changes=changes)
    with pytest.raises(SchemaError, match=rf"schema {baseline}, this version needs {NEXT}"):
        migrated.do(check_current)
    assert migrated.do(migrate) == (baseline, NEXT)
    migrated.do(check_current)
    assert migrated.run("SELECT id, name, nickname FROM account") == [("acc_1", "Acme", None)]
    assert migrated.run("SELECT revision FROM schema_floor") == [(NEXT,)]


@pytest.mark.postgresql
def test_new_text_is_ordered_by_its_bytes_too(
    migrated: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = 'op.add_column("account", sa.Column("nickname", sa.String))'
    become_next_version(monkeypatch, tmp_path / "migrations", changes=changes)
    migrated.do(migrate)
    assert migrated.run(
        "SELECT collation_name::text FROM information_schema.columns WHERE column_name = 'nickname'"
    ) == [("C",)]


def test_an_empty_database_gets_the_baseline_and_all_that_follows(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    url = new_database(is_migrated=False) if engine == "postgresql" else f"sqlite:///{path}"
    become_next_version(monkeypatch, tmp_path / "migrations")
    made = Store(path, url)
    assert made.run("SELECT version_num FROM alembic_version") == [(NEXT,)]
    assert made.run("SELECT id, directory, figures FROM version") == [(1, 0, 0)]
    assert made.run("SELECT count(*) FROM novelty") == [(0,)]


def test_a_migration_that_fails_leaves_nothing_behind(
    migrated: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = newest_revision()
    changes = f'{NEW_TABLE}; op.execute("INSERT INTO novelty SELECT missing FROM account")'
    become_next_version(monkeypatch, tmp_path / "migrations", changes=changes)
    with pytest.raises((apsw.SQLError, asyncpg.UndefinedColumnError)):
        migrated.do(migrate)
    with pytest.raises((apsw.SQLError, asyncpg.UndefinedTableError)):
        migrated.run("SELECT * FROM novelty")
    assert migrated.run("SELECT version_num FROM alembic_version") == [(before,)]


def test_a_database_of_an_unknown_revision_is_refused_in_a_sentence(migrated: Store) -> None:
    migrated.run("UPDATE alembic_version SET version_num = '9999'")
    migrated.run("UPDATE schema_floor SET revision = '9998'")
    for refuses in (migrate, check_current):
        with pytest.raises(SchemaError, match=r"schema 9999, which this version does not know"):
            migrated.do(refuses)


@pytest.mark.sqlite
async def test_a_database_that_was_never_migrated_is_refused_with_the_command_to_run(
    tmp_path: Path,
) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'empty.db'}", Metrics())
    with pytest.raises(SchemaError, match=r"schema none.*run `tollway migrate`"):
        await check_current(database)
    await database.close()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("mysql://localhost/tollway", "this one with mysql://"),
        ("tollway.db", "this one with tollway.db"),
        ("sqlite://tollway.db", "with three slashes"),
        ("sqlite:///", "names no file"),
        ("sqlite:////nowhere/at/all/tollway.db", "folder of /nowhere/at/all/tollway.db"),
    ],
)
@pytest.mark.sqlite
def test_a_url_that_cannot_be_opened_is_refused_in_a_sentence(url: str, problem: str) -> None:
    with pytest.raises(StoreError, match=problem):
        open_database(url, Metrics())


@pytest.mark.sqlite
def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear all, " * 1000)
    with pytest.raises(StoreError, match="is no database"):
        open_database(f"sqlite:///{path}", Metrics())
    assert path.read_text() == "Dear all, " * 1000
