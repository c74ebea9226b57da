"""The log of deliveries, redelivery, and deleting old deliveries."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import BigInteger, bindparam, exists, null, select

from tollway.store.clock import common_ms
from tollway.store.database import Database, Reader
from tollway.store.query import Query, equals
from tollway.store.schema.webhooks import webhook_delivery, webhook_endpoint
from tollway.store.small_commits import PieceBudget, delete_oldest
from tollway.webhooks.endpoints import IN_FORCE

_KEEP_MS = 30 * 86_400_000
_SWEEP_PIECES_MAX = 200


class Delivery(msgspec.Struct, frozen=True):
    """One event to one endpoint. `status` is the HTTP status of the last answer."""

    number: int
    event_id: str
    type: str
    subject: str
    at_ms: int
    state: str
    attempts: int
    next_at_ms: int
    status: int | None
    settled_at_ms: int | None


_to_endpoint = equals(webhook_delivery, account_id="of_account", endpoint_id="of_endpoint")
_PAGE = Query(
    lambda: (
        select(*(webhook_delivery.c[name] for name in Delivery.__struct_fields__))
        .where(_to_endpoint, webhook_delivery.c.number < bindparam("before", type_=BigInteger))
        .order_by(webhook_delivery.c.number.desc())
        .limit(bindparam("count"))
    )
)
_AGAIN = Query(
    lambda: (
        webhook_delivery.update()
        .where(
            _to_endpoint,
            webhook_delivery.c.event_id == bindparam("wanted"),
            # Nothing is sent to an ended endpoint: a redelivery would only overwrite its log.
            exists().where(
                webhook_endpoint.c.account_id == webhook_delivery.c.account_id,
                webhook_endpoint.c.id == webhook_delivery.c.endpoint_id,
                IN_FORCE,
            ),
        )
        .values(
            state="waiting",
            attempts=0,
            status=null(),
            next_at_ms=bindparam("now_ms", type_=BigInteger),
            settled_at_ms=null(),
        )
    )
)
_SWEEP = delete_oldest(webhook_delivery, webhook_delivery.c.settled_at_ms)


async def list_deliveries(
    reader: Reader, account_id: str, endpoint_id: str, before: int, count: int
) -> Sequence[Delivery]:
    """The newest first."""
    rows = await reader.fetch_all(
        _PAGE, of_account=account_id, of_endpoint=endpoint_id, before=before, count=count
    )
    return [Delivery(*row) for row in rows]


async def deliver_again(
    database: Database, account_id: str, endpoint_id: str, event_id: str, now_ms: int
) -> bool:
    """Requests another delivery of an event, with the same id; False if the event is not in the
    log, or the endpoint has ended."""
    values = {
        "of_account": account_id,
        "of_endpoint": endpoint_id,
        "wanted": event_id,
        "now_ms": await common_ms(database, now_ms),
    }
    return bool(await database.write(lambda tx: tx.execute(_AGAIN, **values)))


async def sweep_deliveries(database: Database, now_s: int) -> int:
    """Deletes deliveries that were settled long ago, as many as one run may; returns how many."""
    until_ms = now_s * 1000 - _KEEP_MS
    return await PieceBudget(_SWEEP_PIECES_MAX).sweep(database, _SWEEP, until=until_ms)
