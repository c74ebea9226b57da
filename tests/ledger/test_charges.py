"""Charges with a key, with a cap, or under a grant: all that belongs to one, or nothing of it."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.stores import Store
from tollway.ledger.accounts import open_account
from tollway.ledger.charge_transaction import AlreadyAnswered, ChargeResults, post_charges
from tollway.ledger.charges import (
    Act,
    ActResult,
    Charge,
    GrantKey,
    IdempotencyKey,
    ShortageError,
)
from tollway.ledger.entries import newest_entries, top_up
from tollway.ledger.idempotency import KeptAnswer, find_kept, keep
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_limits import DayCap, DayCapError, TokenLimits
from tollway.ledger.tokens import issue_token
from tollway.store.database import Database, DuplicateKeyError, Transaction

RUNTIME = Runtime()
PAID = ActResult(b"answer", is_paid=True)
FREE = ActResult(b"answer", is_paid=False)
HELD = ActResult(b"", is_paid=False, is_held=True)
# More than any charge is tried.
TRIES_MAX = 5


class Account:
    """An account with 100 credits, and what is in the database of it."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name

        async def work(database: Database) -> tuple[str, str]:
            account = (await open_account(database, RUNTIME, name)).id
            await top_up(database, RUNTIME, account, "credits", 100)
            limits = TokenLimits(credits_per_day=25)
            issued = await issue_token(database, RUNTIME, account, limits=limits)
            return account, issued.token.id

        self.id, self.token_id = store.do(work)

    def charge(self, request: str, act: Act | None = None, amount: int = 10) -> Charge:
        request_id = f"{self._name}.{request}"
        return Charge(self.id, "credits", amount, "orders", request_id, self.token_id, 0, act)

    def post(self, *charges: Charge) -> ChargeResults:
        return self._store.do(
            lambda database: database.write(
                lambda transaction: post_charges(transaction, list(charges))
            )
        )

    def charged(self) -> list[tuple[str, int]]:
        """Which requests were charged, in their order, and what was left after each."""
        entries = self._store.do(lambda database: newest_entries(database, self.id, "credits", 50))
        return [
            (each.request_id.removeprefix(f"{self._name}."), each.balance_after)
            for each in reversed(entries)
            if each.request_id is not None
        ]

    def kept(self, key: str = "key") -> KeptAnswer | None:
        return self._store.do(lambda database: find_kept(database, self.id, key, 0))

    def spent(self) -> tuple[int, int]:
        """The credits and calls that are counted for its token."""
        ((credits_, calls),) = self._store.run(
            f"SELECT credits, calls FROM token_day WHERE token_id = '{self.token_id}'"
        )
        return credits_, calls

    def uses(self) -> list[tuple[object, ...]]:
        """What the owner of the grant sees: request, operation, what it repeats, records."""
        rows = self._store.run(
            "SELECT request_id, operation, replay_of, records FROM consent_use"
            f" WHERE owner_id = '{self.id}' ORDER BY request_id"
        )
        return [(row[0].removeprefix(f"{self._name}."), *row[1:]) for row in rows]


@pytest.fixture
def account(store: Store, new_name: Callable[[], str]) -> Account:
    return Account(store, new_name())


def act(*results: ActResult | Exception) -> Act:
    """Has one result after the other."""
    left = iter(results)

    async def work(_: Transaction, __: Charge) -> ActResult:
        result = next(left)
        if isinstance(result, Exception):
            raise result
        return result

    return work


def keyed(
    charge: Charge, data: bytes | None = None, *, late: bool | None = None, same: bytes = b"\1f"
) -> Charge:
    """With a key whose answer is the same for requests with this fingerprint."""
    tries = count()

    def seal(answer: bytes) -> bytes:
        # So that one that is tried for ever fails.
        assert next(tries) < TRIES_MAX
        return b"sealed " + answer

    key = IdempotencyKey("key", same, same.__eq__, seal, data)
    return replace(charge, idempotency_key=key if late is None else replace(key, late=late))


@pytest.mark.parametrize(
    ("result", "is_success"),
    [
        (PAID, True),
        (ActResult(b"", is_paid=False, captured=0), True),
        (ActResult(b"", is_paid=False, replay_of="first"), True),
        (FREE, False),
        (HELD, False),
    ],
)
def test_an_act_has_succeeded_if_its_answer_was_paid_now_or_before(
    result: ActResult, is_success: bool
) -> None:
    assert result.is_success is is_success


def test_the_answer_of_an_act_is_kept_under_the_key_of_its_charge(account: Account) -> None:
    first = keyed(account.charge("1", act(PAID)))
    again = keyed(account.charge("2", act(PAID)))
    results = account.post(first, again)
    assert results[0] == PAID and isinstance(results[1], AlreadyAnswered)
    assert account.kept() == KeptAnswer(first.request_id, b"\1f", b"sealed answer")
    assert account.charged() == [("1", 90)]


def test_a_charge_with_a_key_is_paid_once_and_its_answer_kept(account: Account) -> None:
    first = keyed(account.charge("1"), b"answer")
    assert account.post(first) == {0: PAID}
    kept = account.kept()
    assert kept == KeptAnswer(first.request_id, b"\1f", b"sealed answer")
    found = account.post(keyed(account.charge("2"), b"another"), account.charge("3"))
    assert list(found) == [0] and isinstance(found[0], AlreadyAnswered)
    assert found[0].kept == kept == account.kept()
    # What a log shows of it is not the answer.
    assert str(found[0]) == first.request_id
    assert account.charged() == [("1", 90), ("3", 80)]


def test_an_act_that_has_not_succeeded_leaves_its_key_free(account: Account) -> None:
    assert account.post(keyed(account.charge("1", act(FREE)))) == {0: FREE}
    assert account.kept() is None and account.charged() == []
    assert account.post(keyed(account.charge("2", act(PAID)))) == {0: PAID}
    assert account.charged() == [("2", 90)]


def test_a_key_that_is_reserved_lets_the_same_request_pass_and_no_other(account: Account) -> None:
    first = keyed(account.charge("1", act(HELD)))
    assert account.post(first) == {0: HELD}
    reserved = KeptAnswer(first.request_id, b"\1f", b"")
    assert account.kept() == reserved
    other = account.post(keyed(account.charge("2", act(PAID)), same=b"\1g"))
    assert isinstance(other[0], AlreadyAnswered) and other[0].kept == reserved
    again = keyed(account.charge("3", act(PAID)))
    assert account.post(again) == {0: PAID}
    assert account.kept() == KeptAnswer(again.request_id, b"\1f", b"sealed answer")
    assert account.charged() == [("3", 90)]


def test_the_second_commit_of_a_request_has_its_answer_kept(account: Account) -> None:
    first = account.charge("1", act(HELD, PAID))
    account.post(keyed(first))
    assert account.post(keyed(first, late=True)) == {0: PAID}
    assert account.kept() == KeptAnswer(first.request_id, b"\1f", b"sealed answer")


def test_the_second_commit_is_made_even_if_another_has_the_key_by_then(account: Account) -> None:
    other = keyed(account.charge("other"), b"another", same=b"\1g")
    account.post(other)
    late = keyed(account.charge("1", act(PAID)), late=True)
    assert account.post(late, account.charge("2")) == {0: PAID}
    # Those without an act or a key come first.
    assert account.charged() == [("other", 90), ("2", 80), ("1", 70)]
    assert account.kept() == KeptAnswer(other.request_id, b"\1g", b"sealed another")


def test_a_charge_whose_answer_cannot_be_kept_is_not_posted(account: Account) -> None:
    mistake = ValueError("no key to seal with")

    def fail(_: bytes) -> bytes:
        raise mistake

    key = IdempotencyKey("key", b"\1f", b"\1f".__eq__, fail, b"answer")
    failing = replace(account.charge("1"), idempotency_key=key)
    last = account.charge("2", act(PAID))
    assert account.post(failing, last) == {0: mistake, 1: PAID}
    assert account.charged() == [("2", 90)]
    assert account.kept() is None


def test_a_charge_whose_key_another_kept_meanwhile_is_entered_once(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([False])

    async def late_once(*given: Any) -> bool:
        return next(answers, None) is None and await keep(*given)

    monkeypatch.setattr("tollway.ledger.charge_transaction.keep", late_once)
    assert account.post(keyed(account.charge("1"), b"answer")) == {0: PAID}
    assert account.charged() == [("1", 90)]


def test_an_act_that_meets_a_known_row_is_tried_once_more(account: Account) -> None:
    known = [DuplicateKeyError(f"row {nth}") for nth in range(2)]
    once = account.charge("1", act(known[0], PAID))
    twice = account.charge("2", act(*known, PAID))
    results = account.post(once, twice)
    assert results[0] == PAID
    assert isinstance(results[1], DuplicateKeyError) and str(results[1]) == "row 1"
    assert account.charged() == [("1", 90)]


def test_an_act_that_costs_nothing_leaves_no_entry(account: Account) -> None:
    assert account.post(account.charge("1", act(PAID), amount=0)) == {0: PAID}
    assert account.charged() == []


def test_a_call_that_costs_nothing_needs_no_balance(account: Account) -> None:
    free = replace(account.charge("1", amount=0), unit="calls:orders")
    assert account.post(free, account.charge("2")) == {}
    assert account.charged() == [("2", 90)]


CAP = DayCap(credits_max=25, calls_max=None, day_at_ms=0)


def capped(charge: Charge) -> Charge:
    return replace(charge, cap=CAP)


def test_what_a_token_spends_is_counted_and_beyond_its_cap_refused(account: Account) -> None:
    calls = [capped(account.charge(str(nth))) for nth in range(3)]
    results = account.post(*calls, account.charge("uncapped"))
    nothing = ActResult(b"", is_paid=True)
    assert [results[0], results[1]] == [nothing, nothing] and list(results) == [0, 1, 2]
    refused = results[2]
    assert isinstance(refused, DayCapError) and (refused.left, refused.most) == (5, 25)
    assert account.spent() == (20, 2)
    assert account.charged() == [("uncapped", 90), ("0", 80), ("1", 70)]


@pytest.mark.parametrize(
    ("result", "counted", "charged"),
    [(PAID, (10, 1), ["1"]), (HELD, (10, 1), []), (FREE, (0, 0), [])],
    ids=["paid", "held", "free"],
)
def test_an_act_is_counted_against_the_cap_if_it_is_paid_now_or_later(
    account: Account, result: ActResult, counted: tuple[int, int], charged: list[str]
) -> None:
    assert account.post(capped(account.charge("1", act(result)))) == {0: result}
    assert account.spent() == counted
    assert [request for request, _ in account.charged()] == charged


def test_what_the_balance_does_not_cover_is_not_counted(account: Account) -> None:
    account.post(account.charge("all but 5", amount=95))
    refused = account.post(capped(account.charge("1")))[0]
    assert isinstance(refused, ShortageError) and refused.left == 5
    assert account.spent() == (0, 0)


async def _later() -> Act:
    return act(PAID)


def test_what_succeeds_under_a_grant_is_recorded_for_the_owner(account: Account) -> None:
    grant = GrantKey("shop", account.id, "consent")

    def granted(charge: Charge, **more: Any) -> Charge:
        return replace(charge, grant=grant, **more)

    waits = ActResult(b"", is_paid=False, is_held=True, then=_later)
    replayed = ActResult(b"four", is_paid=False, replay_of="first")
    account.post(
        granted(account.charge("a plain", amount=1), records=3),
        granted(account.charge("b replay", amount=0), replay_of="first", records=2),
        granted(account.charge("c act", act(PAID))),
        granted(account.charge("d counted", act(PAID)), count_records=len),
        granted(account.charge("e replayed", act(replayed)), count_records=len),
        granted(capped(account.charge("f capped", amount=1)), records=3, count_records=len),
        granted(keyed(account.charge("g keyed", amount=1), b"four"), records=3, count_records=len),
        granted(account.charge("too dear", amount=101)),
        granted(account.charge("failed", act(ValueError("a mistake")))),
        granted(account.charge("waits", act(waits)), count_records=len),
        account.charge("no grant", act(PAID)),
        account.charge("no grant either"),
    )
    assert account.uses() == [
        ("a plain", "orders", None, 3),
        ("b replay", "orders", "first", 2),
        ("c act", "orders", None, None),
        ("d counted", "orders", None, len(PAID.data)),
        ("e replayed", "orders", "first", 4),
        ("f capped", "orders", None, 3),
        ("g keyed", "orders", None, 3),
    ]


@pytest.mark.sqlite
@pytest.mark.parametrize("has_act", [False, True], ids=["plain", "with an act"])
def test_only_a_batch_with_an_act_may_change_records(
    store: Store, account: Account, has_act: bool
) -> None:
    charge = account.charge("1", act(PAID) if has_act else None)

    async def work(database: Database) -> bool:
        before = database.record_mark()
        await database.write(lambda transaction: post_charges(transaction, [charge]))
        return database.record_mark() != before

    assert store.do(work) is has_act
