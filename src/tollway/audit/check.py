"""What a check is.

Every check is one statement, and so sees one moment of the database: it can run while calls are
charged. It reads rows in the order of a key or an index and neither sorts nor keeps them, so that
the length of a table costs time only.
"""

from collections.abc import Callable, Iterator

import msgspec
from sqlalchemy import Table, func, select
from sqlalchemy.sql import CompoundSelect, Select

from tollway.store.database import Database, Row
from tollway.store.query import Query

# A ruined database would have millions: the first of each check tell what happened.
BREACHES_TOLD_MAX = 100


class Breach(msgspec.Struct, frozen=True):
    """One thing that cannot be right; of no account and no unit where it concerns none."""

    name: str
    account_id: str | None
    unit: str | None
    difference: str


class CheckFigures(msgspec.Struct, frozen=True):
    """How much one check looked at, and how much of it is wrong."""

    name: str
    holds: str
    rows: int
    breaches: int


class Check:
    """One thing that must hold for every row of a table.

    `wrong` selects what does not hold, and `tell` says of such a row what differs. `holds` says, in
    half a sentence, what is known when there is none.
    """

    def __init__(
        self,
        name: str,
        holds: str,
        table: Table,
        wrong: Select[tuple[object, ...]] | CompoundSelect[tuple[object, ...]],
        tell: Callable[[Row], Iterator[Breach]],
    ) -> None:
        self.name = name
        self._holds = holds
        self._rows = Query(select(func.count()).select_from(table))
        self._wrong = Query(wrong.limit(BREACHES_TOLD_MAX))
        self._tell = tell

    async def run(self, database: Database, now_ms: int) -> tuple[CheckFigures, list[Breach]]:
        """Looks at all rows; tells of at most BREACHES_TOLD_MAX of them. A query that asks for
        `now_ms` gets it."""
        ((rows,),) = await database.fetch_long(self._rows)
        wrong = await database.fetch_long(self._wrong, now_ms=now_ms)
        breaches = [breach for row in wrong for breach in self._tell(row)]
        return CheckFigures(self.name, self._holds, rows, len(breaches)), breaches
