"""The operator's way with carriers, pools and waybills."""

import io
from pathlib import Path

import pytest
import zxingcpp
from PIL import Image

from tests.cli.conftest import Command
from tests.support.handlers import result_of
from tests.support.ledger import RUNTIME
from tests.support.stores import Store
from tests.support.waybills import request
from tollway.carriers.connectors.http_exchange import open_client
from tollway.carriers.connectors.remote_carriers import Remotes
from tollway.carriers.pools import take_numbers
from tollway.carriers.reconciling import Reconciler
from tollway.carriers.vault import load_vault
from tollway.contract.decoding import Decoder
from tollway.contract.operation import CallInfo
from tollway.ledger.charges import ActResult, Charge
from tollway.operations.waybills.handler import WaybillHandler
from tollway.operations.waybills.operation import WaybillRequest
from tollway.operations.waybills.remote_issue import RemoteIssuer
from tollway.store.open import OpenDatabase, key_path


def issue(ledger_store: Store, wp_code: str, order_sn: str) -> None:
    """Issues a waybill as the gateway would."""
    wanted = Decoder(WaybillRequest).decode(request(wp_code, order_sn=order_sn))

    async def work(database: OpenDatabase) -> ActResult:
        vault = load_vault(key_path(ledger_store.url, ledger_store.key_file))
        remotes = Remotes(open_client())
        reconciler = Reconciler(database, remotes, vault, RUNTIME)
        asking = RemoteIssuer(remotes, reconciler, vault, RUNTIME)
        handler = WaybillHandler(database, asking, vault, RUNTIME, "http://t", take_numbers)
        act = await result_of(handler(wanted, CallInfo("acc_1", 10)))
        charge = Charge("acc_1", "credits", 10, "waybills", f"request {order_sn}", "tok_1", 0)
        return await database.write(lambda transaction: act(transaction, charge))

    assert ledger_store.do(work).is_paid


def test_from_a_carrier_to_a_label_and_back(
    tollway: Command, ledger_store: Store, workplace: Path
) -> None:
    assert tollway("carrier", "add", "YTO", "圆通速递").status == 0
    Path("numbers.txt").write_text("YT0000000000001\n\nnonsense\nYT0000000000002\n", "utf-8")
    answer = tollway("pool", "add", "YTO", "--file", "numbers.txt", "--json")
    assert answer.status == 1, "one was rejected"
    loaded = answer.json
    assert (loaded["read"], loaded["loaded"], loaded["rejected"]) == (3, 2, 1)
    assert loaded["rejects"] == "numbers.txt.rejected.jsonl"
    assert "nonsense" in (workplace / loaded["rejects"]).read_text("utf-8")
    again = tollway("pool", "add", "YTO", "--file", "numbers.txt")
    assert again.status == 1 and "0 loaded, 3 rejected" in again.out
    assert "loaded before" in again.out
    same = tollway("pool", "add", "YTO", "--file", "numbers.txt", "--rejects", "numbers.txt")
    assert same.status == 2 and "is the file to be loaded" in same.err
    assert "nonsense" in Path("numbers.txt").read_text("utf-8")
    Path("numbers.txt").write_text("YT0000000000003\n", "utf-8")
    assert tollway("pool", "add", "YTO", "--file", "numbers.txt").status == 0
    assert not (workplace / loaded["rejects"]).exists()

    issue(ledger_store, "YTO", "order-0001")
    number = "YT0000000000001"
    (listed,) = tollway("waybill", "list", "--json").json
    assert (listed["number"], listed["state"], listed["price"]) == (number, "issued", 10)
    (pool,) = tollway("pool", "list", "--json").json
    assert (pool["left"], pool["taken"]) == (2, 1)

    sheet = tollway("waybill", "show", number, "--json").json
    assert sheet["label"]["recipient"]["name"] == "王小明"
    assert "王小明" in tollway("waybill", "show", number).out
    refused = tollway("waybill", "label", number, "--out", "none/label.pdf")
    assert refused.status == 1 and "folder of none/label.pdf does not exist" in refused.err
    # Printed, its receiver could not be changed any more.
    assert tollway("waybill", "show", number, "--json").json["waybill"]["printed_at_s"] is None
    for suffix in ("pdf", "png", "zpl"):
        made = tollway("waybill", "label", number, "--out", f"label.{suffix}", "--json").json
        assert made["bytes"] == (workplace / f"label.{suffix}").stat().st_size
    picture = Image.open(io.BytesIO((workplace / "label.png").read_bytes()))
    assert [each.text for each in zxingcpp.read_barcodes(picture)] == [number] * 2

    assert tollway("waybill", "cancel", number, "--json").json["state"] == "cancelled"
    issue(ledger_store, "YTO", "order-0001")
    assert [each["number"] for each in tollway("waybill", "list", "--json").json].count(number) == 1
    assert tollway("waybill", "label", number, "--out", "again.pdf").status == 0


def test_numbers_that_must_not_be_issued_are_removed(tollway: Command, ledger_store: Store) -> None:
    assert tollway("carrier", "add", "YTO", "圆通速递").status == 0
    numbers = ",".join(f"YT000000000000{number}" for number in range(6))
    assert tollway("pool", "add", "YTO", "--numbers", numbers).status == 0
    issue(ledger_store, "YTO", "order-0001")
    up_to = ("YTO", "--up-to", "YT0000000000003")
    assert "use --yes" in tollway("pool", "remove", *up_to).err
    # Neither one that was issued, nor those of another pool.
    assert tollway("pool", "remove", *up_to, "--yes", "--json").json["removed"] == 3
    (pool,) = tollway("pool", "list", "--json").json
    assert (pool["left"], pool["taken"]) == (2, 1)
    issue(ledger_store, "YTO", "order-0002")
    issued = {each["number"] for each in tollway("waybill", "list", "--json").json}
    assert issued == {"YT0000000000000", "YT0000000000004"}


@pytest.mark.parametrize(
    ("line", "status", "sentence"),
    [
        ("carrier add NEW 新快递", 1, "--format"),
        ("carrier add NEW 新快递 --format [", 1, "not a regular expression"),
        ("carrier add N! 新快递", 1, "letters, digits"),
        ("carrier add YTO 圆通 --served 广东 --not-served 西藏", 2, "not both"),
        ("carrier add YTO 圆通 --not-served 西藏 --not-served 新缰", 1, "no province 新缰"),
        ("carrier add YTO 圆通 --served Guangdong", 1, "write it in Chinese"),
        ("pool add YTO", 2, "either in a --file or"),
        ("pool add YTO --numbers YT0000000000009 --shop=", 2, "--shop is empty: see"),
        ("pool add UNKNOWN --numbers YT0000000000001", 1, "no carrier UNKNOWN"),
        ("pool add YTO --shop 7 --numbers YT0000000000001", 1, "shop 7"),
        ("pool add YTO --file nowhere.txt", 1, "nowhere.txt"),
        ("pool remove UNKNOWN --up-to YT1 --yes", 1, "no carrier UNKNOWN"),
        ("pool remove YTO --shop 7 --up-to YT1 --yes", 1, "shop 7"),
        ("waybill show 1", 1, "no waybill 1"),
        ("waybill cancel 1", 1, "no waybill 1"),
        ("waybill label 1 --out label.doc", 2, ".pdf, .png, .zpl"),
        ("waybill label 1 --out l.pdf --font ledger.db", 1, "not a font"),
        ("waybill list --account unknown", 1, "no account unknown"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    tollway: Command, ledger_store: Store, line: str, status: int, sentence: str
) -> None:
    assert tollway("carrier", "add", "YTO", "圆通速递").status == 0
    answer = tollway(*line.split())
    assert (answer.status, answer.out) == (status, "")
    assert sentence in answer.err and answer.err.count("\n") == 1


def test_two_carriers_may_have_the_same_number(tollway: Command, ledger_store: Store) -> None:
    for wp_code in ("ONE", "TWO"):
        tollway("carrier", "add", wp_code, wp_code, "--format", r"\d{8}")
        tollway("pool", "add", wp_code, "--numbers", "12345678")
        issue(ledger_store, wp_code, "order-0001")
    assert "ONE, TWO" in tollway("waybill", "show", "12345678").err
    assert tollway("waybill", "cancel", "12345678", "--carrier", "TWO").status == 0
    states = {each["wp_code"]: each["state"] for each in tollway("waybill", "list", "--json").json}
    assert states == {"ONE": "issued", "TWO": "cancelled"}
