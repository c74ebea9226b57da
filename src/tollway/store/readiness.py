"""Whether the database takes writes, asked by anybody and as often as they like."""

from time import monotonic

from tollway.store.database import Database, StoreError
from tollway.store.sharing import Shared
from tollway.store.versions import write_nothing_new

_REMEMBERED_S = 1.0


class Readiness:
    """One attempt at a time, shared by all who ask meanwhile; that it succeeded is remembered for a
    second. A failure is not, so that the end of an outage is seen at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._attempt = Shared(self._try)
        self._good_until_s = float("-inf")

    async def takes_writes(self) -> bool:
        return monotonic() < self._good_until_s or await self._attempt()

    async def _try(self) -> bool:
        try:
            await self._database.write(write_nothing_new)
        except StoreError:
            return False
        self._good_until_s = monotonic() + _REMEMBERED_S
        return True
