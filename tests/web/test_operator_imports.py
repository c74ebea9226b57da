"""Files that an operator uploads on a page: what is stored of them, and what is rejected."""

import gzip
import html
import http.client
import io
import json
import re
import tempfile
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import openpyxl
import pytest

from tests.support.browsers import Browser, open_until, recorded_acts
from tests.support.orders import order
from tests.support.stores import Store
from tollway.intake.files import read_records
from tollway.intake.rejects import keep_rejects, replay, sealed_reject
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import newest_acts
from tollway.operations.catalogue import RECORD_KINDS
from tollway.settings import Settings
from tollway.store.database import Database
from tollway.store.open import open_sealer
from tollway.web.area import Context
from tollway.web.jobs import Work
from tollway.web.operator.data import import_act
from tollway.web.uploads import Upload


def test_a_file_is_imported_and_a_rejected_record_corrected(
    operator: Browser, store: Store
) -> None:
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
    page = open_until(operator, "/operator/data", "Last imports")
    assert "a &lt;b&gt;.jsonl, 2: order_status" in page
    assert "<b>soon" not in page
    exported = operator.client.get("/operator/data/rejected.jsonl").text
    record = next(json.loads(line) for line in exported.splitlines() if f"{sn}-2" in line)
    shown = operator.open(f"/operator/data/record?id={record['id']}").text
    assert "&lt;b&gt;soon" in shown
    page = operator.send("/operator/data/correct", record=record["record"]).text
    assert "Still rejected. order_status" in page
    corrected = record["record"].replace('"<b>soon"', "1")
    assert "The record is stored." in operator.send("/operator/data/correct", record=corrected).text
    found = store.run(f"SELECT order_sn FROM shop_order WHERE order_sn LIKE '{sn}%'")
    assert sorted(row[0] for row in found) == [f"{sn}-1", f"{sn}-2"]
    assert all(act in recorded_acts(operator) for act in ("import", "record show", "record mend"))
    operator.client.headers["Accept-Language"] = "zh-CN"
    acts = recorded_acts(operator)
    assert "数据源 上传的文件" in acts and "记录 订单" in acts


def test_a_record_of_a_table_can_be_corrected_without_its_written_times(
    operator: Browser, store: Store
) -> None:
    sn = f"26{time.time_ns()}"
    record = order(f"'{sn}", updated_at="2026/1/15 9:30", confirm_time="2026-01-15 09:30:00")
    record |= {"order_status": "9", "is_pre_sale": "false"}
    given = {name: value for name, value in record.items() if value is not None}
    rows = [",".join(given), ",".join(map(str, given.values()))]
    operator.open("/operator/data")
    operator.client.post(
        "/operator/data/import",
        data={**operator.hidden(), "kind": "orders"},
        files={"file": (f"{sn}.csv", "\n".join(rows).encode("gbk"))},
    )
    open_until(operator, "/operator/data", f"{sn}.csv, 2: order_status")
    exported = operator.client.get("/operator/data/rejected.jsonl").text
    kept = next(json.loads(line) for line in exported.splitlines() if sn in line)
    operator.open(f"/operator/data/record?id={kept['id']}")
    corrected = kept["record"].replace('"9"', "1")
    assert "The record is stored." in operator.send("/operator/data/correct", record=corrected).text
    found = store.run(f"SELECT updated_ms, newest_first FROM shop_order WHERE order_sn = '{sn}'")
    assert found == [(1_768_440_600_000, -1_768_440_600_000)]


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


@pytest.mark.sqlite
def test_who_was_signed_out_meanwhile_learns_it_after_all_of_the_file(operator: Browser) -> None:
    """A proxy sends all of it before it reads an answer, and would say "bad gateway"."""
    url = operator.client.base_url
    connection = http.client.HTTPConnection(url.host, cast(int, url.port), timeout=30)
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    connection.request("POST", "/operator/data/import", b"--x" + b" " * 12 * 2**20, form)
    answer = connection.getresponse()
    assert answer.status == 403
    assert "You were signed out meanwhile" in answer.read().decode()
    connection.close()


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


def test_a_rejected_record_that_cannot_be_read_stops_no_other_and_can_be_dropped(
    operator: Browser, store: Store
) -> None:
    name, sealer = f"altered-{time.time_ns()}", open_sealer(store.url, store.key_file)
    made = [sealed_reject(sealer, b"k", name, "orders", b"%d" % n, "wrong", 1) for n in range(3)]
    store.do(lambda database: database.write(partial(keep_rejects, rejects=made)))
    altered = str(made[1]["id"])
    store.run(f"UPDATE rejected_record SET sealed = substr(sealed, 2) WHERE id = '{altered}'")
    exported = operator.client.get("/operator/data/rejected.jsonl").text
    kept = [json.loads(line) for line in exported.splitlines() if name in line]
    assert {each["id"]: each["record"] for each in kept} == {
        made[0]["id"]: "0",
        altered: None,
        made[2]["id"]: "2",
    }
    page = operator.open(f"/operator/data/record?id={altered}").text
    assert "The record cannot be read: its key is missing." in page and "wrong" in page
    operator.send("/operator/data/drop", id=altered, sure="yes")
    left = store.run(f"SELECT count(*) FROM rejected_record WHERE source = '{name}'")
    assert left == [(2,)]
    store.run(f"DELETE FROM rejected_record WHERE source = '{name}'")


def test_of_a_rejected_record_of_megabytes_the_beginning_is_shown(
    operator: Browser, store: Store
) -> None:
    """A push may have a record of 8 MiB; to lay it out took seconds, while all calls waited."""
    name = f"long-{time.time_ns()}"
    sealer = open_sealer(store.url, store.key_file)
    record = b'{"a":[' + b"0," * 500_000 + b"0]}"
    one = sealed_reject(sealer, b"key", name, "orders", record, "wrong", 1)
    store.do(lambda database: database.write(partial(keep_rejects, rejects=[one])))
    try:
        shown = operator.open(f"/operator/data/record?id={one['id']}")
        assert "Too long to be corrected here" in shown.text
        assert len(shown.content) < 200_000
        dropped = operator.send("/operator/data/drop", id=str(one["id"]), sure="yes")
        assert dropped.status_code == 200
        assert store.run(f"SELECT id FROM rejected_record WHERE source = '{name}'") == []
    finally:
        store.run(f"DELETE FROM rejected_record WHERE source = '{name}'")


@pytest.mark.parametrize(
    ("letter", "count", "is_form"),
    [("x", 40_000, True), ("单", 12_500, True), ("单", 20_000, False)],
)
def test_a_long_record_is_corrected_on_its_page_if_a_form_can_send_it(
    operator: Browser, store: Store, letter: str, count: int, is_form: bool
) -> None:
    """A browser sends no text that is longer than its field once it was changed."""
    name = f"long-{time.time_ns()}"
    record = json.dumps({"remark": letter * count}, ensure_ascii=False).encode()
    sealer = open_sealer(store.url, store.key_file)
    one = sealed_reject(sealer, b"key", name, "orders", record, "wrong", 1)
    store.do(lambda database: database.write(partial(keep_rejects, rejects=[one])))
    try:
        shown = operator.open(f"/operator/data/record?id={one['id']}").text
        field = re.search(
            r'<textarea[^>]*maxlength="(\d+)"[^>]*>(.*?)</textarea>', shown, re.DOTALL
        )
        assert ("Too long to be corrected here" in shown) is (field is None) is not is_form
        if field is not None:
            text = html.unescape(field[2]).replace("\n", "\r\n")
            assert count < len(text) <= int(field[1])
            sent = operator.send("/operator/data/correct", id=str(one["id"]), record=text)
            assert "Still rejected." in sent.text
    finally:
        store.run(f"DELETE FROM rejected_record WHERE source = '{name}'")


@pytest.mark.parametrize(
    "record",
    [
        b'{"remark": "\\ud800"}',
        b"[" * 30_000,
        # Rejected for its decimals, and not to be corrected unnoticed.
        b'{"pay_amount": 1.000}',
        b'{"pay_amount": 123456789012345678901.25}',
        # Each number would have 800 blanks before it.
        b'{"remark": ' + b"[" * 400 + b"1," * 14_000 + b"1" + b"]" * 400 + b"}",
        # As half of a surrogate pair, which stands for a byte that is not UTF-8.
        b'{"remark": "\xff"}',
    ],
)
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
        assert written == re.sub(r"\s", "", record.replace(b"\xff", rb"\udcff").decode())
    finally:
        store.run(f"DELETE FROM rejected_record WHERE source = '{name}'")


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
            settings=Settings(),
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
    page = open_until(operator, "/operator/data", "is not a whole .xlsx file")
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
    open_until(operator, "/operator/data", shown)


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
    page = open_until(operator, "/operator/data", "reading stopped there")
    assert f"More than 10,000 records of {name} were rejected" in page
    assert store.run(f"SELECT 1 FROM shop_order WHERE order_sn = '{sn}'") == []
    # Other tests look at what is rejected.
    store.run("DELETE FROM rejected_record")


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_what_was_lost_in_a_file_is_not_stored_when_its_record_is_tried_again(
    operator: Browser, store: Store, kind: str
) -> None:
    now = time.time_ns()
    name, rounded = f"{now}.{kind}", f"{now % 10}.{now % 10**9}E+17"
    record = {**order(), "order_sn": "ROUNDED"}
    if kind == "csv":
        given = {each: value for each, value in record.items() if value is not None}
        rows = [",".join(given), ",".join(map(str, given.values()))]
        text = "\n".join(rows).replace("ROUNDED", rounded).replace("False", "false")
    else:
        # In JSON, a number that is no text.
        text = json.dumps(record).replace('"ROUNDED"', rounded)
    operator.open("/operator/data")
    operator.client.post(
        "/operator/data/import",
        data={**operator.hidden(), "kind": "orders"},
        files={"file": (name, text.encode())},
    )
    open_until(operator, "/operator/data", f"{name}, {2 if kind == 'csv' else 1}: order_sn")
    exported = operator.client.get("/operator/data/rejected.jsonl").text
    (kept,) = [json.loads(line) for line in exported.splitlines() if name in line]
    assert rounded in kept["record"]
    sealer = open_sealer(store.url, store.key_file)
    tried = store.do(lambda database: replay(database, sealer, RECORD_KINDS, kept["id"]))
    assert (tried.stored, tried.rejected) == (0, 1)
    assert store.run("SELECT 1 FROM shop_order WHERE order_sn LIKE '%E+17'") == []
    assert store.run("SELECT 1 FROM shop_order WHERE order_sn LIKE '%JsonNumber%'") == []
    store.run(f"DELETE FROM rejected_record WHERE id = '{kept['id']}'")


def test_an_upload_has_no_name_that_a_killed_gateway_would_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    upload = Upload()
    upload.begin_file("orders.csv")
    upload.write(b"a,b\n1,2\n")
    upload.end_file()
    assert list(tmp_path.iterdir()) == []
    assert upload.path is not None
    assert [each.values for each in read_records(upload.path, upload.name)] == [
        {"a": "1", "b": "2"}
    ]
    upload.drop()
    assert upload.path is None


@pytest.mark.parametrize("name", ["orders.xlsx", "ORDERS.JSONL.GZ"])
def test_an_upload_of_every_kind_is_read(name: str) -> None:
    workbook, content = openpyxl.Workbook(), io.BytesIO()
    workbook.active.append(["a"])
    workbook.active.append(["1"])
    workbook.save(content)
    upload = Upload()
    upload.begin_file(name)
    is_packed = name.endswith("GZ")
    upload.write(gzip.compress(b'{"a": "1"}', mtime=0) if is_packed else content.getvalue())
    upload.end_file()
    assert upload.path is not None
    assert [each.values for each in read_records(upload.path, upload.name)] == [{"a": "1"}]
    upload.drop()
