"""`tollway client`: what is shown once, what is listed, and how one is revoked."""

import pytest

from tests.cli.conftest import Command
from tests.support.stores import Store
from tollway.ledger.token_format import SECRET, is_well_formed


@pytest.fixture(autouse=True)
def acme(tollway: Command, ledger_store: Store) -> None:
    assert tollway("account", "open", "acme").status == 0


def test_the_secret_is_shown_once_and_only_how_it_starts_is_listed(
    tollway: Command, ledger_store: Store
) -> None:
    first, second, sentence = tollway("client", "add", "acme", "--label", "till").out.splitlines()
    client_id, secret = first.removeprefix("client_id="), second.removeprefix("client_secret=")
    assert is_well_formed(secret, [SECRET])
    assert sentence == "Keep the secret now, it is not shown again."
    (listed,) = tollway("client", "list", "acme", "--json").json
    assert (listed["id"], listed["start"], listed["label"]) == (client_id, secret[:14], "till")
    assert (listed["kind"], listed["revoked_at_s"]) == ("live", None)
    shown = tollway("client", "list", "acme").out
    assert all(part in shown for part in (client_id, secret[:14], "till", "live", "valid"))
    assert secret not in shown
    assert secret.encode() not in ledger_store.content()


@pytest.mark.parametrize("by", ["client_id", "client_secret"])
def test_it_is_revoked_by_its_id_or_its_secret_and_once(tollway: Command, by: str) -> None:
    added = tollway("client", "add", "acme", "--test", "--json").json
    assert added["client"]["kind"] == "test"
    revoked = tollway("client", "revoke", added[by], "--json").json
    assert revoked["id"] == added["client_id"]
    assert revoked["revoked_at_s"] is not None
    again = tollway("client", "revoke", added[by])
    assert (again.status, again.err) == (1, f"Client {revoked['id']} is revoked already.\n")
    assert "revoked" in tollway("client", "list", "acme").out


def test_an_account_without_clients_is_shown_how_to_get_one(tollway: Command) -> None:
    shown = tollway("client", "list", "acme").out
    assert shown == "It has no clients: `tollway client add ACCOUNT` adds one.\n"


def test_the_audit_names_clients_of_no_account(tollway: Command, ledger_store: Store) -> None:
    tollway("client", "add", "acme")
    assert tollway("audit").status == 0
    ledger_store.run("UPDATE client SET account_id = 'acc_gone'")
    audit = tollway("audit")
    assert audit.status == 1
    assert "rows of no account in table client: 1" in audit.out
