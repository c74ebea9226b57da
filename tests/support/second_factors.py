"""A second factor that was set up, for tests."""

from typing import NamedTuple

from tests.support.ledger import RUNTIME
from tollway.identity.second_factor import STEP_S, Holder, begin_factor, code_at, confirm_factor
from tollway.store.database import Database
from tollway.store.sealing import Sealer

SEALER = Sealer({1: bytes(32)}, 1)


class Factor(NamedTuple):
    """The secret of a device, and the recovery codes."""

    secret: bytes
    codes: list[str]


async def new_factor(database: Database, holder: Holder, step: int) -> Factor:
    """A factor that its holder confirmed with the code of a step of time."""
    secret = await begin_factor(database, SEALER, holder)
    code = code_at(secret, step)
    codes = await confirm_factor(database, RUNTIME, SEALER, holder, code, step * STEP_S)
    assert codes is not None
    return Factor(secret, codes)
