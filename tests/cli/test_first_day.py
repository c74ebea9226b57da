"""What an operator does on the first day, command by command, as it is printed for people."""

import io
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.support.forks import Fork, run
from tests.support.ports import free_port
from tests.support.postgresql import new_database
from tests.support.stores import Store
from tollway.consent.owners import put_owner
from tollway.demo.owners import SHOP
from tollway.store.migrate import newest_revision


def test_a_database_is_migrated_an_account_opened_and_everything_about_it_shown(
    process: Command, tollway: Command, workplace: Path
) -> None:
    def says(*arguments: str, run: Command = tollway) -> str:
        answer = run(*arguments)
        assert (answer.status, answer.err) == (0, ""), answer
        assert "\x1b" not in answer.out
        return answer.out

    newest = newest_revision()
    assert says("migrate", run=process) == f"The database is created, at schema {newest}.\n"
    assert "no accounts yet" in says("account", "list", run=process)
    assert says("account", "open", "acme").startswith("Account acme is open; its id is acc_")
    assert "now has 500 credits" in says("credit", "add", "acme", "500", "--note", "invoice [7]")
    assert "now has 480 credits" in says("credit", "add", "acme", "-20", run=process)
    assert "now has 50 calls of product_analysis" in says(
        "credit", "add", "acme", "50", "--calls", "product_analysis"
    )
    assert "at a price of 2 and 30 calls a second" in says(
        "permission", "add", "acme", "product_analysis", "--price", "2", "--rate", "30"
    )
    text = says("token", "issue", "acme", "--label", "till 3", "--expires-days", "30").split()[0]
    assert text.startswith("tw_live_")

    sheet = says("account", "show", "acme", run=process)
    for shown in ("acme", "480", "calls:product_analysis", "30", "till 3", "Asia/Shanghai"):
        assert shown in sheet
    assert text not in sheet
    ledger = says("ledger", "show", "acme", run=process)
    assert "invoice [7]" in ledger
    assert "correction" in ledger
    assert "is revoked" in says("token", "revoke", text, run=process)
    assert "revoked" in says("token", "list", "acme")
    assert "All checks passed." in says("audit")
    assert "is closed" in says("account", "close", "acme", "--yes")


@pytest.mark.parametrize("what", ["account", "shop"])
def test_no_demo_world_is_mixed_with_what_is_there(
    tollway: Command, ledger_store: Store, what: str
) -> None:
    if what == "account":
        assert tollway("account", "open", "acme").status == 0
    else:
        ledger_store.do(lambda db: db.write(lambda tx: put_owner(tx, SHOP, "")))
    refused = tollway("demo")
    assert refused.status == 1 and "would be mixed with them" in refused.err
    assert ledger_store.run("SELECT count(*) FROM shop_order") == [(0,)]


def test_a_closed_account_shows_no_token_and_no_client_as_valid(tollway: Command) -> None:
    tollway("migrate")
    for name in ("acme", "empty"):
        tollway("account", "open", name)
    tollway("credit", "add", "acme", "1500")
    tollway("credit", "add", "acme", "50", "--calls", "product_analysis")
    tollway("token", "issue", "acme")
    tollway("client", "add", "acme")
    assert (
        "It had 50 calls of product_analysis and 1,500 credits left."
        in tollway("account", "close", "acme", "--yes").out
    )
    assert "left" not in tollway("account", "close", "empty", "--yes").out
    for shown in (("account", "show"), ("token", "list"), ("client", "list")):
        sheet = tollway(*shown, "acme").out
        assert "valid" not in sheet
        assert "closed" in sheet


def test_a_source_of_shops_that_are_not_known_is_added_and_they_are_named(
    tollway: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    tollway("migrate")
    assert "--shop OWNER_ID" in tollway("source", "add", "market").err
    shops = [part for shop in range(5) for part in ("--shop", str(shop))]
    added = tollway("source", "add", "market", *shops)
    assert (added.status, added.err) == (0, "")
    assert "Not known yet: shop 0, 1, 2 and 2 more." in added.out
    assert "tollway source rotate" in tollway("source", "add", "market", *shops).err

    monkeypatch.setattr("sys.stdin", io.StringIO("a long password\n"))
    known = ("shop", "add", "7", "Seven", "--login", "seven", "--password-stdin")
    assert tollway(*known).status == 0
    changed = tollway("source", "set", "market", "--shop", "7", "--shop", "*", "--channel", "lunch")
    assert changed.out.endswith("from now on.\n")


@pytest.mark.sqlite
def test_a_reader_that_leaves_early_is_no_error_worth_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    with subprocess.Popen(
        [sys.executable, "-m", "tollway", "settings"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        command.stdout.close()
        assert command.stderr.read() == b""


def greeting(folder: Path, *arguments: str) -> str:
    """What `tollway serve` prints until it serves."""
    serving = Fork("tollway", "serve", "--port", str(free_port()), *arguments, cwd=folder)
    assert serving.stdout is not None
    with serving.stdout as output:
        lines = []
        for line in output:
            lines.append(line)
            if line.startswith("Stop with"):
                break
        serving.terminate()
        serving.wait(60)
    return "".join(lines)


@pytest.mark.sqlite
def test_serving_says_that_a_gateway_is_new_and_where_and_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOLLWAY_DATABASE", raising=False)
    first = greeting(tmp_path)
    assert f"This gateway is new and has no data: its database was made now, {tmp_path}/" in first
    assert "Next: `tollway account open NAME`" in first
    assert run("tollway", "account", "open", "acme", cwd=tmp_path).returncode == 0
    again = greeting(tmp_path)
    assert "is new" not in again and "account open" not in again
    assert "Tollway is serving on http" in again


@pytest.mark.postgresql
def test_serving_an_empty_server_says_what_comes_next_until_there_is_an_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOLLWAY_DATABASE", new_database(is_migrated=False))
    monkeypatch.setenv("TOLLWAY_KEY_FILE", str(tmp_path / "keys"))
    monkeypatch.setenv("TOLLWAY_SECRET_FILE", str(tmp_path / "secret"))
    assert "Next: `tollway account open NAME`" in greeting(tmp_path)
    assert run("tollway", "account", "open", "acme", cwd=tmp_path).returncode == 0
    assert "account open" not in greeting(tmp_path)


def _serves(store: Store, name: str) -> None:
    """As if a gateway of this name served the database."""
    now_ms = int(time.time() * 1000)
    store.run(f"INSERT INTO node VALUES ('{name}', '{name}', '1', '0001', 1, 1, {now_ms}, 0, NULL)")


def test_a_link_has_the_address_where_the_gateway_serves(
    tollway: Command, ledger_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = "set public_url"
    made = tollway("operator", "link")
    assert "http://127.0.0.1:8080/operator/enter?link=" in made.out and unknown in made.out
    # Of another machine it is not known under which name people reach it.
    _serves(ledger_store, "elsewhere:9555")
    assert unknown in tollway("operator", "invite", "wang").out
    ledger_store.run("DELETE FROM node")
    _serves(ledger_store, f"{socket.gethostname()}:9123")
    for arguments in (("operator", "link", "wang"), ("operator", "invite", "zhao")):
        made = tollway(*arguments)
        assert "\nhttp://127.0.0.1:9123/operator/enter?link=" in made.out
        # It may serve with a `--host` or `--public-url` that this command does not know.
        assert unknown in made.out
    _serves(ledger_store, f"{socket.gethostname()}:9124")
    assert unknown in tollway("operator", "link", "wang").out
    # As in a container: who listens on all addresses has none of them that can be opened anywhere.
    for host, address in (("0.0.0.0", "127.0.0.1"), ("::", "[::1]")):
        monkeypatch.setenv("TOLLWAY_HOST", host)
        made = tollway("operator", "link", "wang")
        assert f"\nhttp://{address}:8080/operator/enter?link=" in made.out
    monkeypatch.setenv("TOLLWAY_PUBLIC_URL", "https://gateway.example")
    made = tollway("operator", "link", "wang")
    assert "\nhttps://gateway.example/operator/enter?link=" in made.out
    assert unknown not in made.out


@pytest.mark.sqlite
def test_a_folder_that_does_not_exist_is_named_as_that(process: Command, tmp_path: Path) -> None:
    answer = process("serve", "--database", f"sqlite:///{tmp_path}/none/tollway.db")
    assert answer.status == 1
    assert answer.err.startswith(f"The folder of {tmp_path}/none/tollway.db does not exist")
    assert "key" not in answer.err
