"""What a gateway measures beside the calls: of its database, its clock, its regular work."""

import time
from pathlib import Path

import pytest

from tests.support.gateway import Gateway
from tests.support.metrics import Samples, all_of, metrics, sample
from tests.support.remote import eventually
from tests.support.stores import Store
from tests.support.waybills import load_numbers, new_carrier
from tollway import __version__
from tollway.gateway import retention
from tollway.gateway.retention import Retention
from tollway.settings import Settings
from tollway.store.database import Database
from tollway.store.last_runs import AUDIT, BACKUP, note_run
from tollway.store.migrate import newest_revision
from tollway.store.open import open_sealer

DAY_S = 86_400
# A carrier that is asked for its numbers.
_LINK = """INSERT INTO carrier_link (wp_code, url, provider_id, to_code, sealed_secret, deadline_ms,
    settle_after_s, changed_at_s, protocol, template_url)
VALUES ('{}', 'https://carrier.example', 'me', '', '', 1000, 60, 1, 'cainiao-link', '')"""


def _measured(gateway: Gateway, step: str) -> Samples:
    """The metrics once a step of the regular work was done."""
    name = "tollway_upkeep_success_timestamp_seconds"
    return eventually(
        lambda: metrics(gateway),
        lambda found: any(f'step="{step}"' in labels for labels in all_of(found, name)),
    )


def test_what_all_workers_share_is_measured_by_the_first_alone(own_store: Store) -> None:
    wp_code = new_carrier(own_store, 3)
    gateway = Gateway(own_store, workers=3)
    try:
        # Each of them does this, and has counted what is pending before.
        eventually(
            lambda: all_of(metrics(gateway), "tollway_upkeep_success_timestamp_seconds"),
            lambda found: sum('step="reconciliation"' in labels for labels in found) == 3,
        )
        found = _measured(gateway, "measuring")
        for name in ("tollway_waybills_pending", "tollway_waybills_overdue"):
            assert all_of(found, name) == {frozenset({'worker="1"'}): 0}
        assert all_of(found, "tollway_waybill_numbers_left") == {
            frozenset({'worker="1"', f'wp_code="{wp_code}"'}): 3
        }
    finally:
        assert gateway.stop() == 0


def test_numbers_left_are_those_of_the_pool_that_all_shops_share(own_store: Store) -> None:
    wp_code = new_carrier(own_store, 5)
    of_one_shop = new_carrier(own_store, 0)
    load_numbers(own_store, of_one_shop, [f"YT{n:013d}" for n in range(100, 110)], "shop1")
    first = f"wp_code = '{wp_code}' AND number < 'YT{2:013d}'"
    own_store.run(f"UPDATE waybill_number SET is_taken = 1 WHERE {first}")
    connected = new_carrier(own_store, 5)
    open_sealer(own_store.url, own_store.key_file)
    own_store.run(_LINK.format(connected))
    gateway = Gateway(own_store)
    try:
        found = _measured(gateway, "measuring")
        left = all_of(found, "tollway_waybill_numbers_left")
        assert left == {frozenset({f'wp_code="{wp_code}"'}): 3}
    finally:
        assert gateway.stop() == 0


@pytest.mark.postgresql
def test_a_clock_that_is_wrong_is_seen(own_store: Store) -> None:
    gateway = Gateway(own_store, clock_ahead_s=100)
    try:
        offset_s = sample(_measured(gateway, "measuring"), "tollway_clock_offset_seconds")
        assert 98 < offset_s < 102
    finally:
        assert gateway.stop() == 0


def test_a_sweep_that_does_not_keep_up_is_seen(own_store: Store) -> None:
    # A database with kept answers has its keys already.
    assert Gateway(own_store).stop() == 0
    empty = "'\\x'" if own_store.is_shared else "x''"
    at_ms = int((time.time() - 3 * DAY_S) * 1000)
    own_store.run(
        "INSERT INTO idempotency_key (account_id, key, request_id, at_ms, fingerprint, sealed) "
        f"VALUES ('acc_1', 'key', 'req_1', {at_ms}, {empty}, {empty})"
    )
    gateway = Gateway(own_store)
    try:
        found = _measured(gateway, "measuring")
        age_s = sample(found, "tollway_kept_answers_oldest_seconds")
        assert 3 * DAY_S <= age_s < 3 * DAY_S + 600
        assert ("tollway_clock_offset_seconds", frozenset()) not in found or own_store.is_shared
    finally:
        assert gateway.stop() == 0


def test_the_last_backup_and_the_last_audit_are_seen(own_store: Store) -> None:
    async def work(database: Database) -> None:
        await note_run(database, BACKUP, 1_000)
        await note_run(database, AUDIT, 2_000, is_good=False)

    own_store.do(work)
    gateway = Gateway(own_store)
    try:
        found = _measured(gateway, "measuring")
        # A shared database is copied by its own tools, and no command knows of it.
        copied = {} if own_store.is_shared else {frozenset(): 1_000}
        assert all_of(found, "tollway_backup_timestamp_seconds") == copied
        assert all_of(found, "tollway_audit_timestamp_seconds") == {frozenset(): 2_000}
        assert all_of(found, "tollway_audit_passed") == {frozenset(): 0}
    finally:
        assert gateway.stop() == 0


def test_that_there_never_was_a_backup_or_an_audit_is_seen(own_store: Store) -> None:
    gateway = Gateway(own_store)
    try:
        found = _measured(gateway, "measuring")
        never = {} if own_store.is_shared else {frozenset(): 0}
        assert all_of(found, "tollway_backup_timestamp_seconds") == never
        assert all_of(found, "tollway_audit_timestamp_seconds") == {frozenset(): 0}
        assert all_of(found, "tollway_audit_passed") == {}
    finally:
        assert gateway.stop() == 0


def test_the_version_is_shown(gateway: Gateway) -> None:
    ((labels, value),) = all_of(metrics(gateway), "tollway_build_info").items()
    assert value == 1
    assert {f'version="{__version__}"', f'schema="{newest_revision()}"'} < labels


def test_retention_says_what_it_left_for_the_next_run(
    own_store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = ", ".join(f"('acc_1', 'req_{n}', 1000, 'orders', 100, 'X', 0)" for n in range(1100))
    own_store.run(
        "INSERT INTO refused_call "
        "(account_id, request_id, at_ms, operation, code, reason, is_test) "
        f"VALUES {rows}"
    )
    monkeypatch.setattr(retention, "_PIECES_MAX", 2)

    async def work(database: Database) -> list[dict[str, bool]]:
        seen, retained = [], Retention(database, Settings())
        for _ in range(2):
            await retained.apply(int(time.time() * 1000))
            seen.append(dict(retained.unfinished))
        return seen

    assert own_store.do(work) == [{"receipts": True}, {"receipts": False}]
