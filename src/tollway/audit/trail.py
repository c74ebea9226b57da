"""The trail of operators' acts: its hash chain, recomputed from the first act on."""

import hashlib

import msgspec
from sqlalchemy import bindparam, func, select

from tollway.audit.check import BREACHES_SHOWN_MAX, Breach, CheckFigures
from tollway.store.database import Database
from tollway.store.query import Query
from tollway.store.schema.ledger import operator_act

_PAGE = 1000
_ROWS = Query(lambda: select(func.count()).select_from(operator_act))
_AFTER = Query(
    lambda: (
        select(*operator_act.c)
        .where(operator_act.c.number > bindparam("last"))
        .order_by(operator_act.c.number)
        .limit(_PAGE)
    )
)


class TrailCheck:
    """Whether each act has the next number, and the right hash over itself and its predecessor."""

    name = "trail"
    holds = "operators' acts are numbered without a gap, and none was changed"

    async def run(self, database: Database, _: int) -> tuple[CheckFigures, list[Breach]]:
        ((rows,),) = await database.fetch_long(_ROWS)
        breaches: list[Breach] = []
        last, previous = 0, bytes(32)
        while page := await database.fetch_long(_AFTER, last=last):
            for *facts, found in page:
                if facts[0] != last + 1:
                    what = f"acts {last + 1} to {facts[0] - 1} are missing"
                    breaches.append(Breach("act_missing", None, None, what))
                elif hashlib.sha256(previous + msgspec.json.encode(facts)).digest() != bytes(found):
                    what = f"act {facts[0]} of {facts[2]} was altered, or one before it"
                    breaches.append(Breach("act_altered", None, None, what))
                last, previous = facts[0], bytes(found)
            if len(breaches) >= BREACHES_SHOWN_MAX:
                break
        return CheckFigures(self.name, self.holds, rows, len(breaches)), breaches


TRAIL = TrailCheck()
