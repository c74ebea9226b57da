"""Random batches of calls: everything that a commit can have to do for them."""

import random
from collections.abc import Callable
from datetime import date
from itertools import count
from typing import Any, NamedTuple

from tests.support.all_operations import good_request
from tests.support.ledger import Caller
from tests.support.waybills import request as waybill_request
from tollway.contract.operation import Operation
from tollway.operations.coupon_claims.operation import COUPON_CLAIMS
from tollway.operations.orders.operation import ORDERS
from tollway.operations.product_analysis.operation import PRODUCT_ANALYSIS
from tollway.operations.waybills.operation import WAYBILLS

# How many batches open a connection, which takes as many calls to the disk as all the rest.
_CONNECTS = 1 / 8
_numbers = count(1)


class Call(NamedTuple):
    """One call. Of all calls with the same deed, one is charged."""

    caller: Caller
    operation: Operation
    body: dict[str, Any]
    key: str | None = None
    deed: str | None = None
    # Whether another call wants something else for the same order.
    has_rival: bool = False


class Callers(NamedTuple):
    """Who calls: two with plenty of credits and one with few. And the carriers that are asked."""

    rich: tuple[Caller, ...]
    poor: Caller
    pool: str
    remote: str


# What makes the calls of a kind, each time for other orders and with other keys.
Kind = Callable[[], list[Call]]


class Batch(NamedTuple):
    """Calls that are sent at the same moment. If it `connects`, a connection is opened for them."""

    kinds: list[Kind]
    connects: bool = False

    def calls(self) -> list[Call]:
        return [call for kind in self.kinds for call in kind()]


def random_batch(kinds: "Kinds", chance: random.Random) -> Batch:
    makers = chance.choices(
        (
            kinds.plain,
            kinds.kept,
            kinds.pool,
            kinds.pool_with_key,
            kinds.twins,
            kinds.rivals,
            kinds.remote,
            kinds.poor,
        ),
        k=chance.randint(1, 3),
    )
    return Batch([maker(chance) for maker in makers], chance.random() < _CONNECTS)


class Kinds:
    """The kinds of calls."""

    def __init__(self, callers: Callers, today: date) -> None:
        self._callers = callers
        self._today = today

    def plain(self, chance: random.Random) -> Kind:
        caller, operation = chance.choice(self._callers.rich), self._read(chance)
        times = chance.randint(1, 2)
        return lambda: [self._call(caller, operation)] * times

    def kept(self, chance: random.Random) -> Kind:
        caller, operation = chance.choice(self._callers.rich), self._read(chance)
        times = chance.randint(1, 2)

        def make() -> list[Call]:
            key = f"key {next(_numbers)}"
            return [self._call(caller, operation)._replace(key=key, deed=key)] * times

        return make

    def pool(self, chance: random.Random) -> Kind:
        return self._waybills(chance, self._callers.pool)

    def pool_with_key(self, chance: random.Random) -> Kind:
        return self._waybills(chance, self._callers.pool, has_key=True)

    def twins(self, chance: random.Random) -> Kind:
        return self._waybills(chance, self._callers.pool, times=2, has_key=chance.random() < 0.5)

    def rivals(self, chance: random.Random) -> Kind:
        """Two that want another waybill for the same order: one is refused within its act."""
        make = self._waybills(chance, self._callers.pool, times=2)

        def make_rivals() -> list[Call]:
            first, second = (call._replace(has_rival=True) for call in make())
            return [first, second._replace(body={**second.body, "receiver_name": "李小红"})]

        return make_rivals

    def remote(self, chance: random.Random) -> Kind:
        """Holds its price, asks the carrier, captures."""
        return self._waybills(chance, self._callers.remote, has_key=chance.random() < 0.5)

    def poor(self, chance: random.Random) -> Kind:
        """More than the balance covers."""
        kinds = Kinds(self._callers._replace(rich=(self._callers.poor,)), self._today)
        plain, waybill = kinds.plain(chance), kinds.pool(chance)
        return lambda: [*plain(), *waybill(), *plain()]

    def _waybills(
        self, chance: random.Random, wp_code: str, *, times: int = 1, has_key: bool = False
    ) -> Kind:
        caller = chance.choice(self._callers.rich)

        def make() -> list[Call]:
            body = waybill_request(wp_code)
            deed = str(body["order_sn"])
            return [Call(caller, WAYBILLS, body, deed if has_key else None, deed)] * times

        return make

    def _call(self, caller: Caller, operation: Operation) -> Call:
        return Call(caller, operation, good_request(operation, self._today))

    @staticmethod
    def _read(chance: random.Random) -> Operation:
        return chance.choice((PRODUCT_ANALYSIS, COUPON_CLAIMS, ORDERS))
