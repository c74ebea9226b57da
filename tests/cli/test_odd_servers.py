"""What a server or a URL has set otherwise than most: reported in a sentence, or without effect."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.test_errors import assert_one_sentence
from tests.support.gateway import Gateway
from tests.support.ports import free_port
from tests.support.postgresql import Server, run_on, server_url
from tests.support.stores import Store

pytestmark = pytest.mark.postgresql


@pytest.mark.parametrize("setting", ["connect_timeout=5", "sslmod=verify-full", "work_mem=much"])
def test_an_unknown_parameter_of_the_url(
    tollway: Command, process: Command, ledger_store: Store, setting: str
) -> None:
    name, url = setting.partition("=")[0], f"{ledger_store.url}?{setting}"
    for answer in (
        tollway("account", "list", "--database", url),
        process("serve", "--port", str(free_port()), "--database", url),
    ):
        assert_one_sentence(answer, 1, "cannot be read or written", f'"{name}"', "the URL sets")


def test_a_command_takes_its_time_whatever_others_get(
    tollway: Command, ledger_store: Store
) -> None:
    name = ledger_store.url.rpartition("/")[2]
    ledger_store.run(f"ALTER DATABASE {name} SET statement_timeout = 1")
    assert tollway("audit").status == 0


def test_a_database_that_cannot_hold_every_script_is_refused(tollway: Command) -> None:
    server, name = server_url(), "tollway_test_latin"
    run_on(server, f"DROP DATABASE IF EXISTS {name}")
    run_on(server, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING LATIN1 LOCALE 'C'")
    url = f"{server.rpartition('/')[0]}/{name}"
    try:
        answer = tollway("migrate", "--database", url)
        assert_one_sentence(answer, 1, "is in LATIN1", "--encoding=UTF8")
        assert run_on(url, "SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == []
    finally:
        run_on(server, f"DROP DATABASE {name}")


def test_a_server_that_a_power_cut_would_ruin_is_reported(
    tollway: Command, workplace: Path
) -> None:
    server = Server(fsync="off", full_page_writes="on")
    try:
        store = Store(workplace / "ledger.db", server.url)
        answer = tollway("audit", "--database", store.url)
        gateway = Gateway(store)
        assert gateway.stop() == 0
    finally:
        server.remove()
    logged = [json.loads(line) for line in gateway.log().splitlines()]
    warned = [line["message"] for line in logged if "PostgreSQL runs" in line["message"]]
    assert warned == answer.out.splitlines()[-1:]
    assert "PostgreSQL runs with fsync = off." in warned[0]
    assert answer.status == 0
