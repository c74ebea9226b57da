"""The trail: every act of an operator is recorded with what was before and after, for ever."""

import json
from typing import Any

import apsw
import asyncpg
import pytest

from tests.cli.conftest import Command
from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import newest_acts, record_act
from tollway.store.database import Database, Transaction


def acts_of(tollway: Command, *options: str) -> list[dict[str, Any]]:
    found = json.loads(tollway("trail", "show", "--json", *options).out)
    return list(reversed(found))


def test_every_command_that_changes_something_is_recorded(
    tollway: Command, ledger_store: Store
) -> None:
    account = tollway("account", "open", "acme", "--json").json["id"]
    commands = [
        ("permission add", ("permission", "add", "acme", "orders", "--price", "3")),
        ("permission add", ("permission", "add", "acme", "orders", "--price", "5")),
        ("permission revoke", ("permission", "revoke", "acme", "orders")),
        ("credit add", ("credit", "add", "acme", "100")),
        ("client add", ("client", "add", "acme")),
        ("operation close", ("operation", "close", "orders")),
        ("operation open", ("operation", "open", "orders")),
        ("price set", ("price", "set", "orders", "7")),
        ("carrier add", ("carrier", "add", "YTO", "YTO Express")),
        ("pool add", ("pool", "add", "YTO", "--numbers", "YT1000000000001")),
    ]
    for _, command in commands:
        answer = tollway(*command)
        assert answer.status == 0, (command, answer.err)
    issued = tollway("token", "issue", "acme", "--json").json
    tollway("token", "revoke", issued["token"]["id"])
    tollway("account", "close", "acme", "--yes")

    acts = acts_of(tollway)
    expected = [
        "account open",
        *(act for act, _ in commands),
        "token issue",
        "token revoke",
        "account close",
    ]
    assert [each["act"] for each in acts] == expected
    assert [each["number"] for each in acts] == list(range(1, len(acts) + 1))
    assert len({each["by"] for each in acts}) == 1 and "@" in acts[0]["by"]
    assert (acts[0]["before"], acts[0]["after"]["name"]) == (None, "acme")
    assert (acts[2]["before"]["price"], acts[2]["after"]["price"]) == (3, 5)
    assert (acts[3]["before"]["price"], acts[3]["after"]) == (5, None)
    assert acts[4]["before"] == {"amount": 0, "unit": "credits"}
    assert acts[4]["after"] == {"amount": 100, "note": None, "unit": "credits"}
    assert acts[-1]["after"]["closed_at_s"] is not None
    assert issued["text"] not in json.dumps(acts)
    assert tollway("trail", "show", "--of", "account x").out == "There is no act of account x.\n"
    of_account = acts_of(tollway, "--of", f"account {account}")
    assert {each["subject"] for each in of_account} == {f"account {account}"}
    assert tollway("audit").status == 0


def test_the_table_shows_what_fits_and_what_an_act_changed_first(
    tollway: Command, ledger_store: Store
) -> None:
    tollway("account", "open", "acme")
    for price in ("7", "8"):
        tollway("permission", "add", "acme", "orders", "--price", price)
        tollway("carrier", "add", "YTO", f"{price} Express", "--format", "Y" * 90)
    changed, short = tollway("trail", "show", "--limit", "2").out.splitlines()[2:4]
    assert " name 7 Express → 8 Express, " in changed
    assert changed.count("…") == 1 and "Y" * 90 not in changed
    assert " price 7 → 8, operation orders " in short
    assert acts_of(tollway)[-1]["after"]["number_format"] == "Y" * 90


def test_a_refused_command_leaves_no_record(tollway: Command, ledger_store: Store) -> None:
    tollway("account", "open", "acme")
    assert tollway("account", "open", "acme").status == 1
    assert tollway("credit", "add", "acme", "-5").status == 1
    assert [each["act"] for each in acts_of(tollway)] == ["account open"]


def test_a_record_is_in_the_transaction_of_its_act(ledger_store: Store) -> None:
    async def fail(database: Database) -> None:
        async def work(transaction: Transaction) -> None:
            await record_act(transaction, Runtime(by="op"), "an act", "a subject")
            raise KeyError

        with pytest.raises(KeyError):
            await database.write(work)
        assert not await newest_acts(database, 10)

    ledger_store.do(fail)


def test_work_without_an_operator_is_not_recorded(ledger_store: Store) -> None:
    ledger_store.do(lambda database: open_account(database, Runtime(), "demo"))
    assert not ledger_store.do(lambda database: newest_acts(database, 10))


@pytest.fixture
def recorded(tollway: Command, ledger_store: Store) -> Store:
    for name in ("one", "two", "three"):
        tollway("account", "open", name)
    return ledger_store


@pytest.mark.parametrize(
    "change", ["UPDATE operator_act SET by = 'x'", "DELETE FROM operator_act WHERE number = 3"]
)
def test_the_database_refuses_to_change_the_trail(recorded: Store, change: str) -> None:
    with pytest.raises((apsw.ConstraintError, asyncpg.RaiseError)):
        recorded.run(change)


def force(recorded: Store, change: str) -> None:
    if recorded.is_shared:
        recorded.run("DROP TRIGGER operator_act_is_kept ON operator_act")
    else:
        recorded.run("DROP TRIGGER operator_act_is_not_changed")
        recorded.run("DROP TRIGGER operator_act_is_not_deleted")
    recorded.run(change)


def test_a_record_that_was_forced_is_shown_as_it_is(tollway: Command, recorded: Store) -> None:
    text = "not JSON " * 20
    force(recorded, f"UPDATE operator_act SET after = '{text}' WHERE number = 2")
    assert text[:90] in tollway("trail", "show").out


@pytest.mark.parametrize(
    ("change", "breach"),
    [
        ("UPDATE operator_act SET by = 'x' WHERE number = 2", "act_altered"),
        ("UPDATE operator_act SET after = NULL WHERE number = 1", "act_altered"),
        ("DELETE FROM operator_act WHERE number = 2", "act_missing"),
        ("DELETE FROM operator_act WHERE number = 1", "act_missing"),
    ],
)
def test_the_audit_finds_a_change_that_was_forced(
    tollway: Command, recorded: Store, change: str, breach: str
) -> None:
    force(recorded, change)
    answer = tollway("audit", "--json")
    assert answer.status == 1
    assert breach in {each["name"] for each in answer.json["breaches"]}
