"""Work that operators start from pages: imports, rejected records, audits, backups, waybills."""

import json
import sqlite3
import time
from pathlib import Path

import pytest

from tests.support.browsers import Browser
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.orders import order
from tests.support.stores import Store
from tests.support.waybills import issue, new_carrier, new_customer, request
from tests.web.test_operator import operator_link
from tollway.store.last_runs import AUDIT, BACKUP, PUSH_PREFIX, note_run
from tollway.store.nodes import Presence
from tollway.store.open import open_sealer


@pytest.fixture
def operator(store: Store, browser: Browser) -> Browser:
    browser.open(f"/operator/enter?link={operator_link(store)}")
    browser.send("/operator/enter")
    return browser


def _until(operator: Browser, path: str, text: str) -> str:
    deadline_s = time.monotonic() + 30
    while text not in operator.open(path).text:
        assert time.monotonic() < deadline_s, operator.page
        time.sleep(0.05)
    return operator.page


def _acts(operator: Browser) -> str:
    return operator.open("/operator/trail").text


def test_a_file_is_imported_and_its_rejected_record_mended(operator: Browser, store: Store) -> None:
    sn = f"260115-{time.time_ns()}"
    good, bad = order(f"{sn}-1"), order(f"{sn}-2", order_status="<b>soon")
    content = "\n".join(json.dumps(each) for each in (good, bad)).encode()
    operator.open("/operator/data")
    sent = operator.client.post(
        "/operator/data/import",
        data={**operator.hidden(), "kind": "orders"},
        files={"file": ("a <b>.jsonl", content)},
    )
    assert sent.status_code == 200
    page = _until(operator, "/operator/data", "Last imports")
    assert "a &lt;b&gt;.jsonl, 2: order_status" in page
    assert "<b>soon" not in page
    exported = operator.client.get("/operator/data/rejected.jsonl").text
    record = next(json.loads(line) for line in exported.splitlines() if f"{sn}-2" in line)
    shown = operator.open(f"/operator/data/record?id={record['id']}").text
    assert "&lt;b&gt;soon" in shown
    assert "order_status" in operator.send("/operator/data/mend", record=record["record"]).text
    mended = record["record"].replace('"<b>soon"', "1")
    assert operator.send("/operator/data/mend", record=mended).url.path == "/operator/data"
    found = store.run(f"SELECT order_sn FROM shop_order WHERE order_sn LIKE '{sn}%'")
    assert sorted(row[0] for row in found) == [f"{sn}-1", f"{sn}-2"]
    assert all(act in _acts(operator) for act in ("import", "record show", "record mend"))


def test_a_forged_upload_and_one_without_a_file_are_refused(operator: Browser) -> None:
    operator.open("/operator/data")
    forged = {"form_token": "0" * 64, "kind": "orders"}
    file = {"file": ("a.csv", b"a,b\n1,2\n")}
    path = "/operator/data/import"
    assert operator.client.post(path, data=forged, files=file).status_code == 403
    fields = {**operator.hidden(), "kind": "orders"}
    empty = {"other": ("a.csv", b"x")}
    assert operator.client.post(path, data=fields, files=empty).status_code == 400
    assert operator.client.post(path, data=fields).status_code == 400


def test_the_audit_runs_from_its_page_and_shows_its_result(operator: Browser) -> None:
    operator.open("/operator/audit")
    operator.send("/operator/audit/run")
    page = _until(operator, "/operator/audit", "Run the audit")
    assert "balances" in page and "Checks" in page
    assert "audit run" in _acts(operator)


@pytest.mark.sqlite
def test_a_backup_is_downloaded_whole_and_nothing_of_it_stays(
    operator: Browser, store: Store, tmp_path: Path
) -> None:
    operator.open("/operator/backup")
    copy = operator.client.post("/operator/backup/download", data=operator.hidden())
    assert copy.status_code == 200, copy.text
    assert copy.headers["content-disposition"].startswith("attachment")
    path = tmp_path / "copy.db"
    path.write_bytes(copy.content)
    with sqlite3.connect(path) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert opened.execute("SELECT count(*) FROM person").fetchone()[0] > 0
    deadline_s = time.monotonic() + 10
    while list(store.path.parent.glob("tollway-backup-*")):
        assert time.monotonic() < deadline_s
    assert "The last one was made" in operator.open("/operator/backup").text


@pytest.mark.postgresql
def test_postgresql_is_backed_up_by_its_own_tools(operator: Browser) -> None:
    assert "pg_dump" in operator.open("/operator/backup").text


def test_a_waybill_is_cancelled_and_numbers_are_loaded(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    wp_code = new_carrier(store, 2)
    reply = issue(gateway, new_customer(store).token, request(wp_code))
    number = reply.data["waybillCode"]
    assert (
        "Print again: ZPL"
        in operator.open(f"/operator/waybill?number={number}&carrier={wp_code}").text
    )
    asked = operator.send("/operator/waybill/cancel").text
    assert "Are you sure" in asked and "cancelled" not in asked
    assert "cancelled" in operator.send("/operator/waybill/cancel").text
    operator.open("/operator/carriers")
    fields = {"carrier": wp_code, "numbers": "YT0000000000009\nwrong"}
    assert (
        "1 numbers were loaded, 1 were rejected."
        in operator.send("/operator/carriers/numbers", **fields).text
    )
    assert all(act in _acts(operator) for act in ("waybill cancel", "pool add"))


def test_consents_are_found_by_shop_and_by_account(operator: Browser, store: Store) -> None:
    customer = new_customer(store)
    for wanted in (customer.account_id, "880012001"):
        page = operator.open(f"/operator/shops?q={wanted}").text
        assert "shop 880012001" in page and customer.account_id in page
    assert "No shop or account matches" in operator.open("/operator/shops?q=nothing").text


def test_every_alarm_is_on_the_overview(operator: Browser, gateway: Gateway, store: Store) -> None:
    wp_code, day_ago_s = new_carrier(store, 3), int(time.time()) - 90_000
    issue(gateway, new_customer(store).token, request(wp_code))

    async def work(database):  # type: ignore[no-untyped-def]
        await note_run(database, PUSH_PREFIX + "erp", day_ago_s)
        await note_run(
            database, AUDIT, day_ago_s, is_good=False, result='{"checks":[],"breaches":[]}'
        )
        await note_run(database, BACKUP, day_ago_s)
        gone = Presence(
            database, "node_gone", "gone:1", "0", open_sealer(store.url, store.key_file)
        )
        await gone.refresh(RUNTIME.at_ms())

    store.do(work)
    page = operator.open("/operator").text
    for text in (
        f"{wp_code} runs out in 2.0 days at today&#39;s pace",
        "Source erp has pushed nothing for a day",
        "The last audit failed",
        "Node gone:1 runs an older version",
    ):
        assert text in page, text
    if not store.is_shared:
        assert "There was no backup for a day" in page
    assert "Time of a call in ms, p50 and p99" in page and "calls since" in page
    nodes = operator.open("/operator/nodes").text
    assert "gone:1" in nodes and "Connections" in nodes


def test_settings_say_where_they_come_from(operator: Browser) -> None:
    page = operator.open("/operator/settings").text
    assert "environment" in page and "command line" in page and "default" in page
