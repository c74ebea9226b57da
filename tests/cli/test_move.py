"""A database moved to PostgreSQL: all of it, whatever comes between, or a sentence why not."""

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

import apsw
import pytest

from tests.cli.conftest import Command
from tests.support.forks import Fork
from tests.support.gateway import Gateway
from tests.support.ports import free_port
from tests.support.postgresql import locked, new_database, run_on
from tests.support.stores import Store
from tollway.contract.oauth import GRANT_TYPE, TOKEN_PATH
from tollway.demo.figures import product_ids
from tollway.demo.filling import fill_figures, fill_orders
from tollway.ledger.accounts import open_account
from tollway.ledger.client_tokens import obtain_token
from tollway.ledger.clients import recognise
from tollway.ledger.entries import top_up
from tollway.ledger.identity import World
from tollway.ledger.permissions import Permission, grant
from tollway.ledger.tokens import issue_token
from tollway.store.database import StoreBusyError
from tollway.store.migrate import migrate
from tollway.store.moving.source import open_source
from tollway.store.open import OpenDatabase, open_database, open_sealer
from tollway.store.sealing import load_sealer
from tollway.store.sqlite.database import SqliteDatabase
from tollway.store.sqlite.lock import ServingLock
from tollway.store.tables import ALL_TABLES
from tollway.store.versions import write_nothing_new
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.postgresql

ZONE = ZoneInfo("Asia/Shanghai")
DAY = date(2026, 1, 31)
FROM = "sqlite:///old.db"


def _do(url: str, work: Callable[[OpenDatabase], Awaitable[object]]) -> None:
    async def run() -> None:
        database = open_database(url, Metrics())
        try:
            await migrate(database)
            await work(database)
        finally:
            await database.close()

    asyncio.run(run())


async def _fill(database: OpenDatabase) -> None:
    world = World()
    await fill_figures(database, products=2, days=3, last=DAY)
    sealer = open_sealer(FROM, "")
    await fill_orders(database, sealer, per_year=400, days=365, today=DAY, zone=ZONE)
    account = (await open_account(database, world, "Blue Harbour")).id
    await grant(database, account, Permission("product_analysis", None, None))
    await top_up(database, world, account, "calls:product_analysis", 5, "for a start")
    await issue_token(database, world, account, label="till")


@pytest.fixture
def old(workplace: Path) -> Path:
    """A file with something of most kinds in it, and its keys."""
    _do(FROM, _fill)
    return workplace / "old.db"


@pytest.fixture
def target(workplace: Path) -> Store:
    """An empty database, which the settings give a key file and a secret file."""
    return Store(workplace / "books.db", new_database())


def _rows(name: str, columns: str, path: Path, url: str) -> tuple[object, object]:
    """All rows of a table on both sides, read in a way of the test's own."""
    connection = apsw.Connection(str(path))
    here = connection.execute(f"SELECT {columns} FROM {name}").fetchall()
    connection.close()
    return sorted(map(repr, here)), sorted(map(repr, run_on(url, f"SELECT {columns} FROM {name}")))


def _assert_same(path: Path, url: str) -> None:
    for table in ALL_TABLES:
        columns = ", ".join(f'"{column.name}"' for column in table.c)
        here, there = _rows(table.name, columns, path, url)
        assert here == there, table.name


def _unfinish(url: str, old: Path) -> None:
    """As if the move had been broken off after its last row."""
    run_on(url, "CREATE TABLE unfinished_move (source text)")
    run_on(url, f"INSERT INTO unfinished_move VALUES ('{old.resolve()}')")


def test_everything_is_moved_and_serves(tollway: Command, old: Path, target: Store) -> None:
    moved = tollway("move", "--from", FROM, "--to", target.url, "--json")
    assert moved.status == 0, moved.err
    _assert_same(old, target.url)
    counts = {each["name"]: each["rows"] for each in moved.json["tables"]}
    assert counts["shop_order"] == 400
    assert moved.json["differences"] == moved.json["breaches"] == []
    assert Path(target.key_file).read_bytes() == Path("old.db.keys").read_bytes()
    token = tollway("token", "issue", "Blue Harbour", "--database", target.url).out.split()[0]
    gateway = Gateway(target)
    try:
        question = {"product_id": product_ids(1)[0], "query_date": DAY.isoformat()}
        assert gateway.get(token=token, query=question).code == 0
    finally:
        assert gateway.stop() == 0
    assert tollway("audit", "--database", target.url).status == 0
    again = tollway("move", "--from", FROM, "--to", target.url)
    assert again.status == 1
    assert "The target is not empty, it has rows in table account" in again.err


def test_a_move_that_is_killed_goes_on(tollway: Command, workplace: Path, target: Store) -> None:
    path = workplace / "old.db"
    _do(FROM, lambda database: fill_figures(database, products=8, days=365, last=DAY))
    connection = apsw.Connection(str(path))
    (total,) = connection.execute("SELECT count(*) FROM product_figure").fetchone()
    connection.close()
    for rows in (1, total // 2, total):
        _kill_at(rows, target.url)
        refused = tollway("account", "list", "--database", target.url)
        assert refused.status == 1
        assert refused.err == (
            f"A move of {path} into the database is not finished: run `tollway move` again.\n"
        )
    moved = tollway("move", "--from", FROM, "--to", target.url)
    assert moved.status == 0, moved.err
    assert "each is the same there" in moved.out
    _assert_same(path, target.url)
    assert tollway("account", "list", "--database", target.url).status == 0


def _kill_at(rows: int, url: str) -> None:
    # Its last table: so the move is not over before it is killed.
    with locked(url, "version"):
        moving = Fork("tollway", "move", "--from", FROM, "--to", url)
        while run_on(url, "SELECT count(*) FROM product_figure")[0][0] < rows:
            assert moving.poll() is None
        moving.send_signal(signal.SIGKILL)
        assert moving.wait(timeout=60) == -signal.SIGKILL
    assert moving.stdout is not None
    moving.stdout.close()


# The last rows of a table would only be copied again.
_FIRST_DAY = "SELECT product_id, day FROM product_day ORDER BY product_id, day LIMIT 1"


@pytest.mark.parametrize(
    ("sabotage", "table", "what"),
    [
        ("UPDATE shop_order SET pay_fen = pay_fen + 1", "shop_order", "has another pay_fen"),
        ("UPDATE entry SET note = NULL", "entry", "has another note"),
        (
            f"DELETE FROM product_day WHERE (product_id, day) IN ({_FIRST_DAY})",
            "product_day",
            "is missing in the target",
        ),
        ("INSERT INTO product VALUES ('1', '', '', '')", "product", "is not in the source"),
    ],
)
def test_a_row_that_differs_is_named(
    tollway: Command, old: Path, target: Store, sabotage: str, table: str, what: str
) -> None:
    assert tollway("move", "--from", FROM, "--to", target.url).status == 0
    _unfinish(target.url, old)
    run_on(target.url, sabotage)
    moved = tollway("move", "--from", FROM, "--to", target.url, "--json")
    assert moved.status == 1
    named = {(each["table"], each["what"]) for each in moved.json["differences"]}
    assert named == {(table, what)}
    for command in (("account", "list"), ("serve", "--port", str(free_port()))):
        refused = tollway(*command, "--database", target.url)
        assert refused.status == 1
        assert "is not finished: run `tollway move` again" in refused.err
    restarted = tollway("move", "--from", FROM, "--to", target.url, "--restart")
    assert restarted.status == 0, restarted.err
    _assert_same(old, target.url)


def test_a_breach_is_told_and_the_move_stays_unfinished(
    tollway: Command, old: Path, target: Store
) -> None:
    connection = apsw.Connection(str(old))
    connection.execute("UPDATE balance SET amount = amount + 1")
    connection.close()
    moved = tollway("move", "--from", FROM, "--to", target.url)
    assert moved.status == 1
    assert "amount_differs" in moved.out
    assert "The audit failed: breaches found, 1." in moved.err
    assert tollway("audit", "--database", target.url).status == 1


def test_nobody_writes_to_the_source_meanwhile(old: Path) -> None:
    async def write() -> None:
        database = SqliteDatabase(str(old), 0.01, Metrics())
        try:
            await database.write(write_nothing_new)
        finally:
            await database.close()

    with open_source(str(old)), pytest.raises(StoreBusyError):
        asyncio.run(write())
    asyncio.run(write())


def test_what_cannot_be_moved_is_told(tollway: Command, old: Path, target: Store) -> None:
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
def test_a_mistake_is_told(
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
            # As if it had begun to serve before the move that is now to be begun anew.
            _unfinish(target.url, old)
        refused = tollway("move", "--from", FROM, "--to", target.url, *how)
        assert (refused.status, refused.out) == (1, "")
        assert refused.err.startswith("The target is being served by the gateways ")
        assert f":{gateway.port}: stop them, then move." in refused.err
        is_marked = run_on(target.url, "SELECT to_regclass('unfinished_move') IS NOT NULL")
        assert is_marked == [(bool(how),)]
    finally:
        assert gateway.stop() == 0
    assert tollway("move", "--from", FROM, "--to", target.url, *how).status == 0
    _assert_same(old, target.url)


def test_a_killed_gateway_counts_as_serving_for_a_while(
    tollway: Command, old: Path, target: Store
) -> None:
    run_on(target.url, "INSERT INTO node VALUES ('node_1', 'gone:8080', '1', '0001', 0)")
    seen = "UPDATE node SET seen_at_ms = (extract(epoch FROM now()) - {}) * 1000"
    run_on(target.url, seen.format(0))
    refused = tollway("move", "--from", FROM, "--to", target.url)
    assert "gone:8080: stop them, then move. One that was killed counts for 90" in refused.err
    run_on(target.url, seen.format(91))
    assert tollway("move", "--from", FROM, "--to", target.url).status == 0


def test_another_unfinished_move_is_refused(tollway: Command, old: Path, target: Store) -> None:
    _unfinish(target.url, Path("other.db"))
    refused = tollway("move", "--from", FROM, "--to", target.url)
    assert refused.status == 1
    assert "has an unfinished move of" in refused.err
    assert tollway("move", "--from", FROM, "--to", target.url, "--restart").status == 0
    _assert_same(old, target.url)


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
    assert "The source has sealed data, and neither old.db.keys nor" in missing.err
    monkeypatch.setenv("TOLLWAY_KEY_FILE", "elsewhere.keys")
    assert tollway("move", "--from", FROM, "--to", target.url).status == 0
    monkeypatch.delenv("TOLLWAY_KEY_FILE")
    unset = tollway("move", "--from", FROM, "--to", target.url)
    assert "set key_file to a file that is the same on every node" in unset.err


def test_the_target_is_used_with_the_keys_of_the_source(
    tollway: Command, old: Path, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOLLWAY_KEY_FILE", "old.db.keys")
    assert tollway("source", "add", "market", "--database", FROM).status == 0
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
    refused = tollway("source", "add", "another", "--database", target.url)
    assert refused.status == 1
    assert f"The key file {target.key_file} has another key 1 than" in refused.err


def test_clients_are_moved_with_their_tokens_and_go_on(
    tollway: Command, old: Path, target: Store
) -> None:
    added = tollway("client", "add", "Blue Harbour", "--json", "--database", FROM).json

    tokens: list[str] = []

    async def obtain(database: OpenDatabase) -> None:
        found = await recognise(database, added["client_id"], added["client_secret"])
        assert found is not None
        issued = await obtain_token(database, World(), found, 3600)
        assert issued is not None
        tokens.append(issued.text)

    _do(FROM, obtain)
    assert tollway("move", "--from", FROM, "--to", target.url).status == 0
    _assert_same(old, target.url)
    gateway = Gateway(target)
    try:
        form = {name: added[name] for name in ("client_id", "client_secret")}
        asked = gateway.client.post(TOKEN_PATH, data={**form, "grant_type": GRANT_TYPE})
        question = {"product_id": product_ids(1)[0], "query_date": DAY.isoformat()}
        for token in (*tokens, asked.json()["access_token"]):
            assert gateway.get(token=token, query=question).code == 0
    finally:
        assert gateway.stop() == 0
