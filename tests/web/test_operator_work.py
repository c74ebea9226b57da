"""Work that operators start from pages: imports, rejected records, audits, backups, waybills."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from tests.support.browsers import Browser, open_until, recorded_acts
from tests.support.gateway import Gateway
from tests.support.ledger import RUNTIME
from tests.support.stores import Store
from tests.support.waybills import issue, new_carrier, new_customer, request
from tollway.store.database import Database, StoreError
from tollway.store.last_runs import AUDIT, BACKUP, PUSH_PREFIX, note_run
from tollway.store.open import open_sealer
from tollway.store.serving_nodes import Presence
from tollway.web.area import Context
from tollway.web.jobs import JOB_PREFIX, Job, Jobs, Progress, find_job
from tollway.web.operator.data import UPLOADING, import_act
from tollway.web.operator.system import origin_of
from tollway.web.uploads import Upload


async def test_work_of_which_one_step_takes_long_is_seen_to_go_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tollway.web.jobs._BEAT_EVERY_S", 0.01)
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
    assert upload.path is None


def test_the_audit_runs_from_its_page_and_shows_its_result(operator: Browser) -> None:
    operator.open("/operator/audit")
    operator.send("/operator/audit/run")
    page = open_until(operator, "/operator/audit", "Run the audit")
    assert "balances" in page and "Checks" in page
    assert "no request was charged twice" in page
    assert "audit run" in recorded_acts(operator)
    operator.client.headers["Accept-Language"] = "zh-CN"
    page = operator.open("/operator/audit").text
    assert "没有调用被重复扣费" in page and "charged twice" not in page


def test_credits_that_a_carrier_keeps_waiting_for_are_listed(
    operator: Browser, store: Store
) -> None:
    request_id = f"held-{time.time_ns()}"
    now_ms = int(time.time() * 1000)
    assert request_id not in operator.open("/operator/waybills").text
    store.run(
        "INSERT INTO hold (account_id, id, unit, amount, operation, request_id, token_id, at_ms, "
        f"deadline_at_ms, state) VALUES ('acc_x', '{request_id}', 'credits', 10, 'waybills', "
        f"'{request_id}', 'tok_x', {now_ms}, {now_ms - 10**9}, 'held')"
    )
    try:
        page = operator.open("/operator/waybills").text
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
        # By a clock that was ahead.
        await note_run(database, PUSH_PREFIX + "wms", int(time.time()) + 10**9)
        await note_run(
            database, AUDIT, day_ago_s, is_good=False, result='{"checks":[],"breaches":[]}'
        )
        await note_run(database, BACKUP, day_ago_s)
        gone = Presence(
            database, "node_gone", "gone:1", "0", open_sealer(store.url, store.key_file)
        )
        await gone.refresh(RUNTIME.at_ms())

    store.do(work)
    store.run(
        "INSERT INTO rejected_record (source, id, kind, reason, received_at_s, sealed) "
        "WITH RECURSIVE made (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM made WHERE n < 10000) "
        "SELECT 'full', 'r' || n, 'orders', '', 0, CAST('' AS bytea) FROM made"
    )
    page = operator.open("/operator").text
    store.run("DELETE FROM rejected_record WHERE source = 'full'")
    for text in (
        "Pushes of full with wrong records are refused: too many wait",
        f"{wp_code} runs out in 2.0 days at today&#39;s pace",
        f"{without} never had numbers",
        "Source erp has pushed nothing for a day",
        "Source wms has pushed nothing for a day",
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
