"""What is kept of the grants between accounts and owners, and until when."""

from tests.support.consent import PASSWORD, allow, new_asker, new_person
from tests.support.ledger import RUNTIME
from tests.support.stores import Store
from tollway.consent.grant_cache import GrantCache
from tollway.consent.grants import GrantRequest, give_grant, revoke_grant
from tollway.consent.owners import Owner, add_owner
from tollway.store.cache_versions import Versions
from tollway.store.database import Database


def test_a_change_between_one_account_and_an_owner_leaves_what_is_known_of_the_others(
    store: Store,
) -> None:
    one, other, person = new_asker(store), new_asker(store), new_person(store)
    given = [allow(store, each, person) for each in (one, other)]
    owner = ("user", str(person.id))

    async def work(database: Database) -> None:
        versions = Versions(database)
        kept = GrantCache(database, versions)
        await versions.refresh()
        for each in (one, other):
            assert kept.known(each.account_id, *owner) is None
            assert (await kept.look_up(each.account_id, *owner)).grants
        await revoke_grant(database, RUNTIME, given[0].id)
        await versions.refresh()
        assert kept.known(one.account_id, *owner) is None
        assert not (await kept.look_up(one.account_id, *owner)).grants
        known = kept.known(other.account_id, *owner)
        assert known is not None and known.grants["promotion"].id == given[1].id
        again = GrantRequest(one.account_id, *owner, "promotion")
        await give_grant(database, RUNTIME, again, lifetime_s=60, granted_by="operator")
        await versions.refresh()
        assert kept.known(one.account_id, *owner) is None
        assert kept.known(other.account_id, *owner) is known

    store.do(work)


def test_who_was_unknown_is_looked_up_again_once_an_owner_was_added(store: Store) -> None:
    asker = new_asker(store)
    added = Owner("user", "990001", "周晓", None, "zhou.xiao", 0)

    async def work(database: Database) -> None:
        versions = Versions(database)
        kept = GrantCache(database, versions)
        await versions.refresh()
        assert kept.known(asker.account_id, "user", added.id) is None
        assert not (await kept.look_up(asker.account_id, "user", added.id)).is_known
        await add_owner(database, RUNTIME, added, PASSWORD)
        await versions.refresh()
        assert kept.known(asker.account_id, "user", added.id) is None
        assert (await kept.look_up(asker.account_id, "user", added.id)).is_known

    store.do(work)
