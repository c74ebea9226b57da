"""Migrations make exactly the schema that the tables say, on either engine."""

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from tests.support.ledger import WORLD
from tests.support.postgresql import new_database
from tests.support.stores import Store
from tollway.ledger.tokens import list_tokens, revoke_token
from tollway.operations.catalogue import ALL_TABLES
from tollway.store import migrate as migrating
from tollway.store.database import StoreError, StoreUnavailableError, Transaction
from tollway.store.migrate import (
    SchemaError,
    check_current,
    migrate,
    migration_script,
    newest_revision,
)
from tollway.store.open import open_database
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.metrics import Metrics

SchemaRow = tuple[str, str, str, str]


@pytest.fixture
def migrated(tmp_path: Path) -> Store:
    return Store(tmp_path / "migrated.db")


def schema_of(path: Path) -> set[SchemaRow]:
    """Every table and index, with its text but for the white space."""
    with apsw.Connection(str(path)) as connection:
        rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    return {
        (kind, name, table, re.sub(r"\s+", " ", text or "").replace(" ,", ",").strip())
        for kind, name, table, text in rows
        if table != "alembic_version"
    }


@pytest.mark.sqlite
def test_a_migrated_database_has_exactly_the_tables_of_the_schema(
    migrated: Store, tmp_path: Path
) -> None:
    made = tmp_path / "made.db"
    connection = apsw.Connection(str(made))
    dialect = sqlite.dialect()
    for table in ALL_TABLES:
        connection.execute(str(CreateTable(table).compile(dialect=dialect)))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            connection.execute(str(CreateIndex(index).compile(dialect=dialect)))
    connection.close()
    assert schema_of(migrated.path) == schema_of(made)


@pytest.mark.sqlite
def test_a_difference_between_the_two_would_be_seen(migrated: Store) -> None:
    before = schema_of(migrated.path)
    apsw.Connection(str(migrated.path)).execute("ALTER TABLE account ADD COLUMN extra TEXT")
    assert schema_of(migrated.path) != before


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_either_dialect_gets_a_script_with_every_table(dialect: str) -> None:
    script = migration_script(dialect, None)
    for table in ALL_TABLES:
        assert f"CREATE TABLE {table.name} (" in script.replace('"', "")
    assert ("WITHOUT ROWID" in script) == (dialect == "sqlite")
    assert f"'{newest_revision()}'" in script


def test_nothing_is_left_to_do_from_the_newest_revision(migrated: Store) -> None:
    for dialect in ("sqlite", "postgresql"):
        assert migration_script(dialect, newest_revision()).strip() == ""
    assert migrated.do(migrate) == (newest_revision(), newest_revision())
    migrated.do(check_current)


def test_a_database_of_an_unknown_revision_is_refused_in_a_sentence(migrated: Store) -> None:
    migrated.run("UPDATE alembic_version SET version_num = '9999'")
    migrated.run("UPDATE schema_floor SET revision = '9998'")
    for refuses in (migrate, check_current):
        with pytest.raises(SchemaError, match=r"schema 9999, which this version does not know"):
            migrated.do(refuses)


@pytest.mark.sqlite
def test_a_database_that_was_never_migrated_is_told_how_to_be(tmp_path: Path) -> None:
    async def run() -> None:
        database = open_database(f"sqlite:///{tmp_path / 'empty.db'}", Metrics())
        with pytest.raises(SchemaError, match=r"schema none.*run `tollway migrate`"):
            await check_current(database)
        await database.close()

    asyncio.run(run())


def _script(text: str) -> Callable[[Transaction, str | None], Awaitable[str]]:
    async def plan(_: Transaction, __: str | None) -> str:
        return text

    return plan


@pytest.mark.sqlite
def test_a_script_that_fails_leaves_nothing_behind(migrated: Store) -> None:
    before = schema_of(migrated.path)

    async def work(database: SqliteDatabase) -> None:
        with pytest.raises(apsw.SQLError):
            await database.upgrade(_script("CREATE TABLE half (a); CREATE TABLE account (a);"))
        await database.upgrade(_script("CREATE TABLE whole (a);"))

    migrated.do(work)
    assert {row[1] for row in schema_of(migrated.path) - before} == {"whole"}


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
    with pytest.raises(StoreUnavailableError):
        open_database(f"sqlite:///{path}", Metrics())
    assert path.read_text() == "Dear all, " * 1000


def test_tokens_of_the_schema_before_clients_stay_as_they_are(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "migrations"
    shutil.copytree(migrating._LOCATION, folder)
    for version in (folder / "versions").glob("0*.py"):
        if version.name >= "0016":
            version.unlink()
    path = tmp_path / "old.db"
    url = new_database(is_migrated=False) if engine == "postgresql" else f"sqlite:///{path}"
    if engine == "sqlite":
        # An empty file, so that the store does not begin with a migrated one.
        path.touch()
    with monkeypatch.context() as patch:
        patch.setattr(migrating, "_LOCATION", str(folder))
        old = Store(path, url)
        last = newest_revision()
        blob = "'\\x01'" if old.is_shared else "x'01'"
        old.run("INSERT INTO account (id, name, opened_at_s) VALUES ('acc_1', 'Acme', 1)")
        old.run(
            "INSERT INTO token (hash, id, account_id, kind, label, start, issued_at_s) "
            f"VALUES ({blob}, 'tok_1', 'acc_1', 'live', 'till', 'tw_live_abcd', 1)"
        )
    before, after = old.do(migrate)
    assert last < "0016"
    assert (before, after) == (last, newest_revision())
    (token,) = old.do(lambda database: list_tokens(database, "Acme"))
    assert (token.id, token.label, token.client_id) == ("tok_1", "till", None)
    old.do(lambda database: revoke_token(database, WORLD, "tok_1"))
