"""The reads that owners of grants see, by themselves: how they are added, and how they go."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.stores import Store
from tollway.ledger import consent_uses
from tollway.ledger.archiving import NO_END_MS
from tollway.ledger.charges import GrantKey
from tollway.ledger.consent_uses import OLD_GRANTS, OLD_USES, add_uses, use_of
from tollway.ledger.entries import add_entries
from tollway.store.database import Transaction

GRANT = GrantKey("shop", "s1", "con_1")
# Others that share all but one part with it.
OTHERS = [
    GrantKey("user", "s1", "con_1"),
    GrantKey("shop", "s2", "con_1"),
    GrantKey("shop", "s1", "con_2"),
]
BEFORE_MS = 1000


class Reads:
    """A database with reads, and with entries of some of their charges."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, grant: GrantKey, **times_ms: int) -> None:
        """Adds a read for each request, at its moment."""
        uses = [use_of(grant, name, at_ms, "orders") for name, at_ms in times_ms.items()]
        self._store.do(lambda database: database.write(lambda tx: add_uses(tx, uses)))

    def charge(self, request_id: str, at_ms: int, kind: str = "charge") -> None:
        """Adds the entry of a request's charge."""

        async def work(transaction: Transaction) -> None:
            entry = ("acc", "credits", 1, kind, -1, 0, at_ms, "orders", request_id, "t", None)
            await add_entries(transaction, [entry])

        self._store.do(lambda database: database.write(work))

    def make_grants(self, *grants: GrantKey) -> None:
        """Makes grants, as far as their reads need them."""
        for kind, owner, consent in ((g.owner_kind, g.owner_id, g.consent_id) for g in grants):
            self._store.run(
                "INSERT INTO consent VALUES "
                f"('{kind}', '{owner}', '{consent}', 'acc', 's', 'owner', 0, NULL, NULL, NULL, "
                "NULL)"
            )

    def remove(self, grant: GrantKey = GRANT, most: int = 100) -> int:
        return self._store.do(
            lambda database: database.write(
                lambda tx: consent_uses.remove_old(tx, most, grant=grant, before_ms=BEFORE_MS)
            )
        )

    def left(self, grant: GrantKey = GRANT) -> str:
        """The requests whose reads are there still, each named by one letter."""
        rows = self._store.run(
            "SELECT request_id FROM consent_use WHERE "
            f"owner_kind = '{grant.owner_kind}' AND owner_id = '{grant.owner_id}' "
            f"AND consent_id = '{grant.consent_id}' ORDER BY request_id"
        )
        return "".join(name for (name,) in rows)

    def old_grants(self) -> Sequence[GrantKey]:
        rows = self._store.do(
            lambda database: database.fetch_long(OLD_GRANTS, before_ms=BEFORE_MS, now_ms=NO_END_MS)
        )
        return [GrantKey(*row) for row in rows]

    def old_uses(self) -> int:
        ((uses,),) = self._store.do(
            lambda database: database.fetch_long(OLD_USES, before_ms=BEFORE_MS)
        )
        return int(uses)

    def of_month(self, from_ms: int, to_ms: int) -> int | None:
        return self._store.do(
            lambda database: database.write(
                lambda tx: consent_uses.uses_of_month(tx, from_ms, to_ms)
            )
        )


@pytest.fixture
def own_store(tmp_path: Path) -> Store:
    """An empty database for one test alone: what is old is so for all."""
    return Store(tmp_path / "reads.db")


@pytest.fixture
def reads(own_store: Store) -> Reads:
    return Reads(own_store)


def test_a_read_is_recorded_with_all_that_its_owner_sees(own_store: Store) -> None:
    uses = [
        use_of(GRANT, "r1", 5, "orders"),
        use_of(OTHERS[0], "r2", 6, "waybills", replay_of="r1", records=4),
    ]
    own_store.do(lambda database: database.write(lambda tx: add_uses(tx, [])))
    own_store.do(lambda database: database.write(lambda tx: add_uses(tx, uses)))
    assert own_store.run("SELECT * FROM consent_use ORDER BY request_id") == [
        ("shop", "s1", "con_1", "r1", 5, "orders", None, None),
        ("user", "s1", "con_1", "r2", 6, "waybills", "r1", 4),
    ]


def test_reads_of_one_grant_go_if_they_are_old(reads: Reads) -> None:
    for grant in (GRANT, *OTHERS):
        reads.add(grant, a=1, b=2, c=BEFORE_MS - 1, d=BEFORE_MS, e=BEFORE_MS + 1)
    assert reads.remove() == 3
    assert reads.left() == "de"
    assert reads.remove() == 0
    assert [reads.left(grant) for grant in OTHERS] == ["abcde"] * 3


def test_the_oldest_reads_go_first_so_many_at_a_time(reads: Reads) -> None:
    reads.add(GRANT, b=2, d=4, a=1, e=5, c=3)
    assert (reads.remove(most=1), reads.left()) == (1, "bcde")
    assert (reads.remove(most=3), reads.left()) == (3, "e")
    assert (reads.remove(most=3), reads.left()) == (1, "")
    assert reads.remove(most=3) == 0


def test_a_read_stays_as_long_as_the_entry_of_its_charge_and_so_do_later_ones(
    reads: Reads,
) -> None:
    reads.add(GRANT, a=1, b=2, c=3, d=4)
    reads.charge("c", 3)
    assert (reads.remove(), reads.left()) == (2, "cd")
    assert (reads.remove(), reads.left()) == (0, "cd")


def test_a_read_does_not_stay_for_the_refund_of_its_call(reads: Reads) -> None:
    reads.add(GRANT, a=1)
    reads.charge("a", 3, "top_up")
    assert (reads.remove(), reads.left()) == (1, "")


@pytest.mark.parametrize("at_ms", [BEFORE_MS, BEFORE_MS + 1])
def test_later_reads_stay_with_one_that_is_not_old(reads: Reads, at_ms: int) -> None:
    # The clocks of nodes differ a little, so a later request may have an earlier moment.
    reads.add(GRANT, a=1, b=at_ms, c=3)
    assert (reads.remove(), reads.left()) == (1, "bc")


def test_grants_have_old_reads_if_their_oldest_is_old(reads: Reads) -> None:
    unused, young = GrantKey("shop", "s1", "con_5"), GrantKey("shop", "s1", "con_6")
    old = [
        GrantKey("shop", "s1", "con_1"),
        GrantKey("shop", "s1", "con_3"),
        GrantKey("shop", "s2", "con_2"),
        GrantKey("user", "s1", "con_4"),
    ]
    reads.make_grants(unused, young, *reversed(old))
    reads.add(young, a=BEFORE_MS, b=1)
    for grant in old:
        reads.add(grant, a=BEFORE_MS - 1, b=BEFORE_MS)
    assert reads.old_grants() == old


def test_old_reads_of_all_grants_are_counted(reads: Reads) -> None:
    assert reads.old_uses() == 0
    reads.add(GRANT, a=1, b=BEFORE_MS - 1, c=BEFORE_MS)
    reads.add(OTHERS[0], a=2, b=BEFORE_MS + 1)
    assert reads.old_uses() == 3


def test_the_reads_of_a_month_are_counted_once_its_entries_are_gone(reads: Reads) -> None:
    reads.add(GRANT, a=1999, b=2000, c=2001, d=2999, e=3000)
    reads.add(OTHERS[1], f=2500)
    reads.charge("e", 3000)
    assert reads.of_month(2000, 3000) == 4
    assert reads.of_month(5000, 5001) is None
    assert reads.of_month(0, 1000) == 0


@pytest.mark.parametrize("at_ms", [1, 2999])
def test_a_month_waits_for_entries_of_it_and_of_earlier_ones(reads: Reads, at_ms: int) -> None:
    reads.add(GRANT, a=2000)
    reads.charge("a", at_ms)
    assert reads.of_month(2000, 3000) is None
