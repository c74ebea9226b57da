"""Statements from sums by day, compared with a plain model of the entries."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from tests.support.stores import Store
from tollway.audit.check import Breach, Check
from tollway.audit.usage import ENTRY_DAYS, USAGE_CALLS
from tollway.ledger.accounts import open_account
from tollway.ledger.archiving import archive_entries
from tollway.ledger.entry_days import DAY_MS
from tollway.ledger.runtime import Runtime
from tollway.ledger.statements import Statement, month_span_ms, statement_of
from tollway.ledger.usage import roll_up
from tollway.store.database import Database
from tollway.store.open import OpenDatabase

START_MS = round(datetime(2026, 1, 20, tzinfo=UTC).timestamp() * 1000)
DAYS = 60
UNITS = ("calls:product_analysis", "credits")
MONTHS = ("2025-12", "2026-01", "2026-02", "2026-03", "2026-04")
ZONES = ("Asia/Shanghai", "UTC", "Asia/Kathmandu", "America/New_York")
SIGNS = {"top_up": 1, "correction": -1, "charge": -1, "hold": -1, "release": 1}


class Made(NamedTuple):
    unit: str
    number: int
    kind: str
    amount: int
    at_ms: int
    operation: str | None


def made_entries(chance: Random, unit: str, count: int) -> list[Made]:
    """Entries in the order of their numbers, which is nearly that of their times; some are at the
    first or last millisecond of a month or day."""
    edges = [
        edge + shift
        for zone in ZONES
        for month in MONTHS[1:4]
        for edge in (month_span_ms(month, ZoneInfo(zone)).start,)
        for shift in (-1, 0)
    ]
    edges += [START_MS + day * DAY_MS + shift for day in (3, 30) for shift in (-1, 0)]
    times = [START_MS + chance.randrange(DAYS * DAY_MS) for _ in range(count - len(edges))] + edges
    # As if the clocks of two nodes differed by an hour.
    times.sort(key=lambda at_ms: at_ms + chance.randrange(3_600_000))
    entries = [Made(unit, 1, "top_up", 10**6, times[0], None)]
    for number, at_ms in enumerate(times[1:], start=2):
        kind = chance.choice(list(SIGNS))
        operation = None if kind == "correction" else chance.choice(("orders", "b"))
        if kind == "top_up" and chance.random() < 0.5:
            operation = None
        amount = SIGNS[kind] * chance.randrange(100)
        entries.append(Made(unit, number, kind, amount, at_ms, operation))
    return entries


def put(store: Store, account_id: str, entries: Sequence[Made], before: int, last: int) -> None:
    """Stores the entries after a number up to another, and the balance of them."""
    total = sum(each.amount for each in entries if each.number <= last)
    unit, after = entries[0].unit, sum(each.amount for each in entries if each.number <= before)
    rows = []
    for each in entries[before:last]:
        after += each.amount
        operation = "NULL" if each.operation is None else f"'{each.operation}'"
        rows.append(
            f"('{account_id}', '{unit}', {each.number}, '{each.kind}', {each.amount}, {after}, "
            f"{each.at_ms}, {operation})"
        )
    store.run_all(
        f"DELETE FROM balance WHERE account_id = '{account_id}' AND unit = '{unit}'",
        "INSERT INTO balance (account_id, unit, amount, held, posted, entries) "
        f"VALUES ('{account_id}', '{unit}', {total}, 0, 0, {last})",
        "INSERT INTO entry (account_id, unit, number, kind, amount, balance_after, at_ms, "
        f"operation) VALUES {', '.join(rows)}",
    )


def expected(entries: Sequence[Made], span_ms: range) -> tuple[object, ...]:
    units, operations = [], Counter[tuple[str, str]]()
    calls = Counter[tuple[str, str]]()
    for unit in UNITS:
        own = [each for each in entries if each.unit == unit]
        before = sum(each.amount for each in own if each.at_ms < span_ms.start)
        sums: Counter[str] = Counter()
        for each in own:
            if each.at_ms in span_ms:
                is_refund = each.kind == "top_up" and each.operation is not None
                sums["refund" if is_refund else each.kind] += each.amount
                if each.kind == "charge":
                    operations[each.operation or "", unit] -= each.amount
                    calls[each.operation or "", unit] += 1
        held = -(sums["hold"] + sums["release"])
        after = before + sums.total()
        given = (sums["top_up"], sums["refund"], sums["correction"], -sums["charge"], held)
        units.append((unit, before, *given, after))
    return units, {key: (calls[key], operations[key]) for key in calls}


def shown(made: Statement) -> tuple[object, ...]:
    units = [
        (e.unit, e.before, e.topped_up, e.refunded, e.corrected, e.charged, e.held, e.after)
        for e in made.units
    ]
    return units, {(e.operation, e.unit): (e.calls, e.charged) for e in made.operations}


async def rolled_up(database: Database) -> None:
    while await roll_up(database, ZoneInfo("Asia/Shanghai"), Runtime().at_s()):
        pass


def breaches(store: Store, account_id: str, check: Check = ENTRY_DAYS) -> list[Breach]:
    _, found = store.do(lambda database: check.run(database, 0))
    return [each for each in found if each.account_id == account_id]


@pytest.mark.parametrize("seed", [1, 2])
def test_every_month_is_as_its_entries_say_however_many_are_summed_or_deleted(
    store: Store, seed: int
) -> None:
    chance = Random(seed)
    opened = store.do(lambda database: open_account(database, Runtime(), f"statement {seed}"))
    of_units = [made_entries(chance, unit, 200) for unit in UNITS]
    stored: list[Made] = []

    def check(deleted_ms: int = -1) -> None:
        spans = [month_span_ms(month, ZoneInfo(zone)) for zone in ZONES for month in MONTHS]

        async def all_made(database: OpenDatabase) -> list[Statement]:
            return [await statement_of(database, opened.id, span) for span in spans]

        for span, made in zip(spans, store.do(all_made), strict=True):
            assert made.is_complete == (deleted_ms < span.start), span
            if made.is_complete:
                assert shown(made) == expected(stored, span), span
        assert breaches(store, opened.id) == []

    for first, last in ((0, 80), (80, 81), (81, 160), (160, 200)):
        for entries in of_units:
            put(store, opened.id, entries, first, last)
            stored += entries[first:last]
        check()
        if last < 200:
            store.do(rolled_up)
            check()
    # Some before they are summed: of these balances the oldest are, and the last 40 are not.
    deleted = []
    for entries, most in zip(of_units, (50, 170), strict=True):
        old = store.do(
            lambda database, unit=entries[0].unit, most=most: database.write(
                lambda transaction: archive_entries(
                    transaction, most, account_id=opened.id, unit=unit, before_ms=2**60
                )
            )
        )
        assert old == most
        deleted += entries[:most]
    newest_ms = max(each.at_ms for each in deleted)
    check(newest_ms)
    store.do(rolled_up)
    check(newest_ms)


def test_entries_that_are_deleted_in_pieces_leave_no_month_that_seems_complete(
    store: Store,
) -> None:
    """A later piece may have earlier times: a call that began first can be charged last."""
    opened = store.do(lambda database: open_account(database, Runtime(), "in pieces"))
    span = month_span_ms(MONTHS[1], ZoneInfo("Asia/Shanghai"))
    entries = [
        Made("credits", 1, "top_up", 100, span.start - DAY_MS, None),
        Made("credits", 2, "charge", -10, span.start + 5000, "orders"),
        Made("credits", 3, "charge", -20, span.start - 5000, "orders"),
        Made("credits", 4, "charge", -7, span.stop + DAY_MS, "orders"),
    ]
    put(store, opened.id, entries, 0, 4)
    store.do(rolled_up)
    for most in (2, 1):
        dropped = store.do(
            lambda database, most=most: database.write(
                lambda transaction: archive_entries(
                    transaction, most, account_id=opened.id, unit="credits", before_ms=span.stop
                )
            )
        )
        assert dropped == most
        made = store.do(lambda database: statement_of(database, opened.id, span))
        assert not made.is_complete


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entry_day SET amount = amount + 1",
        "UPDATE entry_day SET entries = entries + 1",
        "UPDATE entry_day SET first_number = first_number + 1",
        "UPDATE entry_day SET last_number = last_number - 1",
        "UPDATE entry_day SET day = day + 1000",
        "DELETE FROM entry_day",
        "UPDATE entry SET amount = amount - 1",
    ],
)
def test_the_audit_notices_a_sum_that_is_not_of_its_entries(store: Store, change: str) -> None:
    name = f"statement {change}"
    opened = store.do(lambda database: open_account(database, Runtime(), name))
    put(store, opened.id, made_entries(Random(4), "credits", 60), 0, 60)
    store.do(rolled_up)
    assert breaches(store, opened.id) == []
    store.run(f"{change} WHERE account_id = '{opened.id}' AND kind = 'top_up'")
    found = breaches(store, opened.id)
    assert found and {(each.name, each.unit) for each in found} == {("entry_days", "credits")}


@pytest.mark.parametrize("change", ["calls = calls + 1", "operation = operation || 'x'"])
def test_the_audit_notices_usage_with_other_calls(store: Store, change: str) -> None:
    name = f"usage {change}"
    opened = store.do(lambda database: open_account(database, Runtime(), name))
    put(store, opened.id, made_entries(Random(4), "credits", 60), 0, 60)
    store.do(rolled_up)
    assert breaches(store, opened.id, USAGE_CALLS) == []
    store.run(f"UPDATE usage SET {change} WHERE account_id = '{opened.id}' AND span_s = 86400")
    found = breaches(store, opened.id, USAGE_CALLS)
    assert found and {(each.name, each.unit) for each in found} == {("usage_calls", "credits")}


def test_of_whole_days_no_entry_is_read(own_store: Store) -> None:
    """In a database of its own: an audit of it finds more than it names."""
    chance, unit = Random(3), UNITS[1]
    opened = own_store.do(lambda database: open_account(database, Runtime(), "statement of sums"))
    entries = made_entries(chance, unit, 200)
    put(own_store, opened.id, entries, 0, 200)
    own_store.do(rolled_up)
    span = month_span_ms("2026-02", ZoneInfo("Asia/Shanghai"))
    before = own_store.do(lambda database: statement_of(database, opened.id, span))
    cut = [edge // DAY_MS * DAY_MS for edge in (span.start, span.stop)]
    is_whole = " AND ".join(f"NOT at_ms BETWEEN {each} AND {each + DAY_MS - 1}" for each in cut)
    # Where they are, nothing adds up any more.
    own_store.run(f"UPDATE entry SET amount = 77 WHERE account_id = '{opened.id}' AND {is_whole}")
    assert own_store.do(lambda database: statement_of(database, opened.id, span)) == before
    assert before.units[0].charged > 0
