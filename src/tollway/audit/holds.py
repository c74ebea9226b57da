"""Holds against balances: what is held of a balance is what its open holds set aside."""

from collections.abc import Iterator

from sqlalchemy import func, literal_column, select

from tollway.audit.check import Breach, Check
from tollway.store.database import Row
from tollway.store.schema import balance
from tollway.store.settlement_tables import IS_HELD, hold

_set_aside = (
    select(func.coalesce(func.sum(hold.c.amount), 0))
    .where(
        hold.c.account_id == balance.c.account_id,
        hold.c.unit == balance.c.unit,
        literal_column(IS_HELD),
    )
    .scalar_subquery()
)
_balances = select(
    balance.c.account_id, balance.c.unit, balance.c.held, _set_aside.label("set_aside")
).subquery("balances")


def _tell(row: Row) -> Iterator[Breach]:
    account_id, unit, held, set_aside = row
    difference = f"{held} is held of the balance, but its open holds set aside {set_aside}"
    yield Breach("holds_differ", account_id, unit, difference)


HOLDS = Check(
    "holds",
    "what is held of a balance is what its open holds set aside",
    hold,
    select(_balances).where(_balances.c.held != _balances.c.set_aside),
    _tell,
)
