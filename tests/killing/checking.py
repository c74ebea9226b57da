"""What must be true of the ledger, the waybills and the carrier's journal, whatever happened.

Written apart from the gateway's own audit, over the rows alone: what was acknowledged and what the
carrier's journal says are the oracles.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from tests.killing.clients import KEPT, PLAIN, POOL, REMOTE, Answer, HeardAnswers
from tests.support.ledger import RUNTIME, Caller
from tests.support.stores import Store
from tests.support.waybills import without_charge
from tollway.audit.report import audit

Journal = list[dict[str, Any]]


class Rows:
    """What is in the tables. Each is read by itself, so only what never changes again may be held
    against another one while calls are under way."""

    def __init__(self, store: Store) -> None:
        self.balances = store.run("SELECT account_id, amount, held FROM balance")
        ((self.topped_up, self.accounted_for),) = store.run(_SUMS)
        self.entries = store.run("SELECT account_id, kind, amount, request_id FROM entry")
        self.waybills = store.run("SELECT wp_code, order_sn, state, number FROM waybill")
        self.holds = store.run("SELECT id, state FROM hold")
        ((self.taken,),) = store.run("SELECT count(*) FROM waybill_number WHERE is_taken = 1")
        self.charges: defaultdict[str, list[int]] = defaultdict(list)
        for _, kind, amount, request_id in self.entries:
            if kind == "charge":
                self.charges[request_id].append(-amount)


_SUMS = """
SELECT (SELECT sum(amount) FROM entry WHERE kind = 'top_up'),
       (SELECT sum(amount + held + posted) FROM balance)"""


def breaches_at_any_time(store: Store, notes: HeardAnswers, journal: Journal) -> list[str]:
    """What must hold even while calls and carriers are under way."""
    # Noted first, read then: whatever was acknowledged must be there already.
    answers = list(notes.answers)
    rows = Rows(store)
    report = store.do(lambda database: audit(database, RUNTIME.at_ms()))
    return [
        # What is overdue when a life begins is settled in the course of it.
        *(f"audit: {breach}" for breach in report.breaches if breach.name != "hold_overdue"),
        *_unsound_balances(rows),
        *_wrong_charges(rows, answers),
        *_different_answers(answers),
        *_issued_twice(journal),
    ]


def breaches_when_settled(
    store: Store,
    notes: HeardAnswers,
    journal: Journal,
    callers: dict[str, Caller],
    wp_codes: dict[str, str],
) -> list[str]:
    """What must hold besides, once everything was asked for again and nothing is under way."""
    rows = Rows(store)
    return [
        *breaches_at_any_time(store, notes, journal),
        *(f"still held: {hold}" for hold, state in rows.holds if state == "held"),
        *(f"still pending: {each}" for each in rows.waybills if each[2] == "pending"),
        *(f"never done: {deed}" for waiting in notes.unfinished.values() for deed in waiting),
        *_unexplained_charges(rows, notes, callers),
        *_strange_waybills(rows, notes, journal, wp_codes),
    ]


def _unsound_balances(rows: Rows) -> Iterator[str]:
    for account_id, amount, held in rows.balances:
        if amount < 0 or held < 0:
            yield f"balance of {account_id}: {amount} available, {held} held"
    if rows.topped_up != rows.accounted_for:
        yield f"sum of the ledger: {rows.topped_up} topped up, {rows.accounted_for} accounted for"


def _wrong_charges(rows: Rows, answers: list[Answer]) -> Iterator[str]:
    for each in answers:
        price = each.deed.operation.default_price
        own, paid_by = rows.charges.get(each.request_id, []), each.replay_of or each.request_id
        if each.is_success:
            if rows.charges.get(paid_by, []) != [price]:
                yield f"lost: {each.deed.kind} {paid_by} has charges {rows.charges.get(paid_by)}"
            taken = 0 if each.replay_of is not None else price
            if each.deed.operation.name == "waybills" and each.data["withholding_money"] != taken:
                yield f"another price in the answer: {each.request_id}"
            if each.replay_of is not None and own:
                yield f"charged for a repetition: {each.request_id}"
        elif own and not each.is_open:
            yield f"charged for a failure: {each.request_id} was answered {each.code}"


def _different_answers(answers: list[Answer]) -> Iterator[str]:
    first: dict[int, Answer] = {}
    for each in answers:
        if each.is_success and each.deed.kind != PLAIN:
            before = first.setdefault(id(each.deed), each)
            if without_charge(before.data) != without_charge(each.data):
                yield f"two answers: {before.request_id} and {each.request_id}"


def _issued_twice(journal: Journal) -> Iterator[str]:
    orders = Counter(line["order_sn"] for line in journal if line["event"] == "issued")
    for order_sn, times in orders.items():
        if times > 1:
            yield f"issued twice: the carrier has {times} numbers for {order_sn}"


def _unexplained_charges(
    rows: Rows, notes: HeardAnswers, callers: dict[str, Caller]
) -> Iterator[str]:
    """Charges without a successful answer."""
    charges = Counter(account_id for account_id, kind, *_ in rows.entries if kind == "charge")
    succeeded = [each for each in notes.answers if each.is_success]
    plain = sum(each.deed.kind == PLAIN for each in succeeded)
    # A read without a key may have been paid for by a caller that was cut off: once for each try.
    found = charges[callers[PLAIN].account_id]
    if not plain <= found <= plain + notes.broken[PLAIN]:
        yield f"charges of plain reads: {found}, but {plain} and {notes.broken[PLAIN]} broken off"
    for kind in (KEPT, POOL, REMOTE):
        done = len({id(each.deed) for each in succeeded if each.deed.kind == kind})
        found = charges[callers[kind].account_id]
        if found != done:
            yield f"charges of kind {kind}: {found}, but {done} were done"


def _strange_waybills(
    rows: Rows, notes: HeardAnswers, journal: Journal, wp_codes: dict[str, str]
) -> Iterator[str]:
    issued = [each for each in rows.waybills if each[2] == "issued"]
    ours = {(order, number) for wp, order, _, number in issued if wp == wp_codes[REMOTE]}
    theirs = {(at["order_sn"], at["number"]) for at in journal if at["event"] == "issued"}
    for order_sn, number in ours ^ theirs:
        yield f"known to one side only: {number} for {order_sn}"
    in_pool = sum(wp == wp_codes[POOL] for wp, *_ in issued)
    if in_pool != rows.taken:
        yield f"pool: {rows.taken} numbers taken, {in_pool} issued"
    numbers = {(wp, order): number for wp, order, _, number in issued}
    for each in notes.answers:
        if each.is_success and each.deed.kind in (POOL, REMOTE):
            key = each.deed.body["wp_code"], each.deed.body["order_sn"]
            if numbers.get(key) != each.data["waybillCode"]:
                yield f"another number: {key} has {numbers.get(key)}"
