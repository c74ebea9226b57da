"""Acts that are done together: each is there with its charge or not at all, as if it were alone."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace
from sqlalchemy import func, select

from tests.ledger.charging_bench import Bench
from tests.ledger.test_acts import KEY, Outcome, act, is_done
from tests.support.any_rows import ADD
from tests.support.stores import Store
from tollway.contract.reasons import Reason, Refusal
from tollway.ledger.accounts import open_account
from tollway.ledger.charge_postgresql import post_acts
from tollway.ledger.charge_transaction import post_charges
from tollway.ledger.charges import (
    Act,
    ActResult,
    Charge,
    GrantKey,
    JointAct,
    OverLimitError,
    ShortageError,
    Together,
)
from tollway.ledger.entries import newest_entries, top_up
from tollway.ledger.joint_acts import alone, is_joint
from tollway.ledger.runtime import Runtime
from tollway.ledger.token_limits import DayCap
from tollway.store.database import Database, StoreUnavailableError, Transaction
from tollway.store.key_file import SealError
from tollway.store.query import Query

RUNTIME = Runtime()


class Group:
    """Does what is asked for by name; how often it was called, and with how many."""

    def __init__(
        self,
        *,
        left_out: Sequence[str] = (),
        unpaid: Sequence[str] = (),
        error: Exception | None = None,
    ) -> None:
        self.sizes: list[int] = []
        self._left_out = left_out
        self._unpaid = unpaid
        self._error = error

    async def together(
        self, transaction: Transaction, charges: Sequence[Charge]
    ) -> list[ActResult | None]:
        self.sizes.append(len(charges))
        # So that a group that is tried for ever fails.
        assert len(self.sizes) < 10
        results: list[ActResult | None] = []
        for charge in charges:
            assert isinstance(charge.act, JointAct)
            name = charge.act.asked
            if name in self._left_out:
                results.append(None)
                continue
            await transaction.execute(ADD, product_id=name)
            results.append(ActResult(b"together", is_paid=name not in self._unpaid))
        if self._error is not None:
            raise self._error
        return results

    def act(self, name: str, error: Exception | None = None) -> JointAct:
        return JointAct(act(name, error=error), self.together, name)


def test_many_are_done_at_once_and_each_is_charged(
    store: Store, new_name: Callable[[], str]
) -> None:
    names, group = [new_name() for _ in range(5)], Group()
    outcome = Outcome(store, names[0], 100, [group.act(name) for name in names])
    assert group.sizes == [5]
    assert [outcome.results[nth] for nth in range(5)] == [ActResult(b"together", True)] * 5
    assert outcome.left == 50 and len(outcome.charged) == 5 and outcome.is_sound()
    assert all(is_done(store, name) for name in names)


def test_what_the_balance_does_not_cover_is_undone_and_the_rest_is_done(
    store: Store, new_name: Callable[[], str]
) -> None:
    names, group = [new_name() for _ in range(5)], Group()
    outcome = Outcome(store, names[0], 29, [group.act(name) for name in names])
    assert group.sizes == [5, 2]
    refused = [outcome.results[nth] for nth in (2, 3, 4)]
    assert [each.left for each in refused if isinstance(each, ShortageError)] == [9] * 3
    assert (outcome.left, len(outcome.charged)) == (9, 2) and outcome.is_sound()
    assert [is_done(store, name) for name in names] == [True, True, False, False, False]


def test_if_the_balance_covers_none_nothing_is_tried_again(
    store: Store, new_name: Callable[[], str]
) -> None:
    names, group = [new_name() for _ in range(3)], Group()
    outcome = Outcome(store, names[0], 9, [group.act(name) for name in names])
    assert group.sizes == [3]
    assert {type(outcome.results[nth]) for nth in range(3)} == {ShortageError}
    assert (outcome.left, outcome.charged) == (9, []) and outcome.is_sound()
    assert not any(is_done(store, name) for name in names)


def test_an_error_of_the_database_fails_the_whole_batch(
    store: Store, new_name: Callable[[], str]
) -> None:
    names, group = [new_name() for _ in range(3)], Group(error=StoreUnavailableError("disk full"))
    with pytest.raises(StoreUnavailableError):
        Outcome(store, names[0], 100, [group.act(name) for name in names])
    assert group.sizes == [3]
    assert not any(is_done(store, name) for name in names)


def test_one_that_is_left_out_is_done_alone(store: Store, new_name: Callable[[], str]) -> None:
    names = [new_name() for _ in range(3)]
    group = Group(left_out=names[1:2])
    outcome = Outcome(store, names[0], 100, [group.act(name) for name in names])
    answers = [b"together", b"{}", b"together"]
    assert [outcome.results[nth] for nth in range(3)] == [ActResult(each, True) for each in answers]
    assert outcome.left == 70 and outcome.is_sound()
    assert all(is_done(store, name) for name in names)


def test_one_that_is_not_to_be_paid_is_done_for_nothing(
    store: Store, new_name: Callable[[], str]
) -> None:
    names = [new_name() for _ in range(3)]
    group = Group(unpaid=names[1:2])
    outcome = Outcome(store, names[0], 20, [group.act(name) for name in names])
    assert group.sizes == [3]
    assert [outcome.results[nth] for nth in range(3)] == [
        ActResult(b"together", is_paid) for is_paid in (True, False, True)
    ]
    assert (outcome.left, outcome.charged) == (0, [f"{names[0]}.0", f"{names[0]}.2"])
    assert outcome.is_sound()
    assert all(is_done(store, name) for name in names)


def test_the_owner_of_a_grant_sees_how_many_records_each_had_and_those_that_go_on_once(
    store: Store, new_name: Callable[[], str]
) -> None:
    done, repeated, goes_on = names = [new_name() for _ in range(3)]
    results: list[ActResult | None] = []

    async def later() -> Act:
        return act(goes_on)

    async def together(_: Transaction, __: Sequence[Charge]) -> list[ActResult | None]:
        return results

    results = [
        ActResult(b"four", is_paid=True),
        ActResult(b"three", is_paid=False, replay_of="first"),
        ActResult(b"", is_paid=False, then=later),
    ]
    grant = GrantKey("shop", done, "consent")

    async def work(database: Database) -> None:
        account = (await open_account(database, RUNTIME, done)).id
        await top_up(database, RUNTIME, account, "credits", 100)
        charges = [
            Charge(account, "credits", 10, "waybills", name, "tok_x", 0, joint, grant)
            for name in names
            for joint in [JointAct(act(name), together, name)]
        ]
        charges = [replace(each, count_records=len) for each in charges]
        post = post_acts if database.is_shared else post_charges
        await database.write(lambda transaction: post(transaction, charges))
        last = replace(charges[-1], act=await later())
        found = await database.write(lambda transaction: post(transaction, [last]))
        assert found == {0: ActResult(b"{}", True)}

    store.do(work)
    uses = store.run(
        f"SELECT request_id, replay_of, records FROM consent_use WHERE owner_id = '{done}'"
    )
    assert sorted(uses) == sorted([(done, None, 4), (repeated, "first", 5), (goes_on, None, 2)])


def test_one_with_a_key_or_a_cap_is_done_alone() -> None:
    group = Group()
    charge = Charge("acc", "credits", 10, "waybills", "request", "tok_x", 0, group.act("name"))
    cap = DayCap(credits_max=9, calls_max=None, day_at_ms=0)
    assert is_joint(charge)
    assert not is_joint(replace(charge, idempotency_key=KEY))
    assert not is_joint(replace(charge, cap=cap))
    assert not is_joint(replace(charge, idempotency_key=KEY, cap=cap))
    assert not is_joint(replace(charge, act=act("name")))
    assert not is_joint(replace(charge, act=None))


def test_one_that_is_to_be_done_alone_has_only_its_own_act() -> None:
    joint = Group().act("name")
    charge = Charge("acc", "credits", 10, "waybills", "request", "tok_x", 0, joint)
    assert alone(charge) == replace(charge, act=joint.alone)
    for other in (replace(charge, act=act("name")), replace(charge, act=None)):
        assert alone(other) is other


@pytest.mark.parametrize(
    ("error", "is_logged"),
    [
        (ValueError("no such place"), True),
        (Refusal(Reason.CARRIER_UNKNOWN), False),
        (SealError("a record was altered"), False),
    ],
)
def test_an_error_in_the_group_is_the_error_of_the_one_that_fails_alone(
    store: Store,
    new_name: Callable[[], str],
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    is_logged: bool,
) -> None:
    names = [new_name() for _ in range(3)]
    group = Group(error=error)
    acts = [group.act(names[0]), group.act(names[1], error), group.act(names[2]), None]
    outcome = Outcome(store, names[0], 100, acts)
    assert outcome.results[1] is error
    assert outcome.charged == [f"{names[0]}.{nth}" for nth in (3, 0, 2)]
    # With its trace, unless that one is to blame: otherwise a group that always fails is only slow.
    traces = [(each.message, each.exc_info[1]) for each in caplog.records if each.exc_info]
    assert traces == [("3 acts could not be done together", error)] * is_logged
    assert outcome.left == 70 and outcome.is_sound()
    assert [is_done(store, name) for name in names] == [True, False, True]


def test_one_whose_row_is_stored_already_fails_alone(
    store: Store, new_name: Callable[[], str]
) -> None:
    names, group, known = [new_name() for _ in range(3)], Group(), new_name()
    Outcome(store, known, 10, [act(known)])
    acts = [group.act(names[0]), group.act(known), act(names[1]), act(known), act(names[2])]
    outcome = Outcome(store, names[0], 100, acts)
    assert [nth for nth in range(5) if isinstance(outcome.results[nth], Exception)] == [1, 3]
    assert outcome.left == 70 and outcome.is_sound()
    assert all(is_done(store, name) for name in names)


@pytest.mark.postgresql
def test_on_a_server_one_that_another_writer_was_faster_than_is_tried_again(
    store: Store, new_name: Callable[[], str], engine: str
) -> None:
    name, known, tries = new_name(), new_name(), []
    Outcome(store, known, 10, [act(known)])

    async def work(transaction: Transaction, _: Charge) -> ActResult:
        tries.append(name)
        # At the second look it finds what the other has stored.
        if len(tries) == 1:
            await transaction.execute(ADD, product_id=known)
        return ActResult(b"found", is_paid=True)

    outcome = Outcome(store, name, 100, [work, act(name)])
    assert outcome.results == {0: ActResult(b"found", True), 1: ActResult(b"{}", True)}
    assert (len(tries), outcome.left) == (2, 80) and outcome.is_sound()


def test_acts_of_two_kinds_are_two_groups(store: Store, new_name: Callable[[], str]) -> None:
    names, groups = [new_name() for _ in range(4)], (Group(), Group())
    acts = [groups[nth % 2].act(name) for nth, name in enumerate(names)]
    outcome = Outcome(store, names[0], 100, [*acts, None])
    assert [group.sizes for group in groups] == [[2], [2]]
    assert outcome.left == 50 and outcome.is_sound()


def _limited(account: str, together: Together, name: str, limit: int) -> Charge:
    joint = JointAct(act(name), together, name)
    return Charge(account, "credits", 10, "waybills", name, "tok_x", 0, joint, limit=limit)


@pytest.mark.postgresql
def test_on_a_server_those_beyond_the_limit_of_all_nodes_are_undone(
    store: Store, new_name: Callable[[], str]
) -> None:
    names, group = [new_name() for _ in range(6)], Group()

    async def work(database: Database) -> list[object]:
        account = (await open_account(database, RUNTIME, names[0])).id
        await top_up(database, RUNTIME, account, "credits", 1000)
        charges = [_limited(account, group.together, name, 4) for name in names]
        results = await database.write(lambda transaction: post_acts(transaction, charges))
        return [results[nth] for nth in range(len(names))]

    results = store.do(work)
    assert results[:4] == [ActResult(b"together", True)] * 4
    assert all(isinstance(each, OverLimitError) for each in results[4:])
    assert [is_done(store, name) for name in names] == [True] * 4 + [False] * 2
    assert group.sizes == [6, 4]


@pytest.mark.postgresql
def test_on_a_server_one_that_is_done_alone_counts_once_against_the_limit(
    store: Store, new_name: Callable[[], str]
) -> None:
    names = [new_name() for _ in range(4)]
    group = Group(left_out=names[3:])

    async def work(database: Database) -> list[object]:
        account = (await open_account(database, RUNTIME, names[0])).id
        await top_up(database, RUNTIME, account, "credits", 1000)
        charges = [_limited(account, group.together, name, 4) for name in names]
        results = await database.write(lambda transaction: post_acts(transaction, charges))
        return [results[nth] for nth in range(len(names))]

    assert all(isinstance(each, ActResult) for each in store.do(work))
    assert all(is_done(store, name) for name in names)


@pytest.mark.postgresql
def test_on_a_server_one_that_is_done_alone_is_entered_later_than_those_before_it(
    store: Store, new_name: Callable[[], str]
) -> None:
    names = [new_name() for _ in range(3)]
    group = Group(left_out=names[2:])

    async def slowly(
        transaction: Transaction, charges: Sequence[Charge]
    ) -> Sequence[ActResult | None]:
        # By the database's clock, which all entries have their moments from.
        await transaction.fetch_all(Query(select(func.pg_sleep(0.02))))
        return await group.together(transaction, charges)

    async def work(database: Database) -> list[int]:
        account = (await open_account(database, RUNTIME, names[0])).id
        await top_up(database, RUNTIME, account, "credits", 1000)
        charges = [
            Charge(account, "credits", 10, "waybills", name, "tok_x", 0, joint)
            for name in names
            for joint in [JointAct(act(name), slowly, name)]
        ]
        await database.write(lambda transaction: post_acts(transaction, charges))
        newest = await newest_entries(database, account, "credits", 3)
        assert [entry.request_id for entry in newest] == names[::-1]
        return [entry.at_ms for entry in newest]

    moments_ms = store.do(work)
    assert moments_ms == sorted(moments_ms, reverse=True)


@pytest.mark.postgresql
async def test_on_a_server_a_batch_of_many_takes_one_along_that_is_done_alone(
    database: Database, new_name: Callable[[], str]
) -> None:
    names, group, last = [new_name() for _ in range(20)], Group(), new_name()
    bench = await _bench(database, names[0])
    bench.database.gate.clear()
    many = [bench.settle(nth, act=group.act(name)) for nth, name in enumerate(names)]
    await bench.database.has_begun.wait()
    one = bench.settle(len(names), act=act(last))
    bench.database.gate.set()
    await asyncio.gather(*many, one)
    assert bench.database.commits == 1 and group.sizes == [20]
    assert await bench.left() == 100 - 21


@pytest.mark.postgresql
def test_on_a_server_no_transaction_does_more_than_a_few_of_those_that_are_left_out(
    store: Store, new_name: Callable[[], str]
) -> None:
    names = [new_name() for _ in range(41)]
    group, done = Group(left_out=names), []

    async def work(database: Database) -> None:
        bench = await _bench(database, names[0])

        def noted(nth: int) -> JointAct:
            async def work(_: Transaction, __: Charge) -> ActResult:
                done.append((bench.database.commits, nth))
                return ActResult(b"{}", is_paid=True)

            return JointAct(work, group.together, names[nth])

        bench.database.slow_commit.clear()
        many = [bench.settle(nth, act=noted(nth)) for nth in range(40)]
        await asyncio.to_thread(bench.database.has_worked.wait)
        # It does not overtake those that came before.
        last = bench.settle(40, act=noted(40))
        bench.database.slow_commit.set()
        await asyncio.gather(*many, last)
        assert done == [(1 + nth // 16, nth) for nth in range(41)]
        # Those that were put back are not tried together again.
        assert group.sizes == [40, 1] and await bench.left() == 100 - 41

    store.do(work)


async def _bench(database: Database, name: str) -> Bench:
    account = (await open_account(database, RUNTIME, name)).id
    await top_up(database, RUNTIME, account, "credits", 100)
    return Bench(database, account)
