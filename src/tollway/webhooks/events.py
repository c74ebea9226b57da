"""Recording events, in the transaction of what they report."""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from sqlalchemy import bindparam, select

from tollway.ledger.runtime import Runtime
from tollway.store.database import Reader, Transaction
from tollway.store.query import Query
from tollway.store.schema.webhooks import webhook_delivery, webhook_endpoint

# The types of events, and what each one reports.
EVENT_TYPES = {
    "balance.low": "a balance fell below the alert that was set for it",
    "consent.given": "a shop or user gave its consent, or extended it",
    "consent.revoked": "a shop or user revoked its consent",
    "consent.expiring": "a consent expires within 7 days",
    "token.expiring": "a token expires within 7 days",
    "waybill.settled": "a waybill without an answer was issued, or given up",
    "export.ready": "an export was paid, and its file can be read",
    "webhook.test": "asked for by the account API",
}


class Event(msgspec.Struct, frozen=True):
    """What happened. Events of one subject are delivered in their order."""

    account_id: str
    type: str
    subject: str
    data: Mapping[str, object]
    # An event with the same id is recorded once.
    id: str = ""


_TAKE_NUMBERS = Query(
    webhook_endpoint.update()
    .where(
        webhook_endpoint.c.account_id == bindparam("of_account"),
        webhook_endpoint.c.ended_at_s.is_(None),
    )
    .values(last_number=webhook_endpoint.c.last_number + 1)
    .returning(webhook_endpoint.c.id, webhook_endpoint.c.last_number)
)
_ADD = Query(
    webhook_delivery.insert().values({c.name: bindparam(c.name) for c in webhook_delivery.c})
)
_KNOWN = Query(
    select(webhook_delivery.c.number)
    .where(
        webhook_delivery.c.account_id == bindparam("of_account"),
        webhook_delivery.c.event_id == bindparam("wanted"),
    )
    .limit(1)
)


async def is_recorded(reader: Reader, account_id: str, event_id: str) -> bool:
    return await reader.fetch_one(_KNOWN, of_account=account_id, wanted=event_id) is not None


async def record_event(transaction: Transaction, runtime: Runtime, event: Event) -> None:
    """Has an event delivered to every endpoint of its account, if this transaction commits."""
    assert event.type in EVENT_TYPES
    # Locks the endpoints: so numbers are in the order of the commits.
    endpoints = await transaction.fetch_all(_TAKE_NUMBERS, of_account=event.account_id)
    if not endpoints:
        return
    at_ms = runtime.at_ms()
    at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    content = {"type": event.type, "timestamp": at.replace("+00:00", "Z"), "data": event.data}
    body = msgspec.json.encode(content).decode()
    event_id = event.id or runtime.new_id("evt_")
    for endpoint_id, number in endpoints:
        await transaction.execute(
            _ADD,
            account_id=event.account_id,
            endpoint_id=endpoint_id,
            number=number,
            event_id=event_id,
            type=event.type,
            subject=event.subject,
            at_ms=at_ms,
            body=body,
            state="waiting",
            attempts=0,
            next_at_ms=at_ms,
            status=None,
            settled_at_ms=None,
        )
