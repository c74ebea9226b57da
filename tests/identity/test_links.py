"""Links by which people choose a password: used at the same moment, the first one counts."""

import asyncio
from itertools import count

from tests.support.consent import PASSWORD
from tests.support.ledger import RUNTIME
from tests.support.stores import Store
from tollway.consent.owners import Owner, add_owner, credential_of_login, put_password
from tollway.identity.people import OPERATOR, Role, password_of
from tollway.identity.sign_in_links import invite, new_link, use_link
from tollway.store.database import Database

# At the same moment: whether two transactions meet is a matter of luck.
TRIES = 10
_numbers = count(1)


def test_of_two_first_links_used_at_once_one_chooses_the_password(store: Store) -> None:
    async def work(database: Database) -> None:
        login = f"invited{next(_numbers)}"
        made = await invite(database, RUNTIME, role=Role.OPERATOR, name="Li", login=login)
        again = await new_link(database, RUNTIME, made.person.id, ends_earlier=False)
        chosen = {made.link: "hash of the one", again.link: "hash of the other"}
        used = await asyncio.gather(
            *(use_link(database, link, new, RUNTIME.at_s()) for link, new in chosen.items())
        )
        first = [new for new, person in zip(chosen.values(), used, strict=True) if person]
        stored = await password_of(database, OPERATOR, login)
        assert stored is not None and first == [stored.password_hash]

    for _ in range(TRIES):
        store.do(work)


def test_a_link_of_an_owner_used_twice_at_once_sets_one_password(store: Store) -> None:
    async def work(database: Database) -> None:
        number = next(_numbers)
        owner = Owner("user", f"990{number}", "Lin", None, f"replacing{number}", 0)
        await add_owner(database, RUNTIME, owner, PASSWORD)
        old = await credential_of_login(database, owner.login)
        assert old is not None
        new = ["hash of the one", "hash of the other"]
        changed = await asyncio.gather(
            *(
                put_password(database, RUNTIME, owner.login, each, replaced=old.password_hash)
                for each in new
            )
        )
        first = [each for each, owner in zip(new, changed, strict=True) if owner is not None]
        now = await credential_of_login(database, owner.login)
        assert now is not None and first == [now.password_hash]

    for _ in range(TRIES):
        store.do(work)
