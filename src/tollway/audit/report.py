"""The whole audit: every check, and the figures of the books."""

from collections.abc import Callable

import msgspec
from sqlalchemy import func, select

from tollway.audit.check import Breach, CheckFigures
from tollway.audit.checks import CHECKS
from tollway.audit.holds import HOLD_OVERDUE
from tollway.audit.ledger import UnitFigures, unit_figures
from tollway.store.database import Database
from tollway.store.query import Query
from tollway.store.schema.ledger import account, token


class AuditReport(msgspec.Struct, frozen=True):
    """What an audit found."""

    accounts: int
    tokens: int
    entries: int
    units: list[UnitFigures]
    checks: list[CheckFigures]
    breaches: list[Breach]

    @property
    def damage(self) -> list[Breach]:
        """What is wrong with the data itself; a hold that is overdue is only late."""
        return [breach for breach in self.breaches if breach.name != HOLD_OVERDUE]


_COUNTS = Query(
    select(
        select(func.count()).select_from(account).scalar_subquery(),
        select(func.count()).select_from(token).scalar_subquery(),
    )
)


async def audit(
    database: Database, now_ms: int, progress: Callable[[int], None] = lambda _: None
) -> AuditReport:
    """Runs all checks; the progress is told how many more of them are done."""
    ((accounts, tokens),) = await database.fetch_long(_COUNTS)
    units = await unit_figures(database)
    checks: list[CheckFigures] = []
    breaches: list[Breach] = []
    for check in CHECKS:
        figures, found = await check.run(database, now_ms)
        checks.append(figures)
        breaches += found
        progress(1)
    entries = sum(unit.entries for unit in units)
    return AuditReport(accounts, tokens, entries, units, checks, breaches)
