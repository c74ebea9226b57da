"""A role that may not do what is asked of it is refused in one sentence."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.test_errors import assert_one_sentence
from tests.support import forks
from tests.support.gateway import Gateway
from tests.support.months import OLD_MS, make_month, months_of
from tests.support.orders import order, put_orders
from tests.support.ports import free_port
from tests.support.postgresql import Server, run_on
from tests.support.remote import eventually
from tests.support.stores import Store
from tollway.store.postgresql.durability import wait_for_standby

pytestmark = pytest.mark.postgresql

ALL_BUT_OWNING = "GRANT ALL ON ALL TABLES IN SCHEMA public TO poor"


@pytest.fixture(scope="module")
def server(engine: str) -> Iterator[Server]:
    """A server with a role that has no rights."""
    made = Server()
    run_on(made.url, "CREATE ROLE poor LOGIN")
    yield made
    made.remove()


def test_a_role_without_rights_is_shown_which_it_needs(
    tollway: Command,
    process: Command,
    server: Server,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOLLWAY_DATABASE", _as_poor(server.url))
    assert_one_sentence(tollway("migrate"), 1, "denied for schema public", "must own the tables")
    owned = Store(workplace / "ledger.db", server.url)
    for line in ("account list", "account open acme", "credit add acme 5", "migrate"):
        assert_one_sentence(tollway(*line.split()), 1, "permission denied", "must own the tables")
    refused = process("serve", "--port", str(free_port()))
    assert_one_sentence(refused, 1, "permission denied", "must own the tables")

    make_month(owned, "shop_order", OLD_MS)
    run_on(server.url, ALL_BUT_OWNING)
    monkeypatch.setenv("TOLLWAY_KEEP_ORDERS_DAYS", "30")
    answer = tollway("retention", "apply")
    assert_one_sentence(answer, 1, "must be owner of table shop_order", "must own the tables")

    run_on(server.url, "REVOKE CONNECT ON DATABASE postgres FROM PUBLIC")
    assert_one_sentence(tollway("account", "list"), 1, "permission denied for database")


def test_a_gateway_that_cannot_make_the_coming_months_serves_and_says_so(
    server: Server, workplace: Path
) -> None:
    run_on(server.url, "CREATE DATABASE second TEMPLATE template0")
    owned = Store(workplace / "ledger.db", f"{server.url.rpartition('/')[0]}/second")
    owned.run(ALL_BUT_OWNING)
    for month in set(months_of(owned, "entry")) - {"rest"}:
        owned.run(f"DROP TABLE entry_{month}")
    owned.url = _as_poor(owned.url)
    gateway = Gateway(owned)
    sentence = "the coming months of entry cannot be made: The role"
    eventually(gateway.log, lambda log: sentence in log)
    assert gateway.stop() == 0
    # What comes of a month that is not there goes to the rest.
    assert put_orders(owned, [order(confirm_time=OLD_MS)]) == 1


def test_a_gateway_that_may_only_read_ends_with_a_sentence(server: Server, workplace: Path) -> None:
    run_on(server.url, "CREATE DATABASE third TEMPLATE template0")
    owned = Store(workplace / "ledger.db", f"{server.url.rpartition('/')[0]}/third")
    assert Gateway(owned).stop() == 0
    owned.run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO poor")
    owned.url = _as_poor(owned.url)
    serve = ("serve", "--port", str(free_port()))
    ended = forks.run("tollway", *serve, env={**os.environ, **owned.settings}, cwd=workplace)
    assert ended.returncode == 1
    assert "The role in the database's URL has too few" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_what_is_there_is_confirmed_without_any_right(server: Server, workplace: Path) -> None:
    run_on(server.url, "CREATE DATABASE fourth TEMPLATE template0")
    owned = Store(workplace / "ledger.db", f"{server.url.rpartition('/')[0]}/fourth")
    before = owned.run("SELECT pg_current_wal_insert_lsn()::text")
    owned.url = _as_poor(owned.url)
    owned.do(lambda database: database.write(wait_for_standby))
    assert owned.run("SELECT pg_current_wal_insert_lsn()::text") != before


def _as_poor(url: str) -> str:
    return url.replace("postgres@", "poor@")
