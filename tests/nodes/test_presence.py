"""The rows of the processes that serve."""

import pytest

from tests.support.ledger import RUNTIME
from tollway.store.database import Database
from tollway.store.sealing import Sealer
from tollway.store.serving_nodes import Presence, all_nodes


@pytest.mark.sqlite
async def test_a_process_that_was_killed_while_the_clock_was_far_ahead_does_not_count_for_ever(
    own_database: Database,
) -> None:
    sealer, now_ms = Sealer({1: bytes(32)}, 1), RUNTIME.at_ms()
    for name, at_ms in (("killed", now_ms + 10 * 365 * 86_400_000), ("other", now_ms)):
        await Presence(own_database, f"node_{name}", name, "0001", sealer).refresh(at_ms)
    assert [each.name for each in await all_nodes(own_database)] == ["other"]
