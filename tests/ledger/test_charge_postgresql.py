"""Settling in one round trip does what posting in a transaction does: the same outcomes and rows.

The same random batches go to both engines. A function that is wrong must be seen.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from time import monotonic_ns
from typing import NamedTuple

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import bindparam

from tests.ledger.test_charge_transaction import OPEN_BALANCE
from tests.support import engines
from tests.support.functions import change_function
from tests.support.stores import Store
from tollway.ledger.charge_postgresql import post_acts, post_waiting_for_locks
from tollway.ledger.charge_transaction import AlreadyAnswered, ChargeResults, post_charges
from tollway.ledger.charges import (
    ActResult,
    Charge,
    GrantKey,
    IdempotencyKey,
    OverLimitError,
    ShortageError,
)
from tollway.ledger.idempotency import KeptAnswer
from tollway.store.database import Database, Row, StoreError, StoreUnavailableError, Transaction
from tollway.store.query import Query
from tollway.store.schema.ledger import idempotency_key

pytestmark = pytest.mark.postgresql
ACCOUNTS, UNITS = ("a", "b", "Ω"), ("credits", "calls:orders")
RESERVE = Query(
    idempotency_key.insert().values({c.name: bindparam(c.name) for c in idempotency_key.c})
)
_runs = count()


class ChargeSpec(NamedTuple):
    """A call in a batch."""

    account: str
    unit: str
    amount: int
    key: str | None
    owner: str | None


SPECS = st.builds(
    ChargeSpec,
    st.sampled_from(ACCOUNTS),
    st.sampled_from(UNITS),
    st.integers(0, 9),
    st.none() | st.none() | st.sampled_from(["k1", "k2", "k 3"]),
    st.none() | st.sampled_from(["shop 1", "shop 2"]),
)
BATCHES = st.lists(st.lists(SPECS, min_size=1, max_size=20), min_size=1, max_size=3)
OPENINGS = st.dictionaries(
    st.tuples(st.sampled_from(ACCOUNTS), st.sampled_from(UNITS)), st.integers(0, 40)
)
# All but the times: each engine has its own clock.
ROWS = (
    "SELECT account_id, unit, amount, held, posted, entries FROM balance {} ORDER BY 1, 2",
    "SELECT account_id, unit, number, kind, amount, balance_after, operation, request_id, token_id,"
    " note FROM entry {} ORDER BY 1, 2, 3",
    "SELECT account_id, key, request_id, fingerprint, sealed FROM idempotency_key {} ORDER BY 1, 2",
)
USES = (
    "SELECT owner_kind, owner_id, consent_id, request_id, operation, replay_of FROM consent_use "
    "WHERE request_id LIKE '{}.%' ORDER BY 1, 2, 3, 4"
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Store]]:
    folder = tmp_path_factory.mktemp("pair")
    shared = Store(folder / "shared.db")
    engines.use("sqlite")
    alone = Store(folder / "alone.db")
    engines.use("postgresql")
    yield alone, shared


def charge_of(spec: ChargeSpec, account_id: str, request_id: str) -> Charge:
    grant = spec.owner and GrantKey("shop", spec.owner, "con_1")
    idempotency_key = None
    if spec.key is not None:
        data = f"answer to {request_id}".encode()
        asked = b"print of " + data
        idempotency_key = IdempotencyKey(
            spec.key, asked, asked.__eq__, lambda data: b"sealed " + data, data
        )
    return Charge(
        account_id,
        spec.unit,
        spec.amount,
        "orders",
        request_id,
        "tok_x",
        1_900_000_000_000,
        grant=grant or None,
        idempotency_key=idempotency_key,
        replay_of="an earlier one" if spec.amount == 0 and spec.key is None else None,
    )


def comparable(results: ChargeResults) -> dict[int, object]:
    """The results in a form that can be compared; a plain call that was posted has none."""
    outcomes: dict[int, object] = {}
    for position, result in results.items():
        if isinstance(result, AlreadyAnswered):
            outcomes[position] = result.kept
        elif isinstance(result, Exception):
            assert isinstance(result, ShortageError), result
            outcomes[position] = result.left
    return outcomes


def run(
    store: Store,
    name: str,
    openings: dict[tuple[str, str], int],
    batches: list[list[ChargeSpec]],
) -> list[object]:
    async def work(database: Database) -> list[object]:
        async def open_all(transaction: Transaction) -> None:
            for (account, unit), amount in openings.items():
                values = {"account_id": f"{name}{account}", "unit": unit, "amount": amount}
                await transaction.execute(OPEN_BALANCE, **values, held=0, posted=0, entries=0)

        await database.write(open_all)
        outcomes: list[object] = []
        for nth, batch in enumerate(batches):
            charges = [
                charge_of(spec, f"{name}{spec.account}", f"{name}.{nth}.{position:03}")
                for position, spec in enumerate(batch)
            ]
            if database.is_shared:
                results = await post_waiting_for_locks(database, charges)
            else:
                results = await database.write(lambda tx, batch=charges: post_charges(tx, batch))
            outcomes.append(comparable(results))
        return outcomes

    outcomes = store.do(work)
    where = f"WHERE account_id LIKE '{name}%'"
    rows = [store.run(each.format(where)) for each in ROWS]
    return [outcomes, *rows, store.run(USES.format(name))]


Check = Callable[[dict[tuple[str, str], int], list[list[ChargeSpec]]], None]


@pytest.fixture(scope="module")
def check(pair: tuple[Store, Store]) -> Check:
    def same(openings: dict[tuple[str, str], int], batches: list[list[ChargeSpec]]) -> None:
        name = f"{next(_runs):05}"
        alone, shared = (run(store, name, openings, batches) for store in pair)
        for one, other in zip(alone, shared, strict=True):
            assert one == other

    return same


@settings(max_examples=20)
@given(openings=OPENINGS, batches=BATCHES)
def test_any_batches_come_out_the_same(
    check: Check, openings: dict[tuple[str, str], int], batches: list[list[ChargeSpec]]
) -> None:
    check(openings, batches)


def test_so_does_a_batch_of_the_largest_size(check: Check) -> None:
    batch = [
        ChargeSpec(
            ACCOUNTS[number % 3],
            UNITS[number % 2],
            number % 7,
            f"k{number}" if number % 5 == 0 else None,
            "shop 1" if number % 3 else None,
        )
        for number in range(512)
    ]
    check({("a", "credits"): 300, ("b", "calls:orders"): 10}, [batch, batch])


def test_a_key_that_is_reserved_is_taken_for_what_is_settled_at_once(
    pair: tuple[Store, Store],
) -> None:
    row = ("reserved a", "k1", "the holder", 1_900_000_000_000, b"another", b"")

    async def reserve(database: Database) -> None:
        await database.write(lambda tx: tx.execute_many(RESERVE, [row]))

    for store in pair:
        store.do(reserve)
        key_charges = [
            ChargeSpec("a", "credits", 1, "k1", None),
            ChargeSpec("a", "credits", 1, "k2", None),
        ]
        outcomes, ((*_, amount, _, posted, _),), *_ = run(
            store, "reserved ", {("a", "credits"): 9}, [key_charges]
        )
        assert outcomes == [{0: KeptAnswer("the holder", b"another", b"")}]
        assert (amount, posted) == (8, 1)


MIXED = [
    ChargeSpec("a", "credits", 3, None, None),
    ChargeSpec("a", "credits", 3, "k1", "shop 1"),
    ChargeSpec("a", "credits", 9, None, None),
    ChargeSpec("a", "credits", 1, "k1", "shop 1"),
]


@pytest.mark.parametrize(
    "fault",
    [
        ("amounts_left[b] < amounts[i]", "amounts_left[b] < 0"),
        ("amounts_after[i] := amounts_left[b]", "amounts_after[i] := 0"),
        ("WHERE number IS NOT NULL", "WHERE number > 1"),
        ("WHERE idempotency_key.at_ms > now_ms - kept_ms", "WHERE false"),
        ("WHERE owner_kind IS NOT NULL AND outcome IS NULL", "WHERE false"),
    ],
)
def test_a_function_that_does_it_wrong_turns_the_check_red(
    tmp_path: Path, fault: tuple[str, str]
) -> None:
    shared = Store(tmp_path / "wrong.db")
    engines.use("sqlite")
    alone = Store(tmp_path / "right.db")
    engines.use("postgresql")
    openings, batches = {("a", "credits"): 8}, [MIXED[:3], MIXED[3:]]
    assert run(alone, "one", openings, batches) == run(shared, "one", openings, batches)
    change_function(shared, "tollway_charge", fault)
    try:
        wrong = run(shared, "two", openings, batches)
    except (StoreError, asyncpg.IntegrityConstraintViolationError):
        return  # The database itself would not have it.
    assert run(alone, "two", openings, batches) != wrong


class CutOff:
    """A database that fails after the first statement."""

    def __init__(self, inner: Database, error: Exception) -> None:
        self._inner = inner
        self._error = error
        self._times = count(1)

    async def write_statement(self, query: Query, **values: object) -> Sequence[Row]:
        if next(self._times) > 1:
            raise self._error
        return await self._inner.write_statement(query, **values)


@pytest.mark.parametrize(
    "error", [StoreUnavailableError("cut off"), RuntimeError("can't start new thread")]
)
def test_what_was_committed_before_the_rest_failed_has_not_failed(
    store: Store, error: Exception
) -> None:
    """A key that occurs twice splits a batch into two statements."""
    name = f"cut off {next(_runs)}"
    spec = ChargeSpec(name, "credits", 0, "k1", None)
    charges = [charge_of(spec, name, f"{name}.{number}") for number in range(3)]
    results = store.do(
        lambda database: post_waiting_for_locks(CutOff(database, error), charges)  # type: ignore[arg-type]
    )
    assert [results.get(position) for position in range(3)] == [None, error, error]
    kept = store.run(f"SELECT request_id FROM idempotency_key WHERE account_id = '{name}'")
    assert kept == [(f"{name}.0",)]


def test_an_act_beyond_the_limit_is_not_done(store: Store) -> None:
    name, done = f"limited {next(_runs)}", []

    async def act(_: Transaction, charge: Charge) -> ActResult:
        done.append(charge.request_id)
        return ActResult(b"{}", is_paid=True)

    charges = [
        Charge(name, "credits", 0, "waybills", f"{name}.{number}", "tok_x", 0, act, limit=1)
        for number in range(2)
    ]
    before_ns = monotonic_ns()
    results = store.do(lambda database: database.write(lambda tx: post_acts(tx, charges)))
    refused = results[1]
    assert isinstance(results[0], ActResult) and isinstance(refused, OverLimitError)
    wait_ns = round(refused.wait_s * 1_000_000) * 1000
    assert 0 < wait_ns <= 1_000_000_000
    assert before_ns + wait_ns <= refused.until_ns <= monotonic_ns() + wait_ns
    assert done == [f"{name}.0"]
