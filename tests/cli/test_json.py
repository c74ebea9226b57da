"""Every command prints one JSON value with --json, and nothing else."""

import pytest

from tests.cli.conftest import Command
from tests.support.commands import all_commands
from tests.support.stores import Store
from tollway.operations.catalogue import BY_NAME

ENTRY = {
    "account_id",
    "unit",
    "number",
    "kind",
    "amount",
    "balance_after",
    "at_ms",
    "operation",
    "request_id",
    "token_id",
    "note",
}
TOKEN = {
    "id",
    "account_id",
    "kind",
    "label",
    "start",
    "issued_at_s",
    "expires_at_s",
    "revoked_at_s",
    "last_used_at_s",
    "limits",
    "client_id",
}
CLIENT = {"id", "account_id", "kind", "label", "start", "added_at_s", "revoked_at_s"}
ACCOUNT = {"id", "name", "opened_at_s", "closed_at_s", "suspended_at_s"}
PERMISSION = {"account_id", "operation", "is_granted", "price", "rate_limit"}
OPERATION = {
    "operation",
    "title",
    "method",
    "path",
    "is_closed",
    "unit",
    "price",
    "default_price",
}
CARRIER = {"wp_code", "name", "number_format", "area"}
RESTORED = {
    "file",
    "schema",
    "accounts",
    "entries",
    "is_digest_checked",
    "keys",
    "keys_missing",
    "replaced",
}
LINK = {
    "wp_code",
    "url",
    "provider_id",
    "to_code",
    "template_url",
    "protocol",
    "deadline_ms",
    "settle_after_s",
    "changed_at_s",
}
POOL_CHANGE = {"wp_code", "owner_id", "read", "loaded", "rejected", "reasons", "rejects"}

TO_CARRIER = (
    "--url https://link.example --provider TOLLWAY --to-code YTO "
    "--template https://link.example/template"
)

# In this order: later ones see what earlier ones did. A list stands for an array of such objects.
SOURCE = {"name", "speaks_for", "added_at_s", "rotated_at_s"}
STEPS: tuple[tuple[str, set[str] | list[set[str]]], ...] = (
    ("migrate", {"before", "after"}),
    ("account open acme", ACCOUNT),
    ("account list", [ACCOUNT]),
    ("token issue acme --test", {"text", "token"}),
    ("token list acme", [TOKEN]),
    ("client add acme", {"client_id", "client_secret", "client"}),
    ("client list acme", [CLIENT]),
    ("credit add acme 10 --calls product_analysis", ENTRY),
    ("permission add acme product_analysis --price 3", PERMISSION),
    ("account show acme", {"account", "balances", "permissions", "tokens"}),
    ("permission revoke acme product_analysis", PERMISSION),
    ("operation list", [OPERATION]),
    ("operation close product_analysis", OPERATION),
    ("operation open product_analysis", OPERATION),
    ("price list", [OPERATION]),
    ("price set product_analysis 4", OPERATION),
    ("ledger show acme", [ENTRY]),
    ("ledger show --request none", []),
    ("ledger export acme", [ENTRY]),
    ("ledger export acme --out ledger.csv", {"account_id", "file", "format", "entries"}),
    ("carrier add YTO 圆通速递 --not-served 西藏", CARRIER),
    (f"carrier connect YTO {TO_CARRIER} --secret-file link.secret", LINK),
    ("carrier list", [CARRIER | {"link"}]),
    ("carrier disconnect YTO", {"wp_code"}),
    ("pool add YTO --numbers YT0000000000001", POOL_CHANGE),
    ("pool remove YTO --up-to YT0000000000000", {"wp_code", "owner_id", "up_to", "removed"}),
    ("pool list", [{"wp_code", "owner_id", "left", "taken"}]),
    ("waybill list", []),
    ("source add market --shop 7001", {"source", "secret"}),
    ("source rotate market", {"source", "secret"}),
    ("source set market --channel lunch", SOURCE),
    ("source list", [SOURCE]),
    ("intake rejected list", []),
    ("intake rejected replay", {"stored", "unchanged", "rejected"}),
    ("intake rejected drop market", {"source", "dropped"}),
    ("backup copy.db", {"file", "bytes", "sha256", "keys", "keys_left_out", "keys_missing"}),
    ("restore copy.db --database sqlite:///again.db", RESTORED),
    ("keys accept secret_file", {"setting", "file", "gone"}),
    ("keys rotate", {"current", "added", "resealed", "dropped", "old", "restart", "wait_s"}),
    ("trail show", [{"number", "at_ms", "by", "act", "subject", "before", "after", "hash"}]),
    ("audit", {"accounts", "tokens", "entries", "units", "checks", "breaches"}),
    ("settings", [{"name", "value", "source", "meaning"}]),
    ("account suspend acme", ACCOUNT),
    ("account resume acme", ACCOUNT),
    ("account close acme --yes", ACCOUNT),
)


def test_each_command_prints_one_json_value(tollway: Command, ledger_store: Store) -> None:
    ledger_store.path.with_name("link.secret").write_text("secret", "utf-8")
    for line, shape in STEPS:
        if ledger_store.is_shared and line.startswith(("backup", "restore")):
            continue  # Such a database is copied by its own tools.
        answer = tollway(*line.split(), "--json")
        assert (answer.status, answer.err) == (0, ""), line
        if isinstance(shape, set):
            assert set(answer.json) == shape, line
        else:
            assert isinstance(answer.json, list), line
            assert [set(item) for item in answer.json][:1] == shape, line


def test_what_was_set_is_what_json_tells(tollway: Command, ledger_store: Store) -> None:
    account_id = tollway("account", "open", "acme", "--json").json["id"]
    issued = tollway(
        "token", "issue", account_id, "--expires-days", "2", "--label", "x", "--json"
    ).json
    assert issued["token"]["expires_at_s"] - issued["token"]["issued_at_s"] == 2 * 86_400
    assert issued["text"].startswith(issued["token"]["start"])
    revoked = tollway("token", "revoke", issued["token"]["id"], "--json").json
    assert revoked["revoked_at_s"] is not None
    entry = tollway("credit", "add", "acme", "7", "--note", "a note", "--json").json
    assert (entry["unit"], entry["kind"], entry["amount"]) == ("credits", "top_up", 7)
    assert (entry["balance_after"], entry["note"]) == (7, "a note")
    tollway("permission", "add", "acme", "product_analysis", "--rate", "25")
    sheet = tollway("account", "show", account_id, "--json").json
    assert sheet["permissions"] == [
        {"operation": "product_analysis", "price": None, "rate_limit": 25}
    ]
    assert sheet["balances"] == [
        {"unit": "credits", "amount": 7, "held": 0, "posted": 0, "entries": 1}
    ]
    tollway("price", "set", "product_analysis", "0")
    assert tollway("operation", "close", "product_analysis").status == 0
    listed = {each["operation"]: each for each in tollway("operation", "list", "--json").json}
    assert set(listed) == set(BY_NAME)
    row = listed["product_analysis"]
    assert (row["is_closed"], row["price"], row["default_price"]) == (True, 0, 1)


ALL_COMMANDS = all_commands()


@pytest.mark.sqlite
@pytest.mark.parametrize("name", ALL_COMMANDS)
def test_every_command_has_help_a_database_and_json(name: str) -> None:
    command = ALL_COMMANDS[name]
    options = {option for parameter in command.params for option in parameter.opts}
    # One moves a database to another, one speaks to a gateway.
    named = {"move": {"--from", "--to"}, "mcp": set[str]()}.get(name, {"--database"})
    assert {"--json"} | named <= options
    assert command.help.strip().endswith(".")
    for parameter in command.params:
        assert parameter.help.strip().endswith("."), parameter.name
