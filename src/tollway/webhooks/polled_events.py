"""Events that no transaction causes: a low balance, and tokens and consents that expire soon.

Workers poll for them, and record each once: an alert in the transaction that marks it as fired, an
expiry under an id of its own.
"""

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    String,
    Table,
    bindparam,
    cast,
    exists,
    literal_column,
    null,
    select,
)

from tollway.ledger.creation_limits import Counted, count_today
from tollway.ledger.runtime import UNATTENDED, Runtime
from tollway.ledger.trail import record_act
from tollway.store.database import Database, Reader, Transaction, transactional
from tollway.store.query import Query, alike, equals, insert
from tollway.store.schema.consent import consent
from tollway.store.schema.ledger import balance, token
from tollway.store.schema.webhooks import balance_alert, webhook_endpoint
from tollway.webhooks.endpoints import IN_FORCE
from tollway.webhooks.events import Event, is_recorded, is_recorded_for, record_event

# From when on a webhook, and the pages, say that a token or a consent expires.
EXPIRES_SOON_S = 7 * 86_400

# Only accounts with a webhook: another account is notified as soon as it adds its first one, even
# of what was low or expiring before.
_notified = select(webhook_endpoint.c.account_id).where(IN_FORCE).distinct()
_its_balance = alike(balance, balance_alert, "account_id", "unit")
_LOW = Query(
    lambda: (
        select(balance_alert.c.account_id, balance_alert.c.unit)
        .join(balance, _its_balance)
        .where(
            balance_alert.c.account_id.in_(_notified),
            balance_alert.c.fired_at_ms.is_(None),
            balance.c.amount < balance_alert.c.below,
        )
    )
)
_HIGH_AGAIN = Query(
    lambda: (
        select(balance_alert.c.account_id, balance_alert.c.unit)
        .join(balance, _its_balance)
        .where(balance_alert.c.fired_at_ms.is_not(None), balance.c.amount >= balance_alert.c.below)
    )
)
_its_key = equals(balance_alert, account_id="of_account", unit="of_unit")
_left = select(balance.c.amount).where(_its_balance).scalar_subquery()
# Both statements check again: another node may have acted meanwhile, or the balance changed.
_FIRE = Query(
    lambda: (
        balance_alert.update()
        .where(
            _its_key,
            balance_alert.c.fired_at_ms.is_(None),
            exists().where(_its_balance, balance.c.amount < balance_alert.c.below),
        )
        .values(fired_at_ms=bindparam("at_ms", type_=BigInteger))
        .returning(balance_alert.c.below, _left)
    )
)
_RESET = Query(
    lambda: (
        balance_alert.update()
        .where(_its_key, exists().where(_its_balance, balance.c.amount >= balance_alert.c.below))
        .values(fired_at_ms=null())
    )
)
_insert_alert = insert(balance_alert).values(
    account_id=bindparam("of_account"),
    unit=bindparam("of_unit"),
    below=bindparam("limit"),
    fired_at_ms=null(),
)
_SET = Query(
    lambda: _insert_alert.on_conflict_do_update(
        index_elements=["account_id", "unit"],
        set_={"below": _insert_alert.excluded.below, "fired_at_ms": null()},
    )
)
_UNSET = Query(lambda: balance_alert.delete().where(_its_key))
_ALERTS = Query(
    lambda: (
        select(balance_alert.c.unit, balance_alert.c.below)
        .where(balance_alert.c.account_id == bindparam("of_account"))
        .order_by(balance_alert.c.unit)
    )
)
_now, _soon = (bindparam(name, type_=BigInteger) for name in ("now_s", "soon_s"))


def _is_reported(of: Table) -> ColumnElement[bool]:
    """Asked with the search: thousands may expire within a week, and one look-up after the other
    would keep calls waiting."""
    evt, line = literal_column("'evt_'", String), literal_column("'_'", String)
    return is_recorded_for(of.c.account_id, evt + of.c.id + line + cast(of.c.expires_at_s, String))


_TOKENS = Query(
    lambda: select(token.c.account_id, token.c.id, token.c.expires_at_s).where(
        token.c.account_id.in_(_notified),
        token.c.client_id.is_(None),
        token.c.revoked_at_s.is_(None),
        token.c.expires_at_s > _now,
        token.c.expires_at_s <= _soon,
        ~_is_reported(token),
    )
)
_CONSENTS = Query(
    lambda: select(
        consent.c.account_id,
        consent.c.id,
        consent.c.expires_at_s,
        consent.c.owner_kind,
        consent.c.owner_id,
        consent.c.scope,
    ).where(
        consent.c.account_id.in_(_notified),
        consent.c.revoked_at_s.is_(None),
        consent.c.expires_at_s > _now,
        consent.c.expires_at_s <= _soon,
        ~_is_reported(consent),
    )
)


@transactional
async def set_alert(
    transaction: Transaction,
    account_id: str,
    unit: str,
    below: int,
    day_start_s: int,
    runtime: Runtime = UNATTENDED,
) -> None:
    """Sets the balance below which the account is notified; 0 removes the alert. The change counts
    against the limit of the day that began at `day_start_s`."""
    key = {"of_account": account_id, "of_unit": unit}
    await count_today(transaction, account_id, Counted.ALERTS, day_start_s)
    if below:
        await transaction.execute(_SET, **key, limit=below)
    else:
        await transaction.execute(_UNSET, **key)
    after = {"unit": unit, "below": below}
    await record_act(transaction, runtime, "alert set", f"account {account_id}", after=after)


async def list_alerts(reader: Reader, account_id: str) -> list[tuple[str, int]]:
    rows = await reader.fetch_all(_ALERTS, of_account=account_id)
    return [(str(unit), int(below)) for unit, below in rows]


async def watch(database: Database, runtime: Runtime) -> None:
    """Checks once, and records the events that are due."""
    for account_id, unit in await database.fetch_all(_LOW):
        await _report_low(database, runtime, account_id, unit)
    for account_id, unit in await database.fetch_all(_HIGH_AGAIN):
        await database.write_statement(_RESET, of_account=account_id, of_unit=unit)
    span = {"now_s": runtime.at_s(), "soon_s": runtime.at_s() + EXPIRES_SOON_S}
    expiring = [
        Event(
            account_id,
            "token.expiring",
            f"token:{token_id}",
            {"token_id": token_id, "expires_at": expires_at_s},
            f"evt_{token_id}_{expires_at_s}",
        )
        for account_id, token_id, expires_at_s in await database.fetch_long(
            _TOKENS, "watching", **span
        )
    ]
    for account_id, grant_id, expires_at_s, kind, owner, scope in await database.fetch_long(
        _CONSENTS, "watching", **span
    ):
        names = {"owner_kind": kind, "owner_id": owner, "scope": scope}
        data = {"consent_id": grant_id, "expires_at": expires_at_s, **names}
        event_id = f"evt_{grant_id}_{expires_at_s}"
        subject = f"consent:{grant_id}"
        expiring.append(Event(account_id, "consent.expiring", subject, data, event_id))
    for event in expiring:
        await _record_once(database, runtime, event)


@transactional
async def _report_low(
    transaction: Transaction, runtime: Runtime, account_id: str, unit: str
) -> None:
    key = {"of_account": account_id, "of_unit": unit}
    found = await transaction.fetch_one(_FIRE, **key, at_ms=runtime.at_ms())
    if found is not None:
        below, left = found
        data = {"unit": unit, "left": left, "below": below}
        event = Event(account_id, "balance.low", f"balance:{unit}", data)
        await record_event(transaction, runtime, event)


async def _record_once(database: Database, runtime: Runtime, event: Event) -> None:
    async def work(transaction: Transaction) -> None:
        # Check again under the lock: another worker may be checking at the same moment.
        await transaction.lock_names([f"webhooks of {event.account_id}"])
        if not await is_recorded(transaction, event.account_id, event.id):
            await record_event(transaction, runtime, event)

    if not await is_recorded(database, event.account_id, event.id):
        await database.write(work)
