"""How many statements a batch of waybills takes: as many for sixty as for two."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.handlers import result_of
from tests.support.ledger import RUNTIME
from tests.support.stores import Store
from tests.support.waybills import PRICE, load_numbers, new_carrier, new_customer, request
from tollway.carriers.connectors.http_exchange import open_client
from tollway.carriers.connectors.remote_carriers import Remotes
from tollway.carriers.pools import Taken, TakeNumbers, TryAgain, Wanted, take_numbers
from tollway.carriers.reconciling import Reconciler
from tollway.carriers.vault import load_vault
from tollway.contract.decoding import Decoder
from tollway.contract.operation import CallInfo
from tollway.ledger.charge_postgresql import post_acts
from tollway.ledger.charge_transaction import ChargeResults, post_charges
from tollway.ledger.charges import ActResult, Charge, GrantKey, IdempotencyKey, JointAct
from tollway.operations.waybills.handler import WaybillHandler
from tollway.operations.waybills.operation import WaybillRequest
from tollway.operations.waybills.remote_issue import RemoteIssuer
from tollway.store.database import Transaction
from tollway.store.open import OpenDatabase, key_path

STATEMENTS_MAX = 14
WAYBILLS_MADE = 60
KEY = IdempotencyKey("key", b"f", lambda _: True, lambda data: data, None)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Store:
    """Of these tests alone: their consents are made up, which an audit finds."""
    return Store(tmp_path_factory.mktemp("statements") / "tollway.db")


class Counting:
    """A transaction that counts what it is asked to run; the two ends of a savepoint are one."""

    def __init__(self, inner: Transaction) -> None:
        self.is_shared = inner.is_shared
        self._inner = inner
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        self.count += 1
        return getattr(self._inner, name)


def handler_on(
    store: Store, database: OpenDatabase, take: TakeNumbers = take_numbers
) -> WaybillHandler:
    vault, remotes = load_vault(key_path(store.url, store.key_file)), Remotes(open_client())
    issuer = RemoteIssuer(remotes, Reconciler(database, remotes, vault, RUNTIME), vault, RUNTIME)
    return WaybillHandler(database, issuer, vault, RUNTIME, "http://t", take)


def post(
    store: Store, owners: list[str], key: IdempotencyKey | None = None
) -> tuple[int, ChargeResults]:
    """The statements of a batch, one waybill for each of these shops, and its results."""
    customer, wp_code = new_customer(store), new_carrier(store, 2 * WAYBILLS_MADE)
    # Some shops have a pool of their own.
    for nth, owner_id in enumerate(owners[:5]):
        load_numbers(store, wp_code, [f"YT9{nth:012d}"], owner_id)

    async def work(database: OpenDatabase) -> tuple[int, ChargeResults]:
        handler = handler_on(store, database)
        charges = []
        for nth, owner_id in enumerate(owners):
            sent = Decoder(WaybillRequest).decode(request(wp_code, owner_id=owner_id))
            act = await result_of(handler(sent, CallInfo(customer.account_id, PRICE)))
            request_id = f"{wp_code}.{store.url[-4:]}.{nth}"
            grant = GrantKey("shop", owner_id, "consent")
            charges.append(
                Charge(
                    *(customer.account_id, "credits", PRICE, "waybills", request_id, "tok", 0),
                    *(act, grant, key),
                    limit=1000 if database.is_shared else None,
                )
            )

        async def counted(transaction: Transaction) -> tuple[int, ChargeResults]:
            counting: Any = Counting(transaction)
            poster = post_acts if transaction.is_shared else post_charges
            results = await poster(counting, charges)
            return counting.count, results

        return await database.write(counted)

    return store.do(work)


def test_sixty_waybills_of_sixty_shops_take_as_many_statements_as_two(store: Store) -> None:
    few, _ = post(store, ["shop-0", "shop-1"])
    many, results = post(store, [f"shop-{nth}" for nth in range(WAYBILLS_MADE)])
    assert len(results) == WAYBILLS_MADE
    assert all(isinstance(each, ActResult) and each.is_paid for each in results.values())
    # Those without a pool of their own need a second look, at the shared one.
    assert few <= many <= min(few + 2, STATEMENTS_MAX)


def test_control_those_that_are_done_alone_take_several_each(store: Store) -> None:
    many, results = post(store, ["shop-0"], KEY)
    # One is enough to take nearly as many as a whole batch.
    assert len(results) == 1 and many > STATEMENTS_MAX / 2


@pytest.mark.parametrize("key", [None, KEY])
def test_a_call_goes_on_after_a_commit_if_many_numbers_are_on_waybills(
    store: Store, key: IdempotencyKey | None
) -> None:
    """Those that were passed over before stay so: no transaction has to do it again."""
    customer, wp_code = new_customer(store), new_carrier(store, 3)
    sent = Decoder(WaybillRequest).decode(request(wp_code))
    passed_over: list[Taken] = [TryAgain(), TryAgain()]

    async def take(transaction: Transaction, wanted: Sequence[Wanted]) -> Sequence[Taken]:
        found = await take_numbers(transaction, wanted)
        return [passed_over.pop() if passed_over else number for number in found]

    async def work(database: OpenDatabase) -> list[ActResult]:
        handler = handler_on(store, database, take)
        act = await result_of(handler(sent, CallInfo(customer.account_id, PRICE)))
        results: list[ActResult] = []
        while not results or results[-1].then is not None:
            if results:
                act = await results[-1].then()
            named = (customer.account_id, "credits", PRICE, "waybills", f"{wp_code}.on", "tok", 0)
            charge = Charge(*named, act, None, key)
            poster = post_acts if database.is_shared else post_charges
            found = await database.write(lambda to, of=charge, by=poster: by(to, [of]))
            assert isinstance(found[0], ActResult)
            results.append(found[0])
        return results

    *before, last = store.do(work)
    assert [each.is_paid for each in (*before, last)] == [False, False, True]
    issued = store.run(f"SELECT count(*) FROM waybill WHERE wp_code = '{wp_code}'")
    assert issued == [(1,)]


@pytest.mark.sqlite
def test_a_further_parcel_is_among_the_few_that_are_done_alone(store: Store, engine: str) -> None:
    async def work(database: OpenDatabase) -> list[bool]:
        handler = handler_on(store, database)
        bodies = request("YTO"), request("YTO", parentWaybillCode="YT1000000000001")
        asked = [Decoder(WaybillRequest).decode(body) for body in bodies]
        return [
            isinstance(await result_of(handler(each, CallInfo("acc", PRICE))), JointAct)
            for each in asked
        ]

    assert store.do(work) == [True, False]
