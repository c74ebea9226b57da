"""Recording events, in the transaction of what they report."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from sqlalchemy import ColumnElement, String, bindparam, exists, select

from tollway.ledger.creation_limits import Counted, count_today
from tollway.ledger.runtime import Runtime
from tollway.store.clock import common_ms
from tollway.store.database import Reader, Transaction, transactional
from tollway.store.query import Query, insert_row
from tollway.store.schema.webhooks import webhook_delivery, webhook_endpoint
from tollway.webhooks.endpoints import IN_FORCE


class EventType(NamedTuple):
    """What events of a type report, and an example of their data with every field."""

    reports: str
    example: Mapping[str, object]
    # What of the data can be null.
    nullable: tuple[str, ...] = ()


_CONSENT = {
    "consent_id": "con_4h7k2m9p5r8t",
    "owner_kind": "shop",
    "owner_id": "880012001",
    "scope": "orders",
    "expires_at": 1801368000,
}
EVENT_TYPES = {
    "balance.low": EventType(
        "a balance fell below the alert that was set for it; once, until it was higher again",
        {"unit": "credits", "left": 90, "below": 100},
    ),
    "consent.given": EventType(
        "a shop or user gave its consent, or extended it", _CONSENT, ("expires_at",)
    ),
    "consent.revoked": EventType("a shop or user revoked its consent", _CONSENT, ("expires_at",)),
    "consent.expiring": EventType("a consent expires within 7 days", _CONSENT, ("expires_at",)),
    "token.expiring": EventType(
        "a token expires within 7 days", {"token_id": "tok_5m2p8r4t7w3x", "expires_at": 1770436800}
    ),
    "waybill.settled": EventType(
        "a waybill without an answer was issued, or given up",
        {
            "object_id": "wb_7f3k9d2m5q8r",
            "order_sn": "260131-7700012001",
            "wp_code": "YTO",
            "outcome": "issued",
            "number": "YT8800000000123",
        },
        ("number",),
    ),
    "export.ready": EventType(
        "an export was paid, and its file can be read",
        {
            "request_id": "649a71fadf2403f9c2b7e1d058",
            "operation": "orders",
            "export_id": "AdGk5q000gagxDjS9RErHdMht0NRSx9LOrVqFo85KcijSFPArhytKi1Z",
            "records": 4932,
            "download_url": "https://gateway.example/papi/tool/erps/paging-orders/export/file"
            "?owner_id=880012001&export_id=AdGk5q000gagxDjS9RErHdMht0NRSx9LOrVqFo85KcijSFPArhytKi1Z",
            "expires_at": 1769918400,
            "cursor": "6606944209393-e541ee16",
        },
        ("cursor",),
    ),
    "webhook.test": EventType(
        "you asked for it (webhooks/test)", {"account_id": "acc_7f3k9d2m5q8r"}
    ),
}


def event_example(name: str) -> dict[str, object]:
    """An event of this type as it is sent."""
    return {
        "type": name,
        "timestamp": "2026-01-31T04:00:00.000Z",
        "data": EVENT_TYPES[name].example,
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
    lambda: (
        webhook_endpoint.update()
        .where(webhook_endpoint.c.account_id == bindparam("of_account"), IN_FORCE)
        .values(last_number=webhook_endpoint.c.last_number + 1)
        .returning(webhook_endpoint.c.id, webhook_endpoint.c.last_number)
    )
)
_ADD = Query(lambda: insert_row(webhook_delivery))


def is_recorded_for(
    account_id: ColumnElement[str], event_id: ColumnElement[str]
) -> ColumnElement[bool]:
    """Whether a webhook of an account, in force or not, has an event. From webhook to webhook, as
    the index is: an account has few of them, and any number of deliveries."""
    has_it = exists().where(
        webhook_delivery.c.account_id == webhook_endpoint.c.account_id,
        webhook_delivery.c.endpoint_id == webhook_endpoint.c.id,
        webhook_delivery.c.event_id == event_id,
    )
    return exists().where(webhook_endpoint.c.account_id == account_id, has_it)


_KNOWN = Query(
    lambda: select(is_recorded_for(bindparam("of_account"), bindparam("wanted", type_=String)))
)


async def is_recorded(reader: Reader, account_id: str, event_id: str) -> bool:
    ((is_known,),) = await reader.fetch_all(_KNOWN, of_account=account_id, wanted=event_id)
    return bool(is_known)


async def record_event(transaction: Transaction, runtime: Runtime, event: Event) -> bool:
    """Has an event delivered to every endpoint of its account, if this transaction commits; False
    if there is none."""
    assert event.type in EVENT_TYPES
    # Locks the endpoints, so that numbers follow the order of the commits.
    endpoints = await transaction.fetch_all(_TAKE_NUMBERS, of_account=event.account_id)
    if not endpoints:
        return False
    at_ms = await common_ms(transaction, runtime.at_ms())
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
    return True


@transactional
async def send_test_event(
    transaction: Transaction, runtime: Runtime, account_id: str, day_start_s: int
) -> bool:
    """Has a test event delivered to every endpoint of an account; False if there is none. It counts
    against the limit of the day that began at `day_start_s`."""
    # Each test is its own subject, so that a failed one does not hold up later ones.
    subject = runtime.new_id("test:")
    event = Event(account_id, "webhook.test", subject, {"account_id": account_id})
    await count_today(transaction, account_id, Counted.EVENTS, day_start_s)
    return await record_event(transaction, runtime, event)
