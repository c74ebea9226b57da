"""The log of calls: from entries and refused calls, of one account or of all."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import msgspec
import pytest

from tollway.ledger import request_log, request_search
from tollway.ledger.accounts import open_account
from tollway.ledger.charge_transaction import post_charges
from tollway.ledger.charges import Charge
from tollway.ledger.entries import top_up
from tollway.ledger.holds import capture, release, reserve
from tollway.ledger.receipts import find_receipt
from tollway.ledger.refused_calls import RefusedCall, RefusedCallLog
from tollway.ledger.request_log import CallFilter, LoggedCall, first_id, log_page
from tollway.ledger.request_search import search_page
from tollway.ledger.runtime import Runtime
from tollway.store.database import Database, Row
from tollway.store.query import Query
from tollway.telemetry.metrics import Metrics

# In a time that no other test has calls of.
BEGIN_MS = 4_000_000_000_000


def id_of(number: int, account_id: str = "") -> str:
    return f"{first_id(BEGIN_MS + number)}{account_id}"


def noted(account_id: str, number: int, operation: str) -> RefusedCall:
    at_ms = BEGIN_MS + number
    return RefusedCall(
        account_id, id_of(number, account_id), at_ms, operation, 100, "BODY_TOO_LARGE", None
    )


async def note(database: Database, *calls: RefusedCall) -> None:
    log = RefusedCallLog(database, Metrics())
    for each in calls:
        log.add(each)
    await log.finish()


def charge(account_id: str, number: int, amount: int) -> Charge:
    return Charge(
        *(account_id, "credits", amount, "waybills", id_of(number, account_id), "tok_x"),
        BEGIN_MS + number,
    )


async def all_pages(database: Database, wanted: CallFilter) -> list[LoggedCall]:
    """The calls of all pages, which are small."""
    page = await log_page(database, wanted, ["credits"], 2)
    found = [*page.calls]
    while page.before:
        page = await log_page(database, wanted, ["credits"], 2, page.before)
        found += page.calls
    return found


async def account_of(database: Database, name: str) -> str:
    account = await open_account(database, Runtime(), name)
    await top_up(database, Runtime(), account.id, "credits", 10)
    return account.id


async def test_a_call_whose_credits_are_held_has_no_code_yet(
    database: Database, new_name: Callable[[], str]
) -> None:
    account_id = await account_of(database, new_name())
    held, paid = charge(account_id, 2, 4), charge(account_id, 1, 3)
    await database.write(lambda tx: post_charges(tx, [paid]))
    await database.write(lambda tx: reserve(tx, held, "hold", BEGIN_MS))
    page = await log_page(database, CallFilter(account_id), ["credits"], 10)
    shown = [(each.outcome, each.code, each.reason, each.amount) for each in page.calls]
    assert shown == [("held", None, "", 4), ("charged", 0, "SUCCESS", 3)]
    # Made without a grant, it has no consent to show.
    receipt = await find_receipt(database, account_id, held.request_id)
    assert receipt is not None
    assert (receipt.outcome.value, receipt.amount, receipt.consent) == ("held", 4, None)


@pytest.mark.parametrize("wanted", ["the account", "all"])
async def test_a_call_whose_credits_were_given_back_is_not_shown_as_held(
    database: Database, new_name: Callable[[], str], wanted: str
) -> None:
    """Also after its record as a refused call was dropped: entries may be kept for longer."""
    account_id = await account_of(database, new_name())
    released, captured = charge(account_id, 9001, 4), charge(account_id, 9002, 3)
    for held, hold_id in ((released, "given back"), (captured, "taken")):
        await database.write(partial(reserve, charge=held, hold_id=hold_id, deadline_at_ms=0))
    await database.write(lambda tx: release(tx, account_id, "given back", BEGIN_MS))
    await database.write(lambda tx: capture(tx, account_id, "taken", BEGIN_MS))
    of = account_id if wanted == "the account" else ""
    asked = CallFilter(of, since_ms=BEGIN_MS + 9001, until_ms=BEGIN_MS + 9003)
    page = await log_page(database, asked, ["credits"], 10)
    # The log of all has calls of other accounts too.
    own = [each for each in page.calls if each.account_id == account_id]
    shown = [(each.outcome, each.code, each.amount) for each in own]
    assert shown == [("charged", 0, 3), ("released", None, 0)]


async def test_a_page_looks_further_if_a_filter_leaves_out_most(
    database: Database, new_name: Callable[[], str]
) -> None:
    account_id = await account_of(database, new_name())
    await note(database, *(noted(account_id, each, f"op {each}") for each in range(30)))
    wanted = CallFilter(account_id, operation="op 0")
    page = await log_page(database, wanted, ["credits"], 2)
    assert [each.request_id for each in page.calls] == [id_of(0, account_id)]
    assert page.before == ""


async def test_the_refused_calls_of_all_accounts_are_one_log(database: Database) -> None:
    later = 5000
    calls = [noted(account_id, later + n, "orders") for n, account_id in enumerate("bab")]
    await note(database, *calls)
    wanted = CallFilter(since_ms=BEGIN_MS + later, until_ms=BEGIN_MS + later + 3)
    page = await log_page(database, wanted, [], 2)
    assert [each.request_id for each in page.calls] == [calls[2].request_id, calls[1].request_id]
    page = await log_page(database, wanted, [], 2, page.before)
    assert [each.account_id for each in page.calls] == ["b"]


async def test_a_call_that_was_charged_after_all_is_shown_as_charged(
    database: Database, new_name: Callable[[], str]
) -> None:
    account_id = await account_of(database, new_name())
    paid = charge(account_id, 8001, 3)
    await database.write(lambda tx: post_charges(tx, [paid]))
    silent = msgspec.structs.replace(
        noted(account_id, 8001, "waybills"), code=101, reason="CARRIER_SILENT"
    )
    await note(database, silent)
    moment = {"since_ms": BEGIN_MS + 8001, "until_ms": BEGIN_MS + 8002}
    for wanted in (CallFilter(account_id, **moment), CallFilter(**moment)):
        page = await log_page(database, wanted, ["credits"], 10)
        shown = [(each.request_id, each.outcome, each.amount) for each in page.calls]
        assert shown == [(paid.request_id, "charged", 3)]


async def test_the_log_of_all_accounts_goes_on_behind_a_page_that_a_filter_left_empty(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "SCANNED_MAX", 5)
    begin = 6000
    # Three of each moment: a page may end between them.
    calls = [noted("cab"[n % 3], begin + n // 3, f"op {n}") for n in range(30)]
    await note(database, *calls)
    bounds = CallFilter(since_ms=BEGIN_MS + begin, until_ms=BEGIN_MS + begin + 10)
    for wanted in (bounds._replace(operation="op 0"), bounds):
        found = [each.operation for each in await all_pages(database, wanted)]
        of_all = [each.operation for each in calls]
        assert sorted(found) == (["op 0"] if wanted.operation else sorted(of_all))


async def test_a_call_that_is_charged_long_after_it_began_hides_none_between(
    database: Database, new_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "SCANNED_MAX", 5)
    account_id = await account_of(database, new_name())
    await top_up(database, Runtime(), account_id, "credits", 100)
    held = charge(account_id, 1, 1)
    await database.write(lambda tx: reserve(tx, held, "late", BEGIN_MS))
    for number in range(2, 20):
        made = charge(account_id, number, 2 if number == 3 else 1)
        await database.write(partial(post_charges, charges=[made]))
    await database.write(lambda tx: capture(tx, account_id, "late", BEGIN_MS + 20))
    for wanted, numbers in (
        (CallFilter(account_id, amount=2), [3]),
        (CallFilter(account_id, amount=1), [*range(19, 3, -1), 2, 1]),
        (CallFilter(account_id), [*range(19, 0, -1)]),
    ):
        found = await all_pages(database, wanted)
        assert [each.request_id for each in found] == [id_of(n, account_id) for n in numbers]
        assert {each.outcome for each in found} == {"charged"}


async def test_a_call_that_took_long_hides_none_that_began_later(
    database: Database, new_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "SCANNED_MAX", 8)
    account_id = await account_of(database, new_name())
    await top_up(database, Runtime(), account_id, "credits", 100)
    for number in (*range(2, 20), 1, *range(20, 24)):
        made = charge(account_id, number, 2 if number == 3 else 1)
        await database.write(partial(post_charges, charges=[made]))
    for wanted, numbers in (
        (CallFilter(account_id, amount=2), [3]),
        (CallFilter(account_id), [*range(23, 0, -1)]),
    ):
        found = await all_pages(database, wanted)
        assert [each.request_id for each in found] == [id_of(n, account_id) for n in numbers]


async def test_calls_before_a_far_day_are_all_calls(
    database: Database, new_name: Callable[[], str]
) -> None:
    account_id = await account_of(database, new_name())
    await note(database, noted(account_id, 7001, "orders"))
    for account in (account_id, ""):
        wanted = CallFilter(
            account, since_ms=BEGIN_MS + 7001, until_ms=253_370_736_000_000, operation="orders"
        )
        page = await log_page(database, wanted, [], 10)
        assert id_of(7001, account_id) in [each.request_id for each in page.calls]
        after = wanted._replace(since_ms=253_370_736_000_000, until_ms=None)
        later = (await log_page(database, after, [], 10)).calls
        # Other tests of this store have calls of such days.
        assert account_id not in {each.account_id for each in later}


class Found:
    """A database that finds these rows: one use of a grant, and what is stored of its call."""

    def __init__(self, paid: Sequence[Row], refused: Sequence[Row]) -> None:
        self._rows = {request_search._PAID: paid, request_search._REFUSED: refused}
        self._rows[request_search._GRANTS] = [("shop", "con_x", "acc_x")]
        self._rows[request_search._USES] = [("request", 1, "waybills")]

    async def fetch_all(self, query: Query, **_: object) -> Sequence[Row]:
        return self._rows[query]

    async def fetch_long(self, query: Query, _kind: str, **_: object) -> Sequence[Row]:
        return self._rows[query]


_FACTS = ("request", 1, "acc_x", "waybills")
_HOLD, _CAPTURED, _RELEASED = (
    (*_FACTS, "hold", -9, "credits", state) for state in ("held", "captured", "released")
)
_CHARGE = (*_FACTS, "charge", -9, "credits", None)


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("paid", "refused", "shown"),
    [
        ([_HOLD], [], ("held", None, 9)),
        ([_CAPTURED, _CHARGE], [], ("charged", 0, 9)),
        ([_CHARGE, _CAPTURED], [], ("charged", 0, 9)),
        ([_RELEASED], [(*_FACTS, 0, "NOT_DONE", 0)], ("free", 0, 0)),
        ([_RELEASED], [], ("released", None, 0)),
        ([], [(*_FACTS, 0, "FREE", 0)], ("free", 0, 0)),
        ([], [], ("unknown", 0, 0)),
    ],
    ids=[
        *("held", "captured", "captured, in another order", "released"),
        *("released, its record dropped", "free", "dropped"),
    ],
)
def test_what_is_stored_of_a_call_of_a_shop_says_what_became_of_it(
    paid: Sequence[Row], refused: Sequence[Row], shown: tuple[str, int | None, int]
) -> None:
    database = cast(Any, Found(paid, refused))
    (call,) = asyncio.run(search_page(database, CallFilter(shop="shop"), 2, "")).calls
    assert (call.request_id, call.outcome, call.code, call.amount) == ("request", *shown)


@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("issued", ("unknown", 0)),
        ("cancelled", ("unknown", 0)),
        ("refused", ("released", None)),
    ],
)
def test_a_waybill_of_which_nothing_else_is_stored_says_what_became_of_its_call(
    state: str, shown: tuple[str, int | None]
) -> None:
    database = Found([], [])
    database._rows[request_search._WAYBILLS] = [("request", 1, "acc_x", state)]
    wanted = CallFilter(order_sn="SN00000001")
    (call,) = asyncio.run(search_page(cast(Any, database), wanted, 2, "")).calls
    assert (call.request_id, call.outcome, call.code) == ("request", *shown)
