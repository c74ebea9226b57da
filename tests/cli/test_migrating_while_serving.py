"""A schema is not changed under gateways that could not serve on it; a newer one may be served."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import asyncpg
import pytest

from tests.cli.conftest import Command
from tests.support.gateway import Gateway
from tests.support.stores import Store
from tollway.store import migrate as migrating
from tollway.store.migrate import check_current, migrate, newest_revision

NEXT = "9001"
MIGRATION = f"""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{newest_revision()}"
%s

def upgrade() -> None:
    %s
"""
NOVELTY = 'op.create_table("novelty", sa.Column("id", sa.Integer, primary_key=True))'
FROM = f"from {newest_revision()} to {NEXT}"


@pytest.fixture
def upgraded(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Makes this process one of the next version, whose newest migration says this of itself."""
    with pytest.MonkeyPatch.context() as patch:

        def upgrade(says: str, changes: str = NOVELTY) -> None:
            folder = tmp_path / "migrations"
            shutil.copytree(migrating._LOCATION, folder)
            (folder / "versions" / f"{NEXT}_novelty.py").write_text(MIGRATION % (says, changes))
            patch.setattr(migrating, "_LOCATION", str(folder))

        yield upgrade


@pytest.fixture
def gateway(books: Store) -> Iterator[Gateway]:
    """One of this version."""
    started = Gateway(books)
    yield started
    if started.process.poll() is None:
        assert started.stop() == 0


@pytest.mark.parametrize("says", ["safe_while_serving = False", "# nothing"])
def test_an_unsafe_migration_waits_until_nobody_older_serves(
    books: Store,
    gateway: Gateway,
    tollway: Command,
    upgraded: Callable[..., None],
    says: str,
) -> None:
    upgraded(says)
    refused = tollway("migrate")
    told = " ".join(refused.err.split())
    assert (refused.status, refused.out) == (1, "")
    assert f"Schema {NEXT} cannot be served by the gateways that run now: " in told
    assert f":{gateway.port}. Stop them, then migrate." in told
    assert gateway.client.get("/readyz").status_code == 200
    assert gateway.stop() == 0
    assert FROM in tollway("migrate").out


def test_one_that_was_killed_counts_for_a_while(
    books: Store, gateway: Gateway, tollway: Command, upgraded: Callable[..., None]
) -> None:
    upgraded("safe_while_serving = False")
    gateway.kill()
    gateway.stop()
    assert "killed counts for 90 seconds" in " ".join(tollway("migrate").err.split())
    books.run("UPDATE node SET seen_at_ms = seen_at_ms - 90000")
    assert FROM in tollway("migrate").out


def test_an_older_version_is_refused_by_a_schema_it_cannot_serve(
    books: Store, tollway: Command, upgraded: Callable[..., None], process: Command
) -> None:
    upgraded("safe_while_serving = False")
    assert FROM in tollway("migrate").out
    for command in ("serve", "migrate"):
        # A process of its own is of this version.
        refused = process(command)
        assert refused.status == 1
        assert f"schema {NEXT}, which this version does not know" in " ".join(refused.err.split())


def test_a_safe_migration_is_made_while_older_ones_serve_and_start(
    books: Store,
    gateway: Gateway,
    tollway: Command,
    process: Command,
    upgraded: Callable[..., None],
) -> None:
    upgraded("safe_while_serving = True")
    assert FROM in tollway("migrate").out
    assert books.run("SELECT count(*) FROM novelty") == [(0,)]
    assert gateway.client.get("/readyz").status_code == 200
    assert gateway.stop() == 0
    again = Gateway(books)
    assert again.client.get("/readyz").status_code == 200
    assert again.stop() == 0
    assert "which can serve on it: nothing was done" in " ".join(process("migrate").out.split())


@pytest.mark.postgresql
def test_a_migration_does_not_make_others_wait_behind_a_long_read(
    books: Store, tollway: Command, upgraded: Callable[..., None]
) -> None:
    """As a backup is one: who waits for its end holds up everybody who comes later."""
    upgraded(
        "safe_while_serving = True", changes='op.add_column("account", sa.Column("n", sa.String))'
    )
    with asyncio.Runner() as runner:
        reader = runner.run(asyncpg.connect(books.url))
        try:
            runner.run(reader.execute("BEGIN; SELECT FROM account"))
            refused = tollway("migrate")
            assert (refused.status, refused.out) == (1, "")
            assert "is busy" in refused.err and "Try again" in refused.err
        finally:
            runner.run(reader.close())
    assert FROM in tollway("migrate").out


def test_a_gateway_that_stopped_is_not_counted(books: Store, gateway: Gateway) -> None:
    ((name, version, schema),) = books.run("SELECT name, version, knows_schema FROM node")
    assert name.endswith(f":{gateway.port}")
    assert (version, schema) == (import_module("tollway").__version__, newest_revision())
    assert gateway.stop() == 0
    assert books.run("SELECT count(*) FROM node") == [(0,)]


def test_what_is_migrated_alone_asks_nobody(
    books: Store, gateway: Gateway, upgraded: Callable[..., None]
) -> None:
    upgraded("safe_while_serving = False")
    assert books.do(lambda database: migrate(database, is_alone=True))[1] == NEXT
    books.do(check_current)
