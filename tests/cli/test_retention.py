"""What is too old is dropped with all that counts it: totals, balances and the audit stay right."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import asyncpg
import pytest

from tests.cli.conftest import CALLS, Command
from tests.cli.damage import Damaged
from tests.support.all_operations import all_operations_caller, ask, good_request, small_world
from tests.support.coupons import claim, load_claims
from tests.support.engines import Engine
from tests.support.forks import run
from tests.support.gateway import Gateway as RunningGateway
from tests.support.months import make_month, put_entries, put_reads
from tests.support.orders import miscounted, order, put_orders
from tests.support.stores import Store
from tollway.cli.setting_sources import load_settings
from tollway.gateway import retention
from tollway.gateway.gateway import Gateway
from tollway.gateway.retention import _LOCK
from tollway.gateway.worker_group import WorkerGroup
from tollway.ledger.runtime import Runtime
from tollway.operations.catalogue import ALL_TABLES, OPERATIONS
from tollway.operations.orders.schema import DAY_MS
from tollway.store import small_commits
from tollway.store.key_check import files_of, use_files
from tollway.telemetry.logs import LogWriter

NOW_MS = Runtime().at_ms()
# Kept for 30 days, this is too old on either engine: on a shared one the month it is in has ended
# more than 30 days ago.
AGE_DAYS = 70


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less to a commit, and to a run, than there is to drop."""
    monkeypatch.setattr(small_commits, "PIECE", 3)
    monkeypatch.setattr(retention, "_PIECES_MAX", 2)


def _rows(tollway: Command, *options: str) -> dict[str, int]:
    answer = tollway("retention", "apply", *options, "--json")
    assert answer.status == 0, answer.err
    return {each["kind"]: each["rows"] for each in answer.json}


def _assert_clean(tollway: Command) -> None:
    answer = tollway("audit", "--json")
    assert (answer.json["breaches"], answer.status) == ([], 0)


def _old_orders(store: Store) -> None:
    put_orders(
        store,
        [
            order(
                f"{owner} {age} {number}",
                owner_id=owner,
                confirm_time=NOW_MS - age * DAY_MS,
                remark="x",
                remark_tag=number % 5 + 1,
                remark_tag_name=f"name {number % 2}",
            )
            for owner in ("1", "2")
            for age in (1, AGE_DAYS, 400)
            for number in range(5)
        ],
    )


def test_old_orders_go_with_their_counts(
    tollway: Command, ledger_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _old_orders(ledger_store)
    assert _rows(tollway) == dict.fromkeys(("orders", "claims", "entries", "reads", "receipts"), 0)
    monkeypatch.setenv("TOLLWAY_KEEP_ORDERS_DAYS", "30")
    assert _rows(tollway, "--dry-run")["orders"] == 20
    assert ledger_store.run("SELECT count(*) FROM shop_order") == [(30,)]
    assert _rows(tollway)["orders"] == 20
    assert ledger_store.run("SELECT count(*) FROM shop_order") == [(10,)]
    assert ledger_store.do(miscounted) == {}
    _assert_clean(tollway)
    assert _rows(tollway)["orders"] == 0


def test_old_claims_go_with_their_counts(
    tollway: Command, ledger_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_s = NOW_MS // 1000
    load_claims(
        ledger_store,
        [
            claim(f"{sid}{kind}{age}{number}", at_s - age * 86_400, sid=sid, claim_type=kind)
            for sid in ("s1", "s2")
            for kind in (4, 6)
            for age in (1, AGE_DAYS)
            for number in range(5)
        ],
    )
    monkeypatch.setenv("TOLLWAY_KEEP_CLAIMS_DAYS", "30")
    assert _rows(tollway, "--dry-run")["claims"] == 20
    assert _rows(tollway)["claims"] == 20
    assert ledger_store.run("SELECT count(*) FROM coupon_claim") == [(20,)]
    assert ledger_store.run("SELECT sum(claims) FROM coupon_claim_hour") == [(20,)]
    assert ledger_store.run("SELECT count(*) FROM coupon_claim_hour WHERE claims = 0") == [(0,)]
    _assert_clean(tollway)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, today: date, engine: Engine) -> Store:
    """A database that a gateway has served."""
    store = small_world(Store(tmp_path_factory.mktemp("served") / "tollway.db"), today)
    caller = all_operations_caller(store)
    gateway = RunningGateway(store)
    for operation in OPERATIONS:
        for _ in range(2):
            asked = good_request(operation, today)
            assert ask(gateway, operation, caller.token, asked).code == 0
    assert gateway.stop() == 0
    return store


def _grow_old(store: Store) -> None:
    """Entries and reads are old, in a month of their own where there are months."""
    for table in ("entry", "consent_use"):
        if store.is_shared:
            make_month(store, table, NOW_MS - AGE_DAYS * DAY_MS)
        store.run(f"UPDATE {table} SET at_ms = at_ms - {AGE_DAYS * DAY_MS}")
    store.run(f"UPDATE waybill SET issued_at_s = issued_at_s - {AGE_DAYS * DAY_MS // 1000}")


@pytest.fixture
def lived_in(served: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A copy of it that is old."""
    store = served.copied_to(tmp_path / "tollway.db")
    for name, value in store.settings.items():
        monkeypatch.setenv(name, value)
    _grow_old(store)
    monkeypatch.setenv("TOLLWAY_KEEP_ENTRIES_DAYS", "30")
    return store


def test_entries_that_are_dropped_are_carried(tollway: Command, lived_in: Store) -> None:
    ((entries,),) = lived_in.run("SELECT count(*) FROM entry")
    ((account,),) = lived_in.run("SELECT id FROM account")
    before = tollway("audit", "--json").json
    # The last charge of calls is not old enough.
    lived_in.run(
        f"UPDATE entry SET at_ms = {NOW_MS} WHERE unit = '{CALLS}' "
        f"AND number = (SELECT entries FROM balance WHERE unit = '{CALLS}')"
    )
    assert _rows(tollway, "--dry-run")["entries"] == entries - 1
    assert _rows(tollway)["entries"] == entries - 1
    assert lived_in.run("SELECT count(*) FROM entry") == [(1,)]
    after = tollway("audit", "--json").json
    assert (after["units"], after["breaches"]) == (before["units"], [])
    assert tollway("credit", "add", account, "5").status == 0
    assert tollway("credit", "add", account, "5", "--calls", "product_analysis").status == 0
    _assert_clean(tollway)


def test_reads_go_after_their_entries(tollway: Command, lived_in: Store) -> None:
    ((reads,),) = lived_in.run("SELECT count(*) FROM consent_use")
    ((request_id,),) = lived_in.run(
        "SELECT max(request_id) FROM consent_use WHERE operation = 'orders'"
    )
    # The last of them, and its charge, are not old enough.
    for table in ("entry", "consent_use"):
        lived_in.run(f"UPDATE {table} SET at_ms = {NOW_MS} WHERE request_id = '{request_id}'")
    assert reads > 1
    assert _rows(tollway, "--dry-run")["reads"] == reads - 1
    assert _rows(tollway)["reads"] == reads - 1
    assert lived_in.run("SELECT request_id FROM consent_use") == [(request_id,)]
    _assert_clean(tollway)


SABOTAGE = {
    "UPDATE archived_balance SET charge = charge - 1": "amount_differs",
    "UPDATE archived_balance SET top_up = top_up + 1, charge = charge - 1": "posted_differs",
    "UPDATE archived_balance SET number = number - 1": "count_differs",
    "UPDATE archived_balance SET balance_after = balance_after + 1": "step_differs",
    "UPDATE archived_balance SET waybills = waybills - 1": "waybills_paid_differs",
    "DELETE FROM archived_balance": "entry_missing",
}


@pytest.fixture(scope="module")
def carried(served: Store, tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    """One whose old entries were dropped, and that had another since."""
    store = served.copied_to(tmp_path_factory.mktemp("carried") / "tollway.db")
    _grow_old(store)
    ((account,),) = store.run("SELECT id FROM account")
    settings = {**store.settings, "TOLLWAY_KEEP_ENTRIES_DAYS": "30"}
    for command in ("retention apply", f"credit add {account} 5"):
        done = run("tollway", *command.split(), env={**os.environ, **settings})
        assert done.returncode == 0, done.stderr
    return Damaged(store, SABOTAGE)


@pytest.mark.parametrize("sabotage", SABOTAGE)
def test_what_is_carried_is_audited(
    tollway: Command, carried: Damaged, workplace: Path, sabotage: str
) -> None:
    with carried.before(sabotage, workplace) as store:
        _assert_clean(tollway)
        store.run(sabotage)
        found = tollway("audit", "--json").json["breaches"]
    assert SABOTAGE[sabotage] in {each["name"] for each in found}


def test_what_a_clock_that_was_ahead_has_dated_is_as_old_as_what_follows(
    tollway: Command, ledger_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_ms, ahead_ms = NOW_MS - AGE_DAYS * DAY_MS, NOW_MS + 3650 * DAY_MS
    # More of them than a piece; those at the end may have come just now.
    times_ms = [old_ms, *[ahead_ms] * 8, old_ms, ahead_ms, old_ms, NOW_MS, ahead_ms]
    put_entries(ledger_store, times_ms)
    put_entries(ledger_store, [*[ahead_ms] * 8, NOW_MS], account_id="another")
    reads = [old_ms, old_ms + 1, old_ms + 2, NOW_MS - 1, NOW_MS]
    put_reads(ledger_store, reads)
    ahead = f"request_id IN ('{old_ms}', '{old_ms + 1}', '{NOW_MS - 1}')"
    ledger_store.run(f"UPDATE consent_use SET at_ms = {ahead_ms} WHERE {ahead}")

    monkeypatch.setenv("TOLLWAY_KEEP_ENTRIES_DAYS", "30")
    dropped = _rows(tollway)
    assert (dropped["entries"], dropped["reads"]) == (12, 3)
    archived = "SELECT account_id, number, top_up, at_ms FROM archived_balance"
    assert ledger_store.run(archived) == [("acc", 12, 12, old_ms)]
    left = ledger_store.run("SELECT request_id FROM consent_use ORDER BY 1")
    assert left == [(str(each),) for each in reads[3:]]
    _assert_clean(tollway)


def test_a_waybill_that_was_issued_while_the_clock_was_ahead_may_have_a_dropped_charge(
    tollway: Command, lived_in: Store
) -> None:
    # The first of two.
    ((request_id,),) = lived_in.run(
        "SELECT request_id FROM entry WHERE operation = 'waybills' ORDER BY number LIMIT 1"
    )
    of_request, later_s = f"WHERE request_id = '{request_id}'", 3650 * DAY_MS // 1000
    lived_in.run(f"UPDATE entry SET at_ms = at_ms + {later_s * 1000} {of_request}")
    lived_in.run(f"UPDATE waybill SET issued_at_s = issued_at_s + {later_s} {of_request}")
    _rows(tollway)
    assert lived_in.run("SELECT count(*) FROM entry") == [(0,)]
    _assert_clean(tollway)
    # If the sums show that a charge is missing, it is named.
    lived_in.run("UPDATE archived_balance SET waybills = waybills + 1")
    breaches = tollway("audit", "--json").json["breaches"]
    assert any(request_id in each["difference"] for each in breaches)


def test_one_that_a_clock_that_was_behind_has_dated_makes_none_before_it_old(
    tollway: Command, ledger_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_entries(ledger_store, [NOW_MS, NOW_MS - AGE_DAYS * DAY_MS, NOW_MS])
    monkeypatch.setenv("TOLLWAY_KEEP_ENTRIES_DAYS", "30")
    assert _rows(tollway)["entries"] == 0


def test_what_is_still_held_for_is_not_dropped(tollway: Command, lived_in: Store) -> None:
    ((account, unit, request_id, number),) = lived_in.run(
        "SELECT account_id, unit, request_id, number FROM entry "
        "WHERE operation = 'orders' ORDER BY number LIMIT 1"
    )
    lived_in.run(
        "INSERT INTO hold (account_id, id, unit, amount, operation, request_id, token_id, at_ms, "
        f"deadline_at_ms, state) VALUES ('{account}', 'h', '{unit}', 0, 'orders', "
        f"'{request_id}', 't', 0, 0, 'held')"
    )
    _rows(tollway)
    assert lived_in.run(f"SELECT min(number) FROM entry WHERE unit = '{unit}'") == [(number,)]
    assert lived_in.run(f"SELECT count(*) FROM consent_use WHERE request_id = '{request_id}'") == [
        (1,)
    ]


def test_a_gateway_applies_it_by_itself_a_little_at_a_time(
    tollway: Command, ledger_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _old_orders(ledger_store)
    monkeypatch.setenv("TOLLWAY_KEEP_ORDERS_DAYS", "30")
    settings, _ = load_settings()
    ledger_store.do(lambda database: use_files(database, files_of(settings), ALL_TABLES))

    async def drop(times: int) -> None:
        gateway = Gateway(settings, WorkerGroup(1, ""), 1, LogWriter(sys.stderr))
        for _ in range(times):
            await gateway.upkeep.drop_old()
        await gateway.stop()

    asyncio.run(drop(1))
    # Whole months go at once; pieces, two of three orders each, do not.
    assert ledger_store.run("SELECT count(*) FROM shop_order") == [
        (10 if ledger_store.is_shared else 24,)
    ]
    _assert_clean(tollway)
    asyncio.run(drop(5))
    assert ledger_store.run("SELECT count(*) FROM shop_order") == [(10,)]
    _assert_clean(tollway)


@contextmanager
def _another_node(url: str) -> Iterator[None]:
    """Another process that does it."""
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(url))
        try:
            runner.run(connection.execute(f"SELECT pg_advisory_lock({_LOCK})"))
            yield
        finally:
            runner.run(connection.close())


@pytest.mark.postgresql
def test_one_node_at_a_time_does_it(
    tollway: Command, ledger_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _old_orders(ledger_store)
    monkeypatch.setenv("TOLLWAY_KEEP_ORDERS_DAYS", "30")
    monkeypatch.setattr(small_commits, "PIECE", 500)
    with _another_node(ledger_store.url):
        assert _rows(tollway)["orders"] == 0
    assert _rows(tollway)["orders"] == 20
