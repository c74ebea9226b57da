"""A schema is not changed under gateways that could not serve on it; a newer one may be served."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.support.gateway import Gateway
from tests.support.migrations import NEXT
from tests.support.ports import free_port
from tests.support.postgresql import left_open
from tests.support.stores import Store
from tollway.store.migrate import check_current, migrate, newest_revision

HOUR_S = 3600
FROM = f"from {newest_revision()} to {NEXT}"


@pytest.fixture
def gateway(ledger_store: Store) -> Iterator[Gateway]:
    """One of this version."""
    started = Gateway(ledger_store)
    yield started
    if started.process.poll() is None:
        assert started.stop() == 0


@pytest.mark.parametrize("declares", ["safe_while_serving = False", "# nothing"])
def test_an_unsafe_migration_is_refused_while_older_gateways_serve(
    ledger_store: Store,
    gateway: Gateway,
    tollway: Command,
    upgraded: Callable[..., None],
    declares: str,
) -> None:
    upgraded(declares=declares)
    refused = tollway("migrate")
    message = " ".join(refused.err.split())
    assert (refused.status, refused.out) == (1, "")
    assert f"Schema {NEXT} cannot be served by the gateways that run now: " in message
    assert f":{gateway.port}. Stop them, then migrate." in message
    assert gateway.client.get("/readyz").status_code == 200
    assert gateway.stop() == 0
    assert FROM in tollway("migrate").out


@pytest.mark.postgresql
def test_a_gateway_whose_clock_is_wrong_counts_and_so_do_the_others(
    ledger_store: Store, gateway: Gateway, tollway: Command, upgraded: Callable[..., None]
) -> None:
    behind = Gateway(ledger_store, clock_ahead_s=-HOUR_S)
    # To it, all the others were seen so long ago that they are forgotten.
    ahead = Gateway(ledger_store, clock_ahead_s=25 * HOUR_S)
    upgraded()
    refused = tollway("migrate")
    message = " ".join(refused.err.split())
    assert refused.status == 1
    for each in (gateway, behind, ahead):
        assert f":{each.port}" in message
    # What was killed, ahead or not, is not taken for alive once its time is over.
    for each in (ahead, behind):
        each.kill()
        each.stop()
    assert gateway.stop() == 0
    ledger_store.run("UPDATE node SET seen_at_ms = seen_at_ms - 90000")
    assert FROM in tollway("migrate").out


def test_a_gateway_that_was_killed_counts_for_a_while(
    ledger_store: Store, gateway: Gateway, tollway: Command, upgraded: Callable[..., None]
) -> None:
    upgraded()
    gateway.kill()
    gateway.stop()
    assert "killed counts for 90 seconds" in " ".join(tollway("migrate").err.split())
    ledger_store.run("UPDATE node SET seen_at_ms = seen_at_ms - 90000")
    assert FROM in tollway("migrate").out


def test_an_older_version_is_refused_by_a_schema_it_cannot_serve(
    ledger_store: Store, tollway: Command, upgraded: Callable[..., None], process: Command
) -> None:
    upgraded()
    assert FROM in tollway("migrate").out
    for command in (("serve", "--port", str(free_port())), ("migrate",)):
        # A process of its own is of this version.
        refused = process(*command)
        assert refused.status == 1
        assert f"schema {NEXT}, which this version does not know" in " ".join(refused.err.split())


def test_a_safe_migration_is_made_while_older_ones_serve_and_start(
    ledger_store: Store,
    gateway: Gateway,
    tollway: Command,
    process: Command,
    upgraded: Callable[..., None],
) -> None:
    upgraded(declares="safe_while_serving = True")
    assert FROM in tollway("migrate").out
    assert ledger_store.run("SELECT count(*) FROM novelty") == [(0,)]
    assert gateway.client.get("/readyz").status_code == 200
    assert gateway.stop() == 0
    again = Gateway(ledger_store)
    assert again.client.get("/readyz").status_code == 200
    assert again.stop() == 0
    assert "which can serve on it: nothing was done" in " ".join(process("migrate").out.split())


@pytest.mark.postgresql
def test_a_migration_gives_up_behind_a_long_read(
    ledger_store: Store, tollway: Command, upgraded: Callable[..., None]
) -> None:
    """Such as a backup: all later statements queue behind a migration that waits for its lock."""
    upgraded(changes='op.add_column("account", sa.Column("nickname", sa.String))')
    with left_open(ledger_store.url, "SELECT FROM account"):
        refused = tollway("migrate")
        assert (refused.status, refused.out) == (1, "")
        assert "is busy" in refused.err and "Try again" in refused.err
    assert FROM in tollway("migrate").out


def test_a_gateway_that_stopped_is_not_counted(ledger_store: Store, gateway: Gateway) -> None:
    ((name, version, schema),) = ledger_store.run("SELECT name, version, knows_schema FROM node")
    assert name.endswith(f":{gateway.port}")
    assert (version, schema) == (import_module("tollway").__version__, newest_revision())
    assert gateway.stop() == 0
    assert ledger_store.run("SELECT count(*) FROM node") == [(0,)]


def test_a_migration_that_is_alone_ignores_the_table_of_nodes(
    ledger_store: Store, gateway: Gateway, upgraded: Callable[..., None]
) -> None:
    upgraded()
    assert ledger_store.do(lambda database: migrate(database, is_alone=True))[1] == NEXT
    ledger_store.do(check_current)


# The lock of a file would outlive a gateway that is refused inside the test's process.
@pytest.mark.postgresql
def test_a_gateway_without_the_right_keys_does_not_migrate(
    ledger_store: Store, tollway: Command, upgraded: Callable[..., None], workplace: Path
) -> None:
    before = newest_revision()
    assert tollway("source", "add", "market", "--shop", "*").status == 0
    (workplace / "ledger.db.keys").unlink()
    upgraded()
    refused = tollway("serve", "--port", str(free_port()))
    assert (refused.status, refused.out) == (1, "")
    assert "There is no key file" in refused.err
    assert ledger_store.run("SELECT version_num FROM alembic_version") == [(before,)]
