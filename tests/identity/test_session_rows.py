"""A person signs in as often as they like, and leaves no more than so many rows."""

from tests.support.stores import Store
from tollway.identity.sessions import (
    LIFETIME_S,
    OF_PERSON_MAX,
    end_sessions,
    find_session,
    start_session,
)
from tollway.store.database import Database

MORE = 3


def test_of_more_sessions_than_a_person_may_have_the_oldest_go(own_store: Store) -> None:
    async def work(database: Database) -> None:
        other = await start_session(database, "shop", "another shop", 0)
        cookies = [
            await start_session(database, "shop", "busy shop", number)
            for number in range(OF_PERSON_MAX + MORE)
        ]
        found = [await find_session(database, each, OF_PERSON_MAX + MORE) for each in cookies]
        assert [each is None for each in found] == [True] * MORE + [False] * OF_PERSON_MAX
        assert await find_session(database, other, 1) is not None

    # No gateway has it, which would sweep sessions of 1970.
    own_store.do(work)
    where = "WHERE subject_id = 'busy shop'"
    assert own_store.run(f"SELECT count(*) FROM session {where}") == [(OF_PERSON_MAX,)]


def test_a_clock_that_is_ahead_leaves_no_session_when_all_are_ended(store: Store) -> None:
    async def work(database: Database) -> int:
        for each in range(2):
            await start_session(database, "shop", "a shop", each * LIFETIME_S)
        cookie = await start_session(database, "shop", "a shop", 0)
        ended = await database.write(
            lambda transaction: end_sessions(transaction, "shop", "a shop", LIFETIME_S + 1)
        )
        # By a clock that is right, such as that of another node.
        assert await find_session(database, cookie, 1) is None
        return ended

    # As far as it is known: the others had ended by that clock.
    assert store.do(work) == 1
