"""Work that operators start from pages: imports, rejected records, audits, backups, waybills."""

import asyncio
import html
import json
import re
import sqlite3
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from tests.support.browsers import Browser
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.orders import order
from tests.support.stores import Store
from tests.support.waybills import credits_left, issue, new_carrier, new_customer, request
from tollway.intake.rejects import keep_rejects, sealed_reject
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import newest_acts
from tollway.store.database import Database, StoreError
from tollway.store.last_runs import AUDIT, BACKUP, PUSH_PREFIX, note_run
from tollway.store.nodes import Presence
from tollway.store.open import open_sealer
from tollway.store.sqlite.files import make_backup_folder
from tollway.web.area import PAGE_ROWS, Context
from tollway.web.jobs import JOB_PREFIX, Job, Jobs, Progress, Work, find_job
from tollway.web.operator.data import UPLOADING, import_act
from tollway.web.operator.system import origin_of
from tollway.web.uploads import Upload

LARGE_BYTES = 12_000_000


def _until(operator: Browser, path: str, text: str) -> str:
    deadline_s = time.monotonic() + 30
    while text not in operator.open(path).text:
        assert time.monotonic() < deadline_s, operator.page
        time.sleep(0.05)
    return operator.page


def _acts(operator: Browser) -> str:
    return operator.open("/operator/trail").text


def _copies(store: Store) -> list[Path]:
    return list(store.path.parent.glob("tollway-backup-*"))


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
    page = operator.send("/operator/data/mend", record=record["record"]).text
    assert "Still rejected. order_status" in page
    mended = record["record"].replace('"<b>soon"', "1")
    assert "The record is stored." in operator.send("/operator/data/mend", record=mended).text
    found = store.run(f"SELECT order_sn FROM shop_order WHERE order_sn LIKE '{sn}%'")
    assert sorted(row[0] for row in found) == [f"{sn}-1", f"{sn}-2"]
    assert all(act in _acts(operator) for act in ("import", "record show", "record mend"))
    operator.client.headers["Accept-Language"] = "zh-CN"
    acts = _acts(operator)
    assert "数据源 上传的文件" in acts and "记录 订单" in acts


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


def test_a_reject_file_is_no_larger_than_memory_allows(operator: Browser, store: Store) -> None:
    name = f"large-{time.time_ns()}"

    async def work(database):  # type: ignore[no-untyped-def]
        sealer = open_sealer(store.url, store.key_file)
        for letter in (b"a", b"b", b"c"):
            one = sealed_reject(sealer, b"key", name, "orders", letter * 7_000_000, "wrong", 1)
            await database.write(partial(keep_rejects, rejects=[one]))

    store.do(work)
    try:
        exported = operator.client.get("/operator/data/rejected.jsonl").content
        assert 14_000_000 < len(exported) < 17_000_000
    finally:
        store.run(f"DELETE FROM rejected_record WHERE source = '{name}'")


@pytest.mark.parametrize("record", [b'{"remark": "\\ud800"}', b"[" * 100_000])
def test_a_rejected_record_that_no_page_can_show_otherwise_is_shown_as_it_was_written(
    operator: Browser, store: Store, record: bytes
) -> None:
    name = f"odd-{time.time_ns()}"
    sealer = open_sealer(store.url, store.key_file)
    one = sealed_reject(sealer, b"key", name, "orders", record, "wrong", 1)
    store.do(lambda database: database.write(partial(keep_rejects, rejects=[one])))
    try:
        shown = operator.client.get(f"/operator/data/record?id={one['id']}")
        assert shown.status_code == 200
        found = re.search(r"<textarea[^>]*>(.*?)</textarea>", shown.text, re.DOTALL)
        assert found is not None
        written = re.sub(r"\s", "", html.unescape(found[1]))
        assert written == re.sub(r"\s", "", record.decode())
    finally:
        store.run(f"DELETE FROM rejected_record WHERE source = '{name}'")


def test_work_of_which_one_step_takes_long_is_seen_to_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tollway.web.jobs._BEAT_EVERY_S", 0.01)

    async def begin(database: Database) -> None:
        now_s, may_end = 1000.0, asyncio.Event()
        jobs, name = Jobs(database, lambda: now_s), f"work {time.time_ns()}"

        async def wait(_: Progress) -> None:
            await may_end.wait()

        assert await jobs.start(name, wait)
        now_s = 2000.0
        async with asyncio.timeout(10):
            while True:
                job = await find_job(database, name, now_s)
                if job is not None and job.is_running:
                    break
                await asyncio.sleep(0)
        may_end.set()

    store.do(begin)


def test_work_is_started_once_and_what_cannot_start_leaves_no_upload(store: Store) -> None:
    async def twice(database):  # type: ignore[no-untyped-def]
        jobs, may_end = Jobs(database, time.time), asyncio.Event()

        async def wait(_: Progress) -> None:
            await may_end.wait()

        name = f"work {time.time_ns()}"
        # The last one is another worker's.
        workers = [jobs, jobs, Jobs(database, time.time)]
        started = await asyncio.gather(*(each.start(name, wait) for each in workers))
        may_end.set()
        return started

    started = store.do(twice)
    assert sorted(started) == [False, False, True]

    class Failing:
        async def start(self, *_: object) -> bool:
            raise StoreError("gone")

    upload = Upload()
    upload.begin_file("orders.csv")
    context = SimpleNamespace(
        upload=upload,
        form={"kind": "orders"},
        runtime=RUNTIME,
        services=SimpleNamespace(jobs=Failing()),
    )
    with pytest.raises(StoreError):
        asyncio.run(import_act(cast("Context", context)))
    assert upload.path is not None and not upload.path.exists()


def test_the_beginning_of_an_import_is_recorded_before_its_first_record(store: Store) -> None:
    async def work(database: Database) -> list[str]:
        class AtOnce:
            async def start(self, _: str, load_file: Work) -> bool:
                async def progress(*_: int) -> None: ...

                await load_file(progress)
                return True

        upload = Upload()
        upload.begin_file(f"{time.time_ns()}.jsonl")
        upload.end_file()
        runtime = Runtime(by=f"operator {upload.name}")
        services = SimpleNamespace(
            jobs=AtOnce(),
            database=database,
            runtime=runtime,
            vault=SimpleNamespace(sealer=open_sealer(store.url, store.key_file)),
        )
        context = SimpleNamespace(
            upload=upload,
            form={"kind": "orders"},
            runtime=runtime,
            database=database,
            services=services,
            go=lambda _: None,
        )
        await import_act(cast("Context", context))
        return [each.act for each in await newest_acts(database, 2, of=runtime.by)]

    assert store.do(work) == ["import", "import begin"]


def test_a_file_that_cannot_be_read_is_named_as_it_was_uploaded(operator: Browser) -> None:
    name = f"orders {time.time_ns()}.xlsx"
    operator.open("/operator/data")
    operator.client.post(
        "/operator/data/import",
        data={**operator.hidden(), "kind": "orders"},
        files={"file": (name, b"no spreadsheet")},
    )
    page = _until(operator, "/operator/data", "is not a whole .xlsx file")
    assert f"{name} is not a whole .xlsx file" in page and "tollway-upload" not in page


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("{now}\0\x1b.jsonl ", "{now}.jsonl, 1: "),
        ("{now}." + 90 * "名", "is neither .csv"),
        ("{now}." + 200 * "x" + ".jsonl", "xxxx.jsonl, 1: "),
    ],
)
def test_an_odd_name_of_a_file_is_no_error(operator: Browser, name: str, shown: str) -> None:
    now = str(time.time_ns())
    name, shown = name.replace("{now}", now), shown.replace("{now}", now)
    operator.open("/operator/data")
    parts = {**operator.hidden(), "kind": "orders", 'file"; filename="' + name: "{}"}
    lines = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{part}"\r\n\r\n{value}\r\n'
        for part, value in parts.items()
    )
    sent = operator.client.post(
        "/operator/data/import",
        content=f"{lines}--b--\r\n".encode(),
        headers={"Content-Type": "multipart/form-data; boundary=b"},
    )
    assert sent.status_code == 200
    _until(operator, "/operator/data", shown)


def test_reading_stops_where_far_too_many_records_are_rejected(
    operator: Browser, store: Store
) -> None:
    name, sn = f"wrong {time.time_ns()}.jsonl", f"260115-{time.time_ns()}"
    wrong = ['{"order_sn": 1}'] * 16_000
    operator.open("/operator/data")
    operator.client.post(
        "/operator/data/import",
        data={**operator.hidden(), "kind": "orders"},
        files={"file": (name, "\n".join([*wrong, json.dumps(order(sn))]).encode())},
    )
    page = _until(operator, "/operator/data", "reading stopped there")
    assert f"More than 10,000 records of {name} were rejected" in page
    assert store.run(f"SELECT 1 FROM shop_order WHERE order_sn = '{sn}'") == []
    # Other tests look at what is rejected.
    store.run("DELETE FROM rejected_record")


def test_the_audit_runs_from_its_page_and_shows_its_result(operator: Browser) -> None:
    operator.open("/operator/audit")
    operator.send("/operator/audit/run")
    page = _until(operator, "/operator/audit", "Run the audit")
    assert "balances" in page and "Checks" in page
    assert "no request was charged twice" in page
    assert "audit run" in _acts(operator)
    operator.client.headers["Accept-Language"] = "zh-CN"
    page = operator.open("/operator/audit").text
    assert "没有调用被重复扣费" in page and "charged twice" not in page


def test_credits_that_a_carrier_keeps_waiting_for_are_listed(
    operator: Browser, store: Store
) -> None:
    request_id = f"held-{time.time_ns()}"
    now_ms = int(time.time() * 1000)
    assert request_id not in operator.open("/operator/carriers").text
    store.run(
        "INSERT INTO hold (account_id, id, unit, amount, operation, request_id, token_id, at_ms, "
        f"deadline_at_ms, state) VALUES ('acc_x', '{request_id}', 'credits', 10, 'waybills', "
        f"'{request_id}', 'tok_x', {now_ms}, {now_ms - 10**9}, 'held')"
    )
    try:
        page = operator.open("/operator/carriers").text
        assert "Held until a carrier answers" in page and f"?id={request_id}" in page
    finally:
        store.run(f"DELETE FROM hold WHERE id = '{request_id}'")


def test_running_work_is_looked_up_again_but_not_on_the_answer_to_a_form(
    operator: Browser, store: Store
) -> None:
    def note(*, is_running: bool) -> None:
        job = Job(int(time.time()), 1, 4, is_running=is_running)
        result = msgspec.json.encode(job).decode()
        name = JOB_PREFIX + UPLOADING
        store.do(lambda db: note_run(db, name, job.at_s, is_good=True, result=result))

    note(is_running=True)
    try:
        assert "data-live" in operator.open("/operator/data").text
        # The browser would ask for the address of the act, and lose what was typed or shown.
        refused = operator.send("/operator/data/source/add", name="x" * 99).text
        assert 'role="alert"' in refused and "data-live" not in refused
        named = {"name": f"s{time.time_ns()}", "shops": "*", "channels": "*"}
        made = operator.send("/operator/data/source/add", **named).text
        assert "The secret of" in made and "data-live" not in made
    finally:
        note(is_running=False)


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
    with closing(sqlite3.connect(path)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert opened.execute("SELECT count(*) FROM person").fetchone()[0] > 0
    assert not _copies(store)
    assert "The last one was made" in operator.open("/operator/backup").text


@pytest.mark.sqlite
def test_a_backup_that_is_not_read_leaves_no_file_and_delays_no_page(
    operator: Browser, store: Store
) -> None:
    # More than the buffers between server and client hold.
    store.run(f"INSERT INTO last_run VALUES ('large', 1, 1, hex(zeroblob({LARGE_BYTES})))")
    try:
        operator.open("/operator/backup")
        path, fields = "/operator/backup/download", operator.hidden()
        with operator.client.stream("POST", path, data=fields) as begun:
            assert int(begun.headers["content-length"]) > LARGE_BYTES
            assert not _copies(store)
            assert operator.client.get("/openapi.json", timeout=10).status_code == 200
    finally:
        store.run("DELETE FROM last_run WHERE name = 'large'")


@pytest.mark.sqlite
def test_copies_of_a_gateway_that_was_killed_are_removed_at_its_start(tmp_path: Path) -> None:
    store = Store(tmp_path / "tollway.db")
    left = make_backup_folder(store.path)
    (left / store.path.name).write_bytes(b"a copy")
    others = make_backup_folder(store.path.with_name("tollway.db-2"))
    gateway = Gateway(store)
    assert not left.exists() and others.exists()
    assert gateway.stop() == 0


@pytest.mark.postgresql
def test_postgresql_is_backed_up_by_its_own_tools(operator: Browser) -> None:
    assert "pg_dump" in operator.open("/operator/backup").text


def test_looking_at_a_label_prints_nothing_and_printing_is_an_act(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    wp_code = new_carrier(store, 1)
    number = issue(gateway, new_customer(store).token, request(wp_code)).data["waybillCode"]
    # Other carriers of these tests give the same numbers.
    carrier = f"wp_code = '{wp_code}' AND number = '{number}'"
    printed = f"SELECT printed_at_s FROM waybill WHERE {carrier}"
    of = f"number={number}&carrier={wp_code}"
    # Whatever the address asks for, it is a picture to look at.
    for address in (of, f"{of}&kind=zpl", f"{of}&kind=pdf"):
        seen = operator.client.get(f"/operator/waybill/label?{address}")
        assert (seen.status_code, seen.headers["content-type"]) == (200, "image/png")
    assert [tuple(row) for row in store.run(printed)] == [(None,)]
    operator.open(f"/operator/waybill?{of}")
    assert "/operator/waybill/label" in operator.page
    assert "Print the label<" in operator.page and "Nothing is charged." in operator.page
    sent = operator.client.post(
        "/operator/waybill/label", data={**operator.hidden(), "kind": "zpl"}
    )
    assert sent.status_code == 200 and sent.text.startswith("^XA")
    assert store.run(printed)[0][0] is not None
    assert "waybill print" in _acts(operator)


def test_a_label_that_was_printed_is_printed_again_free_of_charge(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    wp_code, customer = new_carrier(store, 1), new_customer(store)
    reply = issue(gateway, customer.token, request(wp_code))
    path = f"/operator/waybill?number={reply.data['waybillCode']}&carrier={wp_code}"
    left, labels = credits_left(store, customer), []
    for _ in range(2):
        operator.open(path)
        fields = {**operator.hidden(), "kind": "zpl"}
        labels.append(operator.client.post("/operator/waybill/label", data=fields).text)
    assert labels[0] == labels[1] and labels[0].startswith("^XA")
    page = operator.open(path).text
    assert "Print the label again" in page and "First printed" in page
    assert "It was printed before. This is the same label, and nothing is charged." in page
    assert credits_left(store, customer) == left
    # From the receipt one click leads back to it.
    receipt = operator.open(f"/operator/request?id={reply.headers['x-request-id']}").text
    assert html.escape(path[: path.index("?")]) in receipt and wp_code in receipt


def test_a_waybill_whose_receiver_is_erased_says_that_it_has_no_label(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    wp_code = new_carrier(store, 1)
    number = issue(gateway, new_customer(store).token, request(wp_code)).data["waybillCode"]
    store.run(f"UPDATE waybill SET sealed = substr(sealed, 1, 0) WHERE wp_code = '{wp_code}'")
    page = operator.open(f"/operator/waybill?number={number}&carrier={wp_code}").text
    assert "was erased: it has no label any more." in page
    assert "<img" not in page and "Print the label" not in page


def test_a_waybill_is_cancelled_and_numbers_are_loaded(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    wp_code = new_carrier(store, 2)
    reply = issue(gateway, new_customer(store).token, request(wp_code))
    number = reply.data["waybillCode"]
    operator.open(f"/operator/waybill?number={number}&carrier={wp_code}")
    asked = operator.send("/operator/waybill/cancel").text
    assert "Are you sure" in asked and "cancelled" not in asked
    assert "cancelled" in operator.send("/operator/waybill/cancel").text
    operator.open("/operator/carriers")
    fields = {"carrier": wp_code, "numbers": "YT0000000000009\nwrong"}
    assert (
        "Numbers loaded: 1, rejected: 1."
        in operator.send("/operator/carriers/numbers", **fields).text
    )
    assert all(act in _acts(operator) for act in ("waybill cancel", "pool add"))


def test_what_a_carrier_refused_is_not_logged_as_done(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    wp_code, customer = new_carrier(store, 0), new_customer(store)
    assert issue(gateway, customer.token, request(wp_code)).data["code"] == 0
    page = _until(operator, f"/operator/requests?account={customer.account_id}", "0 NOT_DONE")
    assert '<span class="state soon">not done</span>' in page


def test_all_waybills_are_listed_page_by_page(
    operator: Browser, gateway: Gateway, store: Store
) -> None:
    wp_code, token = new_carrier(store, PAGE_ROWS + 1), new_customer(store).token
    issued = [
        issue(gateway, token, request(wp_code)).data["waybillCode"] for _ in range(PAGE_ROWS + 1)
    ]
    page = operator.open("/operator/carriers").text
    found: list[str] = []
    while older := re.search(r'href="([^"]+)" rel="next"', page):
        found += re.findall(rf"number=(\w+)&amp;carrier={wp_code}\b", page)
        page = operator.open(html.unescape(older[1])).text
        assert 'href="/operator/carriers">Newest' in page
    found += re.findall(rf"number=(\w+)&amp;carrier={wp_code}\b", page)
    assert sorted(found) == sorted(issued)
    assert operator.open("/operator/carriers?before=soon:1").status_code == 200


def test_consents_are_found_by_shop_and_by_account(operator: Browser, store: Store) -> None:
    customer = new_customer(store)
    for wanted in (customer.account_id, "880012001"):
        page = operator.open(f"/operator/consents?q={wanted}").text
        assert "shop 880012001" in page and customer.account_id in page
    assert "No shop or account matches" in operator.open("/operator/consents?q=nothing").text
    # An address that was changed begins with the first page.
    assert operator.open("/operator/consents?after=²:x").status_code == 200


def test_every_alarm_is_on_the_overview(operator: Browser, gateway: Gateway, store: Store) -> None:
    wp_code, day_ago_s = new_carrier(store, 3), int(time.time()) - 90_000
    issue(gateway, new_customer(store).token, request(wp_code))
    without = new_carrier(store, 0)

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
        f"{without} never had numbers",
        "Source erp has pushed nothing for a day",
        "The last audit failed",
        "There was no audit for a day",
        "Node gone:1 runs an older version",
    ):
        assert text in page, text
    # Each leads to its cure.
    cure = operator.open(f"/operator/carriers?load={without}").text
    assert f'href="/operator/carriers?load={without}">Load numbers</a>' in page
    assert f'<option value="{without}" selected>' in cure
    if not store.is_shared:
        assert "There was no backup for a day" in page
    assert "p50 / p99 in ms" in page and "calls since" in page
    nodes = operator.open("/operator/nodes").text
    assert "gone:1" in nodes and "Connections" in nodes


def test_settings_say_where_they_come_from(operator: Browser) -> None:
    page = operator.open("/operator/settings").text
    assert "environment" in page and "command line" in page and "default" in page


def test_a_setting_that_an_option_brings_along_is_not_said_to_be_in_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`serve --demo` turns `mcp` on."""
    monkeypatch.chdir(tmp_path)
    assert origin_of("mcp", is_default=False) == "command line"
    (tmp_path / "tollway.toml").write_text('mcp = "on"')
    assert origin_of("mcp", is_default=False) == "file"
