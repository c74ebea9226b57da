"""What tests of remote carriers share: a carrier that is connected, and the books of a customer."""

import time
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple, TypeVar

from tests.support.books import Caller
from tests.support.fake_carrier import SECRET, FakeCarrier
from tests.support.gateway import Gateway
from tests.support.stores import Store
from tests.support.waybills import issue, new_customer, request
from tollway.carriers.carriers import add_carrier
from tollway.carriers.links import Link, connect
from tollway.ledger.entries import Entry, list_balances, newest_entries
from tollway.store.database import Database
from tollway.store.open import open_sealer

T = TypeVar("T")
_PATIENCE_S = 30
# A link whose deadlines are never felt on a busy machine, and one whose a test can wait for.
PATIENT = {"deadline_ms": 20_000, "settle_after_s": 60}
HASTY = {"deadline_ms": 300, "settle_after_s": 1}
_carriers = count(1)


class Books(NamedTuple):
    """A customer's credits, and the kinds of all entries from the oldest."""

    available: int
    held: int
    posted: int
    kinds: list[str]


def connected_carrier(
    store: Store,
    carrier: FakeCarrier,
    *,
    deadline_ms: int,
    settle_after_s: int,
    url: str | None = None,
) -> str:
    """A new carrier whose numbers come from the fake one."""
    wp_code = f"R{next(_carriers)}"
    link = Link(wp_code, url or carrier.url, "TOLLWAY", "CODE", deadline_ms, settle_after_s, 0)

    async def work(database: Database) -> None:
        await add_carrier(database, wp_code, "远程快递", r"YT\d{13}")
        await connect(database, open_sealer(store.url, store.key_file), link, SECRET)

    store.do(work)
    return wp_code


def left_pending(
    books: Store, carrier: FakeCarrier, fault: str, **link: Any
) -> tuple[Caller, dict[str, Any]]:
    """A customer with a waybill whose answer never came, and no gateway that would settle it."""
    customer = new_customer(books)
    body = request(connected_carrier(books, carrier, **{**HASTY, **link}))
    gateway = Gateway(books, reconcile_interval_s=3600)
    carrier.misbehave(fault)
    assert issue(gateway, customer.token, body).code == 101
    assert gateway.stop() == 0
    carrier.misbehave("none")
    return customer, body


def books_of(store: Store, caller: Caller) -> Books:
    """The books, which must add up."""

    async def work(database: Database) -> Books:
        entries: list[Entry] = []
        balances = None
        # A gateway may be settling something between the two: then they are read again.
        while balances != (balances := await list_balances(database, caller.account_id)):
            entries = await newest_entries(database, caller.account_id, "credits", 1_000_000)
        (balance,) = balances
        entries = list(reversed(entries))
        assert sum(entry.amount for entry in entries) == balance.amount
        charged = -sum(entry.amount for entry in entries if entry.kind == "charge")
        assert charged == balance.posted
        kinds = [entry.kind for entry in entries]
        return Books(balance.amount, balance.held, balance.posted, kinds)

    return store.do(work)


def eventually(look: Callable[[], T], is_so: Callable[[T], bool]) -> T:
    """What is seen once it is so; fails if it never is."""
    ends_at_s = time.monotonic() + _PATIENCE_S
    while not is_so(seen := look()):
        assert time.monotonic() < ends_at_s, f"it never came to be: {seen}"
        time.sleep(0.02)
    return seen
