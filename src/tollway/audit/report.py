"""All checks in the order in which they run, and the report of a run. Add new checks here."""

from collections.abc import Callable

import msgspec
from sqlalchemy import func, select

from tollway.audit.accounts import ACCOUNTS, CALLERS, CAPS, CAPS_COUNTED, NOT_CHARGED
from tollway.audit.balances import (
    BALANCES,
    CHARGED_ONCE,
    ENTRIES,
    REFUNDS,
    UnitFigures,
    unit_figures,
)
from tollway.audit.check import Breach, CheckFigures
from tollway.audit.consents import CONSENT_CHARGES, CONSENT_USES
from tollway.audit.coupon_claims import CLAIM_HOURS, CODES_ONCE
from tollway.audit.holds import (
    HOLD_OVERDUE,
    HOLD_WAYBILLS,
    HOLDS,
    HOLDS_IN_TIME,
    RESERVED_KEYS,
    WAYBILL_HOLDS,
)
from tollway.audit.orders import ORDER_CHANGES, ORDER_DAYS, ORDER_HOURS, ORDERS_ONCE
from tollway.audit.product_analysis import DAY_PARTS
from tollway.audit.trail import TRAIL
from tollway.audit.usage import ENTRY_DAYS, USAGE, USAGE_CALLS
from tollway.audit.waybills import (
    NUMBERS_ISSUED,
    NUMBERS_ONCE,
    NUMBERS_TAKEN,
    NUMBERS_USED,
    WAYBILL_CHARGES,
    WAYBILLS_IN_FORCE,
    WAYBILLS_PAID,
)
from tollway.store.database import Database, SumTooLargeError
from tollway.store.query import Query
from tollway.store.schema.ledger import account, token

_BREACHES_KEPT = 200
CHECKS = (
    ACCOUNTS,
    BALANCES,
    ENTRIES,
    CHARGED_ONCE,
    REFUNDS,
    CALLERS,
    NOT_CHARGED,
    CAPS,
    CAPS_COUNTED,
    HOLDS,
    HOLDS_IN_TIME,
    HOLD_WAYBILLS,
    WAYBILL_HOLDS,
    RESERVED_KEYS,
    CONSENT_USES,
    CONSENT_CHARGES,
    WAYBILLS_IN_FORCE,
    NUMBERS_ONCE,
    NUMBERS_ISSUED,
    NUMBERS_TAKEN,
    NUMBERS_USED,
    WAYBILLS_PAID,
    WAYBILL_CHARGES,
    ORDERS_ONCE,
    ORDER_CHANGES,
    ORDER_HOURS,
    ORDER_DAYS,
    CODES_ONCE,
    CLAIM_HOURS,
    DAY_PARTS,
    TRAIL,
    USAGE,
    USAGE_CALLS,
    ENTRY_DAYS,
)


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
        """What is wrong with the data itself; an overdue hold is only late."""
        return [breach for breach in self.breaches if breach.name != HOLD_OVERDUE]

    def kept(self) -> str:
        """The report as JSON for later, with no more breaches than a page shows."""
        shown = msgspec.structs.replace(self, breaches=self.breaches[:_BREACHES_KEPT])
        return msgspec.json.encode(shown).decode()


def _too_large(check: str) -> Breach:
    difference = f"what the check {check} adds up is too large: a number is damaged"
    return Breach("sum_too_large", None, None, difference)


_COUNTS = Query(
    lambda: select(
        select(func.count()).select_from(account).scalar_subquery(),
        select(func.count()).select_from(token).scalar_subquery(),
    )
)


async def audit(
    database: Database, now_ms: int, progress: Callable[[int], None] = lambda _: None
) -> AuditReport:
    """Runs all checks; calls `progress(1)` after each."""
    ((accounts, tokens),) = await database.fetch_long(_COUNTS)
    checks: list[CheckFigures] = []
    breaches: list[Breach] = []
    try:
        units = await unit_figures(database)
    except SumTooLargeError:
        units, breaches = [], [_too_large("balances")]
    for check in CHECKS:
        try:
            figures, found = await check.run(database, now_ms)
        except SumTooLargeError:
            figures, found = CheckFigures(check.name, check.holds, 0, 1), [_too_large(check.name)]
        checks.append(figures)
        breaches += found
        progress(1)
    entries = sum(unit.entries for unit in units)
    return AuditReport(accounts, tokens, entries, units, checks, breaches)
