"""Two operators who act at the same moment: as if one came after the other."""

import asyncio
from itertools import count

import msgspec

from tollway.consent.grants import GrantRequest, give_grant
from tollway.consent.owners import Owner, add_owner
from tollway.identity.people import Person, Role, list_operators, remove_person
from tollway.identity.sign_in_links import ensure_operator, invite
from tollway.ledger import LedgerError
from tollway.ledger.accounts import open_account
from tollway.ledger.permissions import Permission, add_permission, set_price
from tollway.ledger.runtime import Runtime
from tollway.ledger.trail import newest_acts
from tollway.store.database import Database

# At the same moment: whether two transactions meet is a matter of luck.
TRIES = 10
_numbers = count(1)
RUNTIME = Runtime(by="operator li")


async def _present(database: Database) -> list[Person]:
    return [each for each in await list_operators(database) if each.removed_at_s is None]


async def _removed_at_once(database: Database, *people: Person) -> list[object]:
    return await asyncio.gather(
        *(remove_person(database, RUNTIME, each.id) for each in people), return_exceptions=True
    )


async def test_the_last_two_operators_cannot_remove_each_other(own_database: Database) -> None:
    await ensure_operator(own_database, RUNTIME)
    for _ in range(TRIES):
        login = f"second{next(_numbers)}"
        await invite(own_database, RUNTIME, role=Role.OPERATOR, name="Wu", login=login)
        done = await _removed_at_once(own_database, *await _present(own_database))
        assert len(await _present(own_database)) == 1
        assert [isinstance(each, LedgerError) for each in done].count(True) == 1


async def test_a_person_who_is_removed_twice_at_once_is_removed_once_in_the_trail(
    own_database: Database,
) -> None:
    await ensure_operator(own_database, RUNTIME)
    for _ in range(TRIES):
        login = f"third{next(_numbers)}"
        made = await invite(own_database, RUNTIME, role=Role.OPERATOR, name="Xu", login=login)
        await _removed_at_once(own_database, made.person, made.person)
        acts = await newest_acts(own_database, 10, of=f"operator {login}")
        assert [each.act for each in acts] == ["operator remove", "operator invite"]


async def _is_a_chain(database: Database, act: str, subject: str) -> None:
    """Of the acts on a subject, each began with what the one before it left."""
    acts = [each for each in await newest_acts(database, 10, of=subject) if each.act == act][::-1]
    assert len(acts) > 1
    assert [each.before for each in acts[1:]] == [each.after for each in acts[:-1]]


async def test_the_trail_has_what_was_before_also_of_acts_at_once(own_database: Database) -> None:
    for _ in range(TRIES):
        name = f"operation {next(_numbers)}"
        prices = (set_price(own_database, name, each, RUNTIME) for each in (1, 2, 3))
        await asyncio.gather(*prices)
        await _is_a_chain(own_database, "price set", f"operation {name}")
        account = await open_account(own_database, RUNTIME, f"account of {name}")
        given = [Permission("orders", each, None) for each in (1, 2, 3)]
        await asyncio.gather(
            *(add_permission(own_database, account.id, each, RUNTIME) for each in given)
        )
        await _is_a_chain(own_database, "permission add", f"account {account.id}")


async def test_a_consent_that_is_given_twice_at_once_is_extended_in_the_trail(
    own_database: Database,
) -> None:
    account = await open_account(own_database, RUNTIME, "asking")
    for number in range(1, TRIES + 1):
        shop = Owner("shop", f"77{number}", "Green", None, f"green{number}", 0)
        await add_owner(own_database, RUNTIME, shop, "a long password")
        wanted = GrantRequest(account.id, shop.kind, shop.id, "orders")
        given = await asyncio.gather(
            *(
                give_grant(own_database, RUNTIME, wanted, lifetime_s=each, granted_by="operator")
                for each in (100, 200)
            )
        )
        assert given[0].id == given[1].id
        second, first = await newest_acts(own_database, 2, of=f"account {account.id}")
        assert (first.before, second.before) == (None, first.after)
        assert msgspec.json.decode(second.after or "")["id"] == given[0].id
