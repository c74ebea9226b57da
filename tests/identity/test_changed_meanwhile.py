"""A person who signs in while their password or second factor changes: the change counts."""

import time
from itertools import count

import pytest
from starlette.responses import Response

from tests.support.consent import PASSWORD
from tests.support.ledger import RUNTIME
from tests.support.stores import Store
from tollway.consent.owners import Owner, add_owner, put_password
from tollway.identity.passwords import StoredPassword
from tollway.identity.second_factor import Holder, begin_factor, code_at, confirm_factor
from tollway.identity.sessions import ChangedMeanwhileError
from tollway.identity.sign_in_limits import Attempt
from tollway.store.database import Database
from tollway.store.open import open_sealer
from tollway.web.owner import OWNERS
from tollway.web.sign_in import Sessions

_numbers = count(1)


async def _admitted(database: Database) -> tuple[Owner, StoredPassword]:
    """An owner whose password was found to be right a moment ago."""
    number = next(_numbers)
    owner = Owner("shop", f"880{number}", "Lin", None, f"signing{number}", 0)
    await add_owner(database, RUNTIME, owner, PASSWORD)
    found = await OWNERS.password(database, owner.login)
    assert found is not None
    return owner, found


async def _sign_in(database: Database, owner: Owner, found: StoredPassword) -> Response:
    sessions, response = Sessions(database, OWNERS, b"secret", is_secure=False), Response()
    attempt = Attempt(OWNERS.name, owner.login, "127.0.0.1")
    await sessions.sign_in(response, attempt, found, time.time())
    return response


async def test_an_old_password_starts_no_session_after_the_new_one_is_set(
    database: Database,
) -> None:
    owner, found = await _admitted(database)
    assert "set-cookie" in (await _sign_in(database, owner, found)).headers
    await put_password(database, RUNTIME, owner.login, "hash of the new one")
    with pytest.raises(ChangedMeanwhileError):
        await _sign_in(database, owner, found)


async def test_a_password_alone_starts_no_session_after_a_second_factor_is_set_up(
    database: Database, store: Store
) -> None:
    owner, found = await _admitted(database)
    holder, sealer = (
        Holder(owner.kind, owner.id, owner.login),
        open_sealer(store.url, store.key_file),
    )
    now_s = int(time.time())
    code = code_at(await begin_factor(database, sealer, holder), now_s // 30)
    assert await confirm_factor(database, RUNTIME, sealer, holder, code, now_s)
    with pytest.raises(ChangedMeanwhileError):
        await _sign_in(database, owner, found)
