"""What tests of remote carriers share: a connected carrier, and the ledger of a customer."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any, NamedTuple, TypeVar

import httpx
import pytest

from tests.support.fake_carrier import ISSUE, LOOK_UP, SECRET, FakeCarrier
from tests.support.gateway import Gateway
from tests.support.ledger import Caller
from tests.support.stores import Store
from tests.support.waybills import issue, new_customer, request
from tollway.carriers.carrier_links import CarrierLink, connect
from tollway.carriers.carriers import add_carrier
from tollway.ledger.entries import Entry, list_balances, newest_entries
from tollway.store.database import Database
from tollway.store.open import open_sealer

T = TypeVar("T")
_PATIENCE_S = 30
# A link whose deadlines are never felt on a busy machine, and one whose a test can wait for. The
# half of a deadline is for connecting, in which a busy gateway may be held up.
PATIENT = {"deadline_ms": 20_000, "settle_after_s": 60}
HASTY = {"deadline_ms": 2000, "settle_after_s": 60}
_DAY_S = 86_400
_carriers = count(1)


class LedgerState(NamedTuple):
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
    link = CarrierLink(
        wp_code, url or carrier.url, "TOLLWAY", "CODE", deadline_ms, settle_after_s, 0
    )

    async def work(database: Database) -> None:
        await add_carrier(database, wp_code, "远程快递", r"YT\d{13}")
        await connect(database, open_sealer(store.url, store.key_file), link, SECRET)

    store.do(work)
    return wp_code


def left_pending(
    store: Store, carrier: FakeCarrier, fault: str, *, clock_ahead_s: int = 0, **link: Any
) -> tuple[Caller, dict[str, Any]]:
    """A customer with a waybill whose answer never came before the deadline, and no gateway that
    would settle it."""
    customer = new_customer(store)
    whole_link = {**PATIENT, **link}
    body = request(connected_carrier(store, carrier, **whole_link))
    gateway = Gateway(store, clock_ahead_s=clock_ahead_s, reconcile_interval_s=3600)
    carrier.misbehave(fault, message=ISSUE)
    # A carrier that refuses the look-up is not asked again, so no test waits for that deadline.
    carrier.misbehave("refuse", message=LOOK_UP)
    reply = issue(gateway, customer.token, body)
    assert (reply.code, "credits are held" in reply.msg) == (101, True)
    assert gateway.stop() == 0
    carrier.misbehave("none")
    age_past_deadline(store, whole_link["deadline_ms"])
    return customer, body


def age_pending(store: Store, by_s: int = _DAY_S) -> None:
    """As if all that is pending had been asked for a day ago, or as long ago as is said."""
    store.run(f"UPDATE waybill SET asked_at_s = asked_at_s - {by_s} WHERE state = 'pending'")
    store.run(
        f"UPDATE hold SET deadline_at_ms = deadline_at_ms - {by_s * 1000} WHERE state = 'held'"
    )


def age_past_deadline(store: Store, deadline_ms: int) -> None:
    """As if no caller could still wait for what is pending."""
    # The moment of asking is rounded up to whole seconds.
    age_pending(store, deadline_ms // 1000 + 1)


def kill_while_asking(
    gateway: Gateway, carrier: FakeCarrier, caller: Caller, body: object, **headers: str
) -> None:
    """Ends a gateway once the carrier has its message; the carrier must not answer it."""
    before = carrier.received(ISSUE)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(issue, gateway, caller.token, body, **headers)
        eventually(lambda: carrier.received(ISSUE), lambda received: received > before)
        gateway.kill()
        with pytest.raises(httpx.TransportError):
            call.result()
    gateway.stop()


def ledger_of(store: Store, caller: Caller) -> LedgerState:
    """The ledger of a caller, which must add up."""

    async def work(database: Database) -> LedgerState:
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
        return LedgerState(balance.amount, balance.held, balance.posted, kinds)

    return store.do(work)


def eventually(look: Callable[[], T], is_so: Callable[[T], bool]) -> T:
    """What is seen once it is so; fails if it never is."""
    ends_at_s, pause_s = time.monotonic() + _PATIENCE_S, 0.02
    while not is_so(seen := look()):
        assert time.monotonic() < ends_at_s, f"it was never seen: {seen}"
        time.sleep(pause_s)
        # To look takes as long as the first pause: it must not take the time of what is awaited.
        pause_s = min(1.5 * pause_s, 0.2)
    return seen
