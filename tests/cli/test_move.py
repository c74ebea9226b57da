"""A database moved to PostgreSQL: all of it, whatever comes between."""

import asyncio
import signal
from pathlib import Path
from time import sleep

import apsw
import pytest

from tests.cli.conftest import Command
from tests.cli.moves import DAY, FROM, assert_same, in_source, unfinish
from tests.support.forks import Fork
from tests.support.gateway import Gateway
from tests.support.ports import free_port
from tests.support.postgresql import locked, run_on
from tests.support.stores import Store
from tollway.gateway.oauth import GRANT_TYPE, TOKEN_PATH
from tollway.ledger.clients import obtain_token, recognise
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import ALL_TABLES
from tollway.operations.product_analysis.demo import fill_figures, product_ids
from tollway.store.cache_versions import write_nothing_new
from tollway.store.database import StoreBusyError
from tollway.store.moving.source import open_source
from tollway.store.open import OpenDatabase
from tollway.store.sqlite.database import SqliteDatabase
from tollway.telemetry.metrics import Metrics

pytestmark = pytest.mark.postgresql


def test_everything_is_moved_and_serves(tollway: Command, old: Path, target: Store) -> None:
    moved = tollway("move", "--from", FROM, "--to", target.url, "--json")
    assert moved.status == 0, moved.err
    assert_same(old, target.url)
    (act,) = tollway("trail", "show", "--limit", "1", "--json", "--database", target.url).json
    assert (act["act"], act["after"]) == ("move", {"from": "old.db"})
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
    assert "The target is not empty: the move of old.db into it is finished" in again.err


def test_a_move_that_is_killed_goes_on(tollway: Command, workplace: Path, target: Store) -> None:
    path = workplace / "old.db"
    in_source(lambda database: fill_figures(database, products=4, days=365, last=DAY))
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
    assert_same(path, target.url)
    assert tollway("account", "list", "--database", target.url).status == 0


@pytest.mark.usefixtures("old")
def test_a_target_that_has_rows_of_its_own_is_refused(tollway: Command, target: Store) -> None:
    assert tollway("account", "open", "own", "--database", target.url).status == 0
    refused = tollway("move", "--from", FROM, "--to", target.url)
    assert refused.status == 1
    assert "The target is not empty, it has rows in table account" in refused.err


@pytest.mark.usefixtures("old")
def test_a_move_that_is_over_is_in_the_trail_and_is_not_begun_again(
    tollway: Command, target: Store
) -> None:
    """Its last step is broken off, as by a kill; then it goes on, and then it is run once more."""
    target.run_all(_NO_ACT, _BREAK_OFF)
    assert tollway("move", "--from", FROM, "--to", target.url).status == 1
    assert "run `tollway move` again" in tollway("audit", "--database", target.url).err
    target.run("DROP TRIGGER break_off ON operator_act")
    assert tollway("move", "--from", FROM, "--to", target.url).status == 0
    assert target.run("SELECT count(*) FROM operator_act WHERE act = 'move'") == [(1,)]
    again = tollway("move", "--from", FROM, "--to", target.url)
    assert (again.status, again.err) == (
        1,
        "The target is not empty: the move of old.db into it is finished. Let the gateways serve "
        "it; another source is moved into a new database.\n",
    )


_NO_ACT = """
CREATE FUNCTION no_act() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'broken off' USING ERRCODE = '57P01'; END $$"""
_BREAK_OFF = """
CREATE TRIGGER break_off BEFORE INSERT ON operator_act
FOR EACH ROW WHEN (NEW.act = 'move') EXECUTE FUNCTION no_act()"""


def _kill_at(rows: int, url: str) -> None:
    # Its last table: so the move is not over before it is killed.
    with locked(url, "version"):
        moving = Fork("tollway", "move", "--from", FROM, "--to", url)
        while run_on(url, "SELECT count(*) FROM product_figure")[0][0] < rows:
            assert moving.poll() is None
            sleep(0.02)
        moving.send_signal(signal.SIGKILL)
        assert moving.wait(timeout=60) == -signal.SIGKILL
    assert moving.stdout is not None
    moving.stdout.close()


# The last rows of a table would only be copied again.
_FIRST_DAY = "SELECT product_id, day FROM product_day ORDER BY product_id, day LIMIT 1"


_SABOTAGE = {
    ("shop_order", "has another pay_fen"): "UPDATE shop_order SET pay_fen = pay_fen + 1",
    ("entry", "has another note"): "UPDATE entry SET note = NULL",
    (
        "product_day",
        "is missing in the target",
    ): f"DELETE FROM product_day WHERE (product_id, day) IN ({_FIRST_DAY})",
    ("product", "is not in the source"): "INSERT INTO product VALUES ('1', '', '', '')",
}


def test_a_row_that_differs_is_named(tollway: Command, old: Path, target: Store) -> None:
    assert tollway("move", "--from", FROM, "--to", target.url).status == 0
    unfinish(target.url, old)
    for sabotage in _SABOTAGE.values():
        run_on(target.url, sabotage)
    moved = tollway("move", "--from", FROM, "--to", target.url, "--json")
    assert moved.status == 1
    named = {(each["table"], each["what"]) for each in moved.json["differences"]}
    assert named == _SABOTAGE.keys()
    for command in (("account", "list"), ("serve", "--port", str(free_port()))):
        refused = tollway(*command, "--database", target.url)
        assert refused.status == 1
        assert "is not finished: run `tollway move` again" in refused.err
    restarted = tollway("move", "--from", FROM, "--to", target.url, "--restart")
    assert restarted.status == 0, restarted.err
    assert_same(old, target.url)


def test_a_breach_is_reported_and_the_move_stays_unfinished(
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


def test_nothing_can_write_to_the_source_meanwhile(old: Path) -> None:
    async def write(patience_s: float) -> None:
        database = SqliteDatabase(str(old), patience_s, Metrics())
        try:
            await database.write(write_nothing_new)
        finally:
            await database.close()

    with open_source(str(old), ALL_TABLES), pytest.raises(StoreBusyError):
        asyncio.run(write(0.01))
    asyncio.run(write(30))


def test_clients_are_moved_with_their_tokens_and_go_on(
    tollway: Command, old: Path, target: Store
) -> None:
    added = tollway("client", "add", "Blue Harbour", "--json", "--database", FROM).json

    tokens: list[str] = []

    async def obtain(database: OpenDatabase) -> None:
        found = await recognise(database, added["client_id"], added["client_secret"])
        assert found is not None
        issued = await obtain_token(database, Runtime(), found, 3600)
        assert issued is not None
        tokens.append(issued.text)

    in_source(obtain)
    assert tollway("move", "--from", FROM, "--to", target.url).status == 0
    assert_same(old, target.url)
    gateway = Gateway(target)
    try:
        form = {name: added[name] for name in ("client_id", "client_secret")}
        asked = gateway.client.post(TOKEN_PATH, data={**form, "grant_type": GRANT_TYPE})
        question = {"product_id": product_ids(1)[0], "query_date": DAY.isoformat()}
        for token in (*tokens, asked.json()["access_token"]):
            assert gateway.get(token=token, query=question).code == 0
    finally:
        assert gateway.stop() == 0
