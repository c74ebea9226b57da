"""Which accounts changed since a version of the directory: never fewer than did."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.stores import Store
from tollway.store.cache_versions import Versions, changed_accounts, directory_changed
from tollway.store.database import Database, Transaction

ACCOUNTS = st.sampled_from(["acc_1", "acc_2", "acc_333", ""])


def latest(changes: list[str], first: int = 0) -> str:
    lines = [f"{first + nth + 1} {first + nth} {each}\n" for nth, each in enumerate(changes)]
    return "".join(reversed(lines))


@given(st.lists(ACCOUNTS, max_size=8), st.integers(0, 8), st.integers(0, 200))
def test_all_that_changed_are_named_or_none(changes: list[str], since: int, most: int) -> None:
    since = min(since, len(changes))
    found = changed_accounts(latest(changes)[:most], since, len(changes))
    later = changes[since:]
    if found is not None:
        assert found == set(later) and later
    elif most >= len(latest(changes)):
        assert "" in later or not later


def test_a_change_that_is_not_named_may_be_of_any_account() -> None:
    assert changed_accounts(latest(["acc_1", "acc_2"]), 0, 3) is None
    assert changed_accounts(latest(["acc_1"], 5) + latest(["acc_2"]), 0, 6) is None
    assert changed_accounts("", 0, 1) is None


def test_of_many_changes_the_latest_are_named(own_store: Store) -> None:
    async def change(database: Database, about: str) -> None:
        async def work(transaction: Transaction) -> None:
            await directory_changed(transaction, about)

        await database.write(work)

    async def work(database: Database) -> None:
        versions = Versions(database)
        await versions.refresh()
        first = versions.directory
        for nth in range(3):
            await change(database, f"acc_{nth}")
        await versions.refresh()
        assert versions.accounts_changed_since(first) == {"acc_0", "acc_1", "acc_2"}
        for nth in range(60):
            await change(database, f"acc_{nth}")
        await versions.refresh()
        assert versions.accounts_changed_since(first) is None
        last = versions.directory
        await change(database, "")
        await versions.refresh()
        assert versions.accounts_changed_since(last) is None

    own_store.do(work)
    assert len(own_store.run("SELECT latest_changes FROM version")[0][0]) == 2000
