"""What becomes of the rows of tokens that clients obtained: gone a day after their end, those of
the sandbox a month after it."""

import json

import pytest

from tests.support import forks
from tests.support.clients import OwnClient, new_client, obtain
from tests.support.counted_writes import CountedWrites
from tests.support.gateway import Gateway
from tests.support.in_process import in_gateway
from tests.support.ledger import CALLS, RUNTIME, new_caller, newest_entry
from tests.support.stores import Store
from tollway.ledger.clients import _SWEEP, sweep_client_tokens
from tollway.ledger.tokens import list_tokens
from tollway.store.database import Database

DAY_S = 24 * 3600


def _age(store: Store, client_id: str, seconds: int) -> None:
    """As if its tokens had expired so long ago."""
    expired_s = RUNTIME.at_s() - seconds
    store.run(f"UPDATE token SET expires_at_s = {expired_s} WHERE client_id = '{client_id}'")


def _rows(store: Store, client: OwnClient) -> int:
    tokens = store.do(lambda database: list_tokens(database, client.caller.account_id))
    return sum(each.client_id == client.id for each in tokens)


def test_the_gateway_removes_what_expired_a_day_ago_and_receipts_and_the_ledger_stay(
    own_store: Store, question: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, recent = new_client(own_store), new_client(own_store)
    old_test, recent_test = (new_client(own_store, kind="test") for _ in range(2))
    expired = new_caller(own_store, lifetime_s=1)
    own_store.run(f"UPDATE token SET expires_at_s = 1 WHERE id = '{expired.token_id}'")
    gateway = Gateway(own_store)
    reply = gateway.get(token=obtain(gateway, old), query=question)
    assert reply.code == 0
    for client in (recent, old_test, recent_test):
        assert gateway.get(token=obtain(gateway, client), query=question).code == 0
    ages = (
        (old, DAY_S + 5),
        (recent, DAY_S - 60),
        (old_test, 30 * DAY_S + 5),
        (recent_test, 30 * DAY_S - 60),
    )
    for client, seconds in ages:
        _age(own_store, client.id, seconds)
    assert gateway.stop() == 0
    in_gateway(own_store, monkeypatch, lambda gateway: gateway.upkeep.tidy())
    assert [_rows(own_store, client) for client, _ in ages] == [0, 1, 0, 1]
    (kept,) = own_store.do(lambda database: list_tokens(database, expired.account_id))
    assert kept.id == expired.token_id
    shown = forks.run(
        *("tollway", "receipt", reply.headers["x-request-id"], "--json"),
        *("--database", own_store.url),
    )
    assert (
        json.loads(shown.stdout)["token_id"] == newest_entry(own_store, old.caller, CALLS).token_id
    )
    audit = forks.run("tollway", "audit", "--database", own_store.url)
    assert audit.returncode == 0, audit.stdout


def test_very_many_go_in_pieces(own_store: Store) -> None:
    client = new_client(own_store)
    whose = f"'{client.caller.account_id}', 'live', '', '', 1, 2, '{client.id}'"
    rows = ", ".join(f"({_blob(own_store, nth)}, 'tok_{nth}', {whose})" for nth in range(1100))
    own_store.run(
        "INSERT INTO token (hash, id, account_id, kind, label, start, issued_at_s, expires_at_s, "
        f"client_id) VALUES {rows}"
    )

    async def sweep(database: Database) -> list[int]:
        counted = CountedWrites(database)
        swept = await sweep_client_tokens(counted, RUNTIME.at_s())
        return [swept, counted.writes]

    swept, commits = own_store.do(sweep)
    # Pieces of at most 500 rows, smaller ones on a slow machine, each in a commit of its own.
    assert swept == 1100 and commits >= 3
    assert _rows(own_store, client) == 0


def _blob(store: Store, number: int) -> str:
    digits = f"{number:064x}"
    return f"'\\x{digits}'" if store.is_shared else f"x'{digits}'"


@pytest.mark.sqlite
def test_finding_them_reads_no_other_tokens(own_store: Store) -> None:
    """By their index, however many tokens there are."""
    text = _SWEEP.sqlite.text
    for value in ("'live'", "5", "500", "0"):
        text = text.replace("?", value, 1)
    plan = str(own_store.run(f"EXPLAIN QUERY PLAN {text}"))
    assert "token_client_expiry" in plan
    assert "SCAN" not in plan
