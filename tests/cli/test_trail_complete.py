"""No command and no page changes something without a record: a new one that is in none of these
lists fails here."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.test_carrier_links import CONNECT
from tests.cli.test_trail import acts_of
from tests.cli.test_waybills import issue
from tests.support.commands import all_commands
from tests.support.migrations import NEXT
from tests.support.stores import Store
from tollway.web.caller.pages import PAGES as CALLER_PAGES
from tollway.web.operator.pages import PAGES as OPERATOR_PAGES

SAMPLES = Path(__file__).parents[2] / "docs" / "samples"

# What only reads, or makes a file.
READ = {
    "account list",
    "account show",
    "audit",
    "backup",
    "carrier list",
    "carrier subscriptions",
    "client list",
    "consent list",
    "hold list",
    "intake rejected list",
    "ledger export",
    "ledger show",
    "ledger statement",
    "mcp",
    "operation list",
    "operator list",
    "pool list",
    "price list",
    "receipt",
    "second-factor list",
    "settings",
    "shop list",
    "source list",
    "token list",
    "trail show",
    "waybill list",
    "waybill show",
}
# What is recorded, and the test that shows it.
ELSEWHERE = {
    "account close": "test_trail.py",
    "migrate": "test_trail_complete.py",
    "move": "test_move.py",
    "reconcile": "test_reconcile.py",
    "restore": "test_trail_complete.py",
    "second-factor reset": "test_second_factor.py",
    "token issue": "test_trail.py",
    "token revoke": "test_trail.py",
}
# What no operator does: the gateway itself, and a world to try it in.
UNATTENDED = {"serve", "demo"}

# In this order; each is recorded under the name of the command unless another is given.
RUNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "keys accept": ("", ("secret_file",)),  # It makes the file.
    "account open": ("", ("acme",)),
    "account suspend": ("", ("acme",)),
    "account resume": ("", ("acme",)),
    "credit add": ("", ("acme", "100")),
    "permission add": ("", ("acme", "orders")),
    "permission revoke": ("", ("acme", "orders")),
    "operation close": ("", ("orders",)),
    "operation open": ("", ("orders",)),
    "price set": ("", ("orders", "7")),
    "client add": ("", ("acme",)),
    "operator invite": ("", ("wang",)),
    "operator link": ("", ("wang",)),
    "operator remove": ("", ("wang",)),
    "shop add": ("", ("880012001", "Green", "--login", "green", "--password-stdin")),
    "shop password": ("shop password link", ("green", "--link")),
    "shop sign-out": ("", ("green",)),
    "shop erase-receivers": ("shop erase-receivers done", ("880012001", "--yes")),
    "consent grant": ("", ("acme", "shop", "880012001", "orders")),
    "source add": ("", ("market", "--shop", "880012001")),
    "source set": ("", ("market", "--shop", "880012002")),
    "source rotate": ("", ("market",)),
    "carrier add": ("", ("YTO", "YTO Express")),
    "carrier routes": ("carrier routes", ("YTO", "routes.csv")),
    "pool add": ("", ("YTO", "--numbers", "YT1000000000000,YT1000000000001")),
    "pool remove": ("", ("YTO", "--up-to", "YT1000000000000", "--yes")),
    "waybill label": ("waybill print", ("YT1000000000001", "--out", "label.png")),
    "waybill cancel": ("", ("YT1000000000001",)),
    "carrier connect": ("", (*CONNECT[2:], "--secret-file", "s")),
    "carrier disconnect": ("", ("YTO",)),
    "import coupon-claims": ("import", (str(SAMPLES / "coupon_claims/claims.csv"),)),
    "import orders": ("import", (str(SAMPLES / "orders/orders.jsonl"),)),
    "import product-figures": ("import", (str(SAMPLES / "product_analysis/figures.jsonl"),)),
    "import promotion-material": (
        "import",
        (str(SAMPLES / "promotion_material/materials.jsonl"),),
    ),
    "intake rejected replay": ("record replay", ()),
    "intake rejected drop": ("record drop", ("uploaded file", "--yes")),
    "records remake": ("", ()),
    "retention apply": ("", ()),
    "keys rotate": ("", ()),
}
NEEDS_ID = {"client revoke", "consent revoke"}


def test_every_command_is_in_one_of_the_lists() -> None:
    lists = (READ, set(ELSEWHERE), UNATTENDED, set(RUNS), NEEDS_ID)
    assert sum(map(len, lists)) == len(set().union(*lists))
    assert set().union(*lists) == set(all_commands())


def test_every_command_that_changes_something_leaves_a_record(
    tollway: Command, ledger_store: Store, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a long password\n"))
    # One operator has to stay.
    assert tollway("operator", "link").status == 0
    (workplace / "routes.csv").write_text(
        "province,city,district,route_code\n浙江省,,,571\n", "utf-8"
    )
    (workplace / "s").write_text("a secret of the carrier", "utf-8")
    (workplace / "s").chmod(0o600)
    for number, (name, (act, arguments)) in enumerate(RUNS.items()):
        if name == "waybill label":
            issue(ledger_store, "YTO", "order-0001")
        known = len(acts_of(tollway))
        answer = tollway(*name.split(), *arguments)
        # Samples may have records that are rejected.
        assert answer.status == 0 or name.startswith("import"), (name, answer.err)
        new = acts_of(tollway)[known:]
        assert new and new[-1]["act"] == (act or name), (number, name, new, answer)
    for what in ("client", "consent"):
        (listed,) = tollway(what, "list", *(["acme"] if what == "client" else []), "--json").json
        assert tollway(what, "revoke", listed["id"]).status == 0
        assert acts_of(tollway)[-1]["act"] == f"{what} revoke"


@pytest.mark.sqlite
def test_a_restored_database_says_so(tollway: Command, ledger_store: Store) -> None:
    tollway("account", "open", "acme")
    assert tollway("backup", "copy.db").status == 0
    assert tollway("restore", "copy.db", "--replace").status == 0
    assert [each["act"] for each in acts_of(tollway)] == ["account open", "restore"]
    # The backup itself stays as it was.
    assert tollway("restore", "copy.db", "--database", "sqlite:///again.db").status == 0
    again = tollway("trail", "show", "--json", "--database", "sqlite:///again.db").out
    assert [each["act"] for each in json.loads(again)] == ["restore", "account open"]


def test_a_migration_is_recorded(
    tollway: Command, ledger_store: Store, upgraded: Callable[..., None]
) -> None:
    upgraded()
    assert tollway("migrate").status == 0
    assert tollway("migrate").status == 0
    (act,) = acts_of(tollway)
    assert (act["act"], act["after"]["to"]) == ("migrate", NEXT)


# Each page that acts, and what it records; a page of members acts for their own account.
ACTS = {
    "/operator/accounts/open": "account open",
    "/operator/account/top-up": "credit add",
    "/operator/request/refund": "credit add",
    "/operator/account/permission": "permission add",
    "/operator/account/token": "token issue",
    "/operator/account/token/revoke": "token revoke",
    "/operator/account/invite": "member invite",
    "/operator/account/member/link": "member link",
    "/operator/account/member/remove": "member remove",
    "/operator/account/member/role": "member role",
    "/operator/account/suspend": "account suspend",
    "/operator/account/resume": "account resume",
    "/operator/account/close": "account close",
    "/operator/account/clients/add": "client add",
    "/operator/account/clients/revoke": "client revoke",
    "/operator/consents/revoke": "consent revoke",
    "/operator/operators/invite": "operator invite",
    "/operator/operators/link": "operator link",
    "/operator/operators/remove": "operator remove",
    "/operator/shop/add": "shop add",
    "/operator/shop/consent": "consent grant",
    "/operator/shop/password": "shop password link",
    "/operator/shop/sign-out": "shop sign-out",
    "/operator/shop/erase": "shop erase-receivers",
    "/operator/carrier/add": "carrier add",
    "/operator/carrier/connect": "carrier connect",
    "/operator/carrier/disconnect": "carrier disconnect",
    "/operator/carrier/routes": "carrier routes",
    "/operator/carrier/subscriptions": "",  # It asks the carrier, and changes nothing.
    "/operator/carriers/numbers": "pool add",
    "/operator/waybill/cancel": "waybill cancel",
    "/operator/waybill/decide": "waybill decide",
    "/operator/waybill/label": "waybill print",
    "/operator/waybill/receiver-kept": "waybill decide",
    "/operator/data/import": "import",
    "/operator/data/source/add": "source add",
    "/operator/data/source/set": "source set",
    "/operator/data/rotate": "source rotate",
    "/operator/data/correct": "record mend",
    "/operator/data/drop": "record drop",
    "/operator/data/replay": "record replay",
    "/operator/prices/price": "price set",
    "/operator/prices/state": "operation close",
    "/operator/audit/run": "audit run",
    "/operator/backup/download": "backup download",
    "/operator/second-factors/reset": "second-factor reset",
    "/account/alert": "alert set",
    "/account/analysis/pay": "",  # A call, which has a receipt.
    "/account/shops/ask": "",  # A link, which changes nothing.
    "/account/try": "",  # The form again, which changes nothing.
    "/account/try/send": "",  # A call, which has a receipt.
    "/account/tokens/issue": "token issue",
    "/account/tokens/rotate": "token issue",
    "/account/tokens/revoke": "token revoke",
    "/account/webhooks/add": "webhook add",
    "/account/webhooks/test": "",  # An event, which is in the log of the webhook.
    "/account/webhook/rotate": "webhook rotate",
    "/account/webhook/remove": "webhook end",
    "/account/webhook/again": "",  # An event, which is in the log of the webhook.
    "/account/members/invite": "member invite",
    "/account/members/link": "member link",
    "/account/members/remove": "member remove",
    "/account/members/role": "member role",
}


@pytest.mark.sqlite
def test_every_page_that_acts_is_in_the_list_and_its_record_in_the_code() -> None:
    pages = {spec.path for spec in (*OPERATOR_PAGES, *CALLER_PAGES) if spec.act is not None}
    assert pages - set(ACTS) == set()
    source = Path(__file__).parents[2] / "src" / "tollway"
    code = "".join(path.read_text("utf-8") for path in source.rglob("*.py"))
    for act in {ACTS[page] for page in pages} - {""}:
        # The kind of a person, and whether an operation is opened or closed, is filled in.
        word = act.partition(" ")[2] if act.startswith(("member", "operator")) else act
        assert f'"{act}"' in code or f"}} {word}" in code, act
