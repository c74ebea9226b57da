"""The sliding second that all nodes share, against its definition, with a clock the test moves."""

import asyncio
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.ledger.test_charge_transaction import OPEN_BALANCE
from tests.support.functions import NO_LIMIT, change_function, hold_clock, set_clock
from tests.support.stores import Store
from tollway.ledger.charge_postgresql import post_acts, post_waiting_for_locks
from tollway.ledger.charge_transaction import ChargeResults
from tollway.ledger.charges import ActResult, Charge, OverLimitError
from tollway.store.database import Database, Transaction

pytestmark = pytest.mark.postgresql
SECOND_US = 1_000_000
BEGIN_US = 123_456_789_123
LIMIT = 3
_runs = count()


class Step(NamedTuple):
    """Some time passes, then a node settles a batch: of each operation so many calls."""

    wait_us: int
    calls: int
    operation: str
    limit: int
    is_act: bool


WAITS = (
    st.sampled_from([0, 1, SECOND_US - 1, SECOND_US, SECOND_US + 1, SECOND_US // 2])
    | st.integers(0, 300).map(lambda ms: ms * 1000)
    | st.integers(0, 2 * SECOND_US)
)
STEPS = st.lists(
    st.builds(
        Step, WAITS, st.integers(1, 5), st.sampled_from("pq"), st.integers(1, 4), st.booleans()
    ),
    max_size=15,
)


async def act(_: Transaction, __: Charge) -> ActResult:
    return ActResult(b"", is_paid=True)


async def post(database: Database, charges: list[Charge], *, are_acts: bool) -> ChargeResults:
    if not are_acts:
        return await post_waiting_for_locks(database, charges)
    return await database.write(lambda transaction: post_acts(transaction, charges))


async def check(database: Database, steps: list[Step]) -> None:
    """Never more than the limit in any second, and no refusal while there were fewer."""
    account, now_us = f"run {next(_runs)}", BEGIN_US
    await database.write(
        lambda tx: tx.execute(
            OPEN_BALANCE,
            account_id=account,
            unit="credits",
            amount=10**6,
            held=0,
            posted=0,
            entries=0,
        )
    )
    admitted: defaultdict[str, list[int]] = defaultdict(list)
    for nth, step in enumerate(steps):
        now_us += step.wait_us
        await set_clock(database, now_us)
        charges = [
            Charge(
                account,
                "credits",
                1,
                step.operation,
                f"{account}.{nth}.{call}",
                "tok_x",
                0,
                act if step.is_act else None,
                limit=step.limit,
            )
            for call in range(step.calls)
        ]
        results = await post(database, charges, are_acts=step.is_act)
        for call in range(step.calls):
            times = admitted[step.operation]
            in_last_second = sum(now_us - at < SECOND_US for at in times)
            if isinstance(result := results.get(call), OverLimitError):
                assert in_last_second >= step.limit, "refused although fewer were admitted"
                oldest = min(at for at in times if now_us - at < SECOND_US)
                assert result.wait_s == (oldest + SECOND_US - now_us) / SECOND_US
            else:
                assert in_last_second < step.limit, "admitted over the limit"
                times.append(now_us)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(tmp_path_factory.mktemp("limited") / "limited.db")
    hold_clock(made)
    return made


@settings(max_examples=20)
@given(steps=STEPS)
def test_the_definition_holds(limited: Store, steps: list[Step]) -> None:
    limited.do(lambda database: check(database, steps))


@pytest.mark.parametrize(
    "fault",
    [
        NO_LIMIT,
        ("WHERE one.at > now_us - 1000000", "WHERE one.at >= now_us - 1000000"),
        ("WHERE one.at > now_us - 1000000", "WHERE one.at / 1000000 = now_us / 1000000"),
        ("new.added > 0 OR", "false OR"),
    ],
)
def test_a_limit_that_is_wrong_is_caught(tmp_path: Path, fault: tuple[str, str]) -> None:
    store = Store(tmp_path / "wrong.db")
    hold_clock(store)
    change_function(store, "tollway_charge", fault)

    @settings(
        derandomize=True,
        max_examples=200,
        phases=[Phase.generate],
        database=None,
        report_multiple_bugs=False,
    )
    @given(STEPS)
    def tried(steps: list[Step]) -> None:
        store.do(lambda database: check(database, steps))

    with pytest.raises(AssertionError):
        tried()


def charge(account: str, number: object, **more: object) -> Charge:
    # A free call: there is not even a balance that would hold others off.
    return Charge(account, "credits", 0, "orders", f"r{number}", "tok_x", 0, limit=LIMIT, **more)  # type: ignore[arg-type]


def test_many_at_once_on_connections_of_their_own_are_counted_together(limited: Store) -> None:
    async def work(database: Database) -> int:
        await set_clock(database, BEGIN_US)
        results = await asyncio.gather(
            *(post_waiting_for_locks(database, [charge("many", number)]) for number in range(40))
        )
        return sum(not each for each in results)

    assert limited.do(work) == LIMIT


def test_an_act_that_fails_does_not_count(limited: Store) -> None:
    async def fail(_: Transaction, __: Charge) -> ActResult:
        raise ValueError("as meant")

    async def work(database: Database) -> None:
        await set_clock(database, BEGIN_US)
        for number in range(5):
            failing = [charge("failing", f"f{number}", act=fail)]
            results = await post(database, failing, are_acts=True)
            assert isinstance(results[0], ValueError)
        assert (
            await post_waiting_for_locks(
                database, [charge("failing", f"s{n}") for n in range(LIMIT)]
            )
            == {}
        )

    limited.do(work)


def test_a_clock_that_is_set_back_shuts_no_account_out_for_longer_than_a_second(
    limited: Store,
) -> None:
    async def admitted(database: Database, name: str) -> int:
        results = await post_waiting_for_locks(
            database, [charge("back", f"{name}{n}") for n in range(LIMIT)]
        )
        return LIMIT - len(results)

    async def work(database: Database) -> None:
        await set_clock(database, BEGIN_US)
        assert await admitted(database, "before") == LIMIT
        await set_clock(database, BEGIN_US - 100 * SECOND_US)
        assert await admitted(database, "set back") == 0
        await set_clock(database, BEGIN_US - 99 * SECOND_US)
        assert await admitted(database, "a second later") == LIMIT

    limited.do(work)
