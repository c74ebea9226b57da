"""A person signs in as often as they like, and leaves no more than so many rows."""

from tests.support.stores import Store
from tollway.identity.sessions import OF_PERSON_MAX, find_session, start_session
from tollway.store.database import Database

MORE = 3


def test_of_more_sessions_than_a_person_may_have_the_oldest_go(store: Store) -> None:
    async def work(database: Database) -> None:
        other = await start_session(database, "shop", "another shop", 0)
        cookies = [
            await start_session(database, "shop", "busy shop", number)
            for number in range(OF_PERSON_MAX + MORE)
        ]
        found = [await find_session(database, each, OF_PERSON_MAX + MORE) for each in cookies]
        assert [each is None for each in found] == [True] * MORE + [False] * OF_PERSON_MAX
        assert await find_session(database, other, 1) is not None

    store.do(work)
    where = "WHERE subject_id = 'busy shop'"
    assert store.run(f"SELECT count(*) FROM session {where}") == [(OF_PERSON_MAX,)]
