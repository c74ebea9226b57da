"""Budgets of agents: a session spends no more calls and credits than its agent was allowed.

The price of a call is reserved before the call, in one conditional statement, so that concurrent
calls cannot overspend; afterwards what it did cost is counted instead. Sessions per account and day
are limited, because each takes a row even if none of its calls succeeds.
"""

from typing import NamedTuple

from sqlalchemy import BigInteger, bindparam, case

from tollway.ledger.creation_limits import Counted, count_today
from tollway.store.database import Database, Transaction, transactional
from tollway.store.query import Query, equals, insert
from tollway.store.schema.ledger import agent_session

# A session that is unused for this long is deleted.
_FORGET_S = 7 * 86_400

_is_it = equals(agent_session, account_id="of_account", name="of_name")
_BEGIN = Query(
    lambda: (
        insert(agent_session)
        .values(
            account_id=bindparam("of_account"),
            name=bindparam("of_name"),
            spent=0,
            used_at_s=bindparam("at_s"),
        )
        .on_conflict_do_nothing()
    )
)
_before_s = bindparam("before_s", type_=BigInteger)
# An expired session counts as new, even while its row exists: only a new session deletes old rows.
_spent = case((agent_session.c.used_at_s < _before_s, 0), else_=agent_session.c.spent)
_RESERVE = Query(
    lambda: (
        agent_session.update()
        .values(spent=_spent + bindparam("price"), used_at_s=bindparam("at_s"))
        .where(_is_it, _spent + bindparam("price") <= bindparam("budget", type_=BigInteger))
    )
)
_CORRECT = Query(
    lambda: (
        agent_session.update()
        .values(spent=agent_session.c.spent + bindparam("more", type_=BigInteger))
        .where(_is_it)
    )
)
_FORGET = Query(
    lambda: agent_session.delete().where(
        agent_session.c.account_id == bindparam("of_account"),
        agent_session.c.used_at_s < _before_s,
    )
)


class Reservation(NamedTuple):
    """What a call of a session would spend, and the most that the session may spend in all."""

    account_id: str
    session: str
    price: int
    budget: int


@transactional
async def reserve(
    transaction: Transaction, wanted: Reservation, at_s: int, day_start_s: int
) -> bool:
    """Reserves the price of a call; False if that would exceed the session's budget. A new session
    counts against the limit of the day that began at `day_start_s`."""
    account_id, name, price, budget = wanted
    row = {"of_account": account_id, "of_name": name}
    before_s = at_s - _FORGET_S
    if await transaction.execute(_BEGIN, **row, at_s=at_s):
        await count_today(transaction, account_id, Counted.AGENT_SESSIONS, day_start_s)
        await transaction.execute(_FORGET, of_account=account_id, before_s=before_s)
    wanted_now = {**row, "price": price, "budget": budget, "at_s": at_s, "before_s": before_s}
    return bool(await transaction.execute(_RESERVE, **wanted_now))


async def correct(database: Database, of: Reservation, cost: int) -> None:
    """Counts what a call did cost instead of its price: nothing if it failed, more if the price was
    raised meanwhile."""
    values = {"of_account": of.account_id, "of_name": of.session, "more": cost - of.price}
    await database.write(lambda transaction: transaction.execute(_CORRECT, **values))
