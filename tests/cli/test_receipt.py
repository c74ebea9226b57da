"""The operator's look at one call."""

import asyncio
import re

import pytest

from tests.cli.conftest import CALLS, Command, charge_calls
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME, Caller, new_caller
from tests.support.receipts import receipt_of
from tests.support.stores import Store
from tollway.ledger import LedgerError
from tollway.ledger.accounts import open_account
from tollway.ledger.archiving import archive_entries
from tollway.ledger.entries import top_up
from tollway.store.database import Database, Transaction


@pytest.fixture
def account_id(ledger_store: Store) -> str:
    async def work(database: Database) -> str:
        account = await open_account(database, RUNTIME, "acme")
        await top_up(database, RUNTIME, account.id, CALLS, 1500)
        return account.id

    return ledger_store.do(work)


def lines_of(text: str) -> dict[str, str]:
    """The sheet's lines by their names."""
    rows = (re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in text.splitlines())
    return {row[0]: row[1] for row in rows if len(row) == 2}


def test_a_charged_call_on_a_sheet(tollway: Command, ledger_store: Store, account_id: str) -> None:
    charge_calls(ledger_store, account_id, 2)
    answer = tollway("receipt", "r1")
    assert answer.status == 0
    sheet = lines_of(answer.out)
    assert sheet["receipt"] == "r1"
    assert (sheet["account"], sheet["token"]) == (account_id, "tok_x")
    assert (sheet["operation"], sheet["outcome"]) == ("product_analysis", "charged")
    assert (sheet["answered"], sheet["amount"]) == ("code 0 (SUCCESS)", f"1 {CALLS}")
    assert (sheet["balance before"], sheet["balance after"]) == ("1,499", "1,498")
    # What the call does not have is not there.
    assert not {"replay of", "consent", "hold", "waybill"} & set(sheet)
    receipt = tollway("receipt", "r1", "--json").json
    assert (receipt["request_id"], receipt["account_id"]) == ("r1", account_id)
    assert (receipt["balance_before"], receipt["balance_after"], receipt["hold"]) == (
        1499,
        1498,
        None,
    )


def test_a_refused_call_of_a_served_gateway(
    tollway: Command, gateway: Gateway, store: Store, caller: Caller
) -> None:
    reply = gateway.get(token=caller.token, query={})
    over_http = receipt_of(gateway, caller.token, reply)
    wanted = reply.headers["x-request-id"]
    assert tollway("receipt", wanted, "--database", store.url, "--json").json == over_http
    sheet = lines_of(tollway("receipt", wanted, "--database", store.url).out)
    assert (sheet["answered"], sheet["outcome"]) == ("code 100 (PARAMETER_MISSING)", "not charged")
    assert (sheet["amount"], sheet["account"]) == ("0", caller.account_id)


def test_a_replay_names_the_call_that_paid(
    tollway: Command, gateway: Gateway, store: Store, question: dict[str, str]
) -> None:
    caller = new_caller(store)
    key = {"Idempotency-Key": "k"}
    first, again = (gateway.get(token=caller.token, query=question, headers=key) for _ in range(2))
    receipt_of(gateway, caller.token, again)
    answer = tollway("receipt", again.headers["x-request-id"], "--database", store.url)
    assert lines_of(answer.out)["replay of"] == first.headers["x-request-id"]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_unknown_id_is_a_sentence_and_status_1(
    tollway: Command, ledger_store: Store, options: tuple[str, ...]
) -> None:
    answer = tollway("receipt", "none", *options)
    assert (answer.status, answer.out) == (1, "")
    assert answer.err.startswith("There is no receipt none: ")
    assert "90 days" in answer.err


def test_a_call_is_refunded_once_and_its_receipt_says_so(
    tollway: Command, ledger_store: Store, account_id: str
) -> None:
    charge_calls(ledger_store, account_id, 2)
    refund = ("credit", "add", "acme", "1", "--calls", "product_analysis", "--refund")
    assert tollway(*refund, "r1").out == "Account acme now has 1,499 calls of product_analysis.\n"
    sheet = lines_of(tollway("receipt", "r1").out)
    assert "1 of it was refunded since" in sheet["why"]
    assert re.fullmatch(rf"1 {CALLS}, \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d", sheet["refund"])
    refunded = tollway("receipt", "r1", "--json").json["refund"]
    assert refunded == {"amount": 1, "at_ms": refunded["at_ms"]}
    assert tollway("receipt", "r0", "--json").json["refund"] is None
    assert lines_of(tollway("receipt", "r0").out)["why"] == "The call succeeded and was charged."
    entries = tollway("ledger", "show", "--request", "r1", "--json").json
    assert sorted((each["kind"], each["amount"]) for each in entries) == [
        ("charge", -1),
        ("top_up", 1),
    ]
    assert tollway("audit").status == 0
    for arguments, problem in (
        ((*refund, "r1"), "Request r1 was refunded already."),
        ((*refund, "r9"), "product_analysis for request r9: `tollway receipt r9` shows"),
        (("credit", "add", "acme", "1", "--refund", "r0"), "add --calls product_analysis to"),
        (("credit", "add", "acme", "2", *refund[4:], "r0"), "a refund is 1 to 1."),
        (("credit", "add", "acme", "-1", *refund[4:], "r0"), "a refund is 1 to 1."),
    ):
        answer = tollway(*arguments)
        assert (answer.status, answer.out) == (1, "") and problem in answer.err, answer


def test_a_refund_whose_charge_is_dropped_makes_no_receipt(
    tollway: Command, ledger_store: Store, account_id: str
) -> None:
    charge_calls(ledger_store, account_id, 1)
    tollway("credit", "add", "acme", "1", "--calls", "product_analysis", "--refund", "r0")
    ledger_store.run("DELETE FROM entry WHERE request_id = 'r0' AND kind = 'charge'")
    answer = tollway("receipt", "r0")
    assert (answer.status, answer.err.startswith("There is no receipt r0: ")) == (1, True)


def test_a_refund_whose_charge_is_dropped_is_no_breach(
    tollway: Command, ledger_store: Store, account_id: str
) -> None:
    charge_calls(ledger_store, account_id, 1)
    tollway("credit", "add", "acme", "1", "--calls", "product_analysis", "--refund", "r0")

    async def drop(transaction: Transaction) -> int:
        # The first top-up, and the charge.
        return await archive_entries(
            transaction, 2, account_id=account_id, unit=CALLS, before_ms=2**53
        )

    assert ledger_store.do(lambda database: database.write(drop)) == 2
    assert tollway("audit").status == 0


def test_of_refunds_of_one_call_at_once_one_is_made(ledger_store: Store, account_id: str) -> None:
    charge_calls(ledger_store, account_id, 1)

    async def work(database: Database) -> list[object]:
        asked = (top_up(database, RUNTIME, account_id, CALLS, 1, refund_of="r0") for _ in range(8))
        return list(await asyncio.gather(*asked, return_exceptions=True))

    made = ledger_store.do(work)
    refused = [each for each in made if isinstance(each, LedgerError)]
    assert (len(made) - len(refused), len(refused)) == (1, 7)
    balance = "SELECT amount FROM balance WHERE account_id = '{}'"
    assert ledger_store.run(balance.format(account_id)) == [(1500,)]
