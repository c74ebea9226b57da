"""An account's endpoints: where its events go, and the secrets that sign them.

Times come from the clock that the nodes share: by its own clock, a node that is behind would end
the old secret of an endpoint as soon as it makes a new one.
"""

import msgspec
from sqlalchemy import BigInteger, and_, bindparam, exists, select

from tollway.contract.language import Phrase
from tollway.ledger import LedgerError
from tollway.ledger.creation_limits import Counted, count_today, limit_reached
from tollway.ledger.runtime import Runtime
from tollway.ledger.tokens import MakerCheck
from tollway.ledger.trail import record_act
from tollway.store.clock import common_s
from tollway.store.database import Database, Reader, Row, Transaction, transactional
from tollway.store.query import Query, equals, insert_row
from tollway.store.schema.ledger import account
from tollway.store.schema.webhooks import webhook_endpoint
from tollway.store.sealing import Sealer
from tollway.webhooks.addresses import AddressError, Addresses
from tollway.webhooks.signature import (
    key_of,
    new_secret,
    opened_secrets,
    sealed_secrets,
)

# How long the previous secrets still sign after a rotation.
OVERLAP_S = 86_400
# After several rotations within that time, as when answers were lost, an older secret is in use.
SIGNING_MAX = 8
ENDPOINTS_MAX = 10
# As long as the log of its deliveries.
_ENDED_KEPT_S = 30 * 86_400


class WebhookEndpoint(msgspec.Struct, frozen=True):
    """An endpoint, as it is shown."""

    id: str
    url: str
    made_at_s: int
    rotated_at_s: int | None
    ended_at_s: int | None


class EndpointSecret(msgspec.Struct, frozen=True):
    """An endpoint with the secret that was made for it just now."""

    endpoint: WebhookEndpoint
    secret: str


_SHOWN = tuple(webhook_endpoint.c[name] for name in WebhookEndpoint.__struct_fields__)
_OF_ACCOUNT = Query(
    lambda: (
        select(*_SHOWN)
        .where(webhook_endpoint.c.account_id == bindparam("of_account"))
        .order_by(webhook_endpoint.c.made_at_s, webhook_endpoint.c.id)
    )
)
_its_key = equals(webhook_endpoint, account_id="of_account", id="wanted")
# Checks the account too: closing it misses an endpoint that is added at the same moment.
IN_FORCE = and_(
    webhook_endpoint.c.ended_at_s.is_(None),
    exists().where(account.c.id == webhook_endpoint.c.account_id, account.c.closed_at_s.is_(None)),
)
_sealed_columns = select(
    webhook_endpoint.c.url, webhook_endpoint.c.sealed_secrets, webhook_endpoint.c.rotated_at_s
).where(_its_key, IN_FORCE)
_SEALED = Query(_sealed_columns)
# If two callers rotate at once, the second must see the secret of the first.
_SEALED_LOCKED = Query(_sealed_columns.with_for_update())
_ADD = Query(lambda: insert_row(webhook_endpoint))
_ROTATE = Query(
    lambda: (
        webhook_endpoint.update()
        .where(_its_key, webhook_endpoint.c.ended_at_s.is_(None))
        .values(sealed_secrets=bindparam("new_secrets"), rotated_at_s=bindparam("at_s"))
    )
)
_END = Query(
    lambda: (
        webhook_endpoint.update()
        .where(_its_key, webhook_endpoint.c.ended_at_s.is_(None))
        .values(ended_at_s=bindparam("at_s"))
    )
)
_FORGET = Query(
    lambda: webhook_endpoint.delete().where(
        webhook_endpoint.c.account_id == bindparam("of_account"),
        webhook_endpoint.c.ended_at_s < bindparam("before_s", type_=BigInteger),
    )
)


async def list_endpoints(reader: Reader, account_id: str) -> list[WebhookEndpoint]:
    rows = await reader.fetch_all(_OF_ACCOUNT, of_account=account_id)
    return [WebhookEndpoint(*row) for row in rows]


async def make_endpoint(
    database: Database,
    sealer: Sealer,
    addresses: Addresses,
    runtime: Runtime,
    account_id: str,
    url: str,
    day_start_s: int,
    check_maker: MakerCheck,
) -> EndpointSecret:
    """Adds an endpoint for a caller, if events may go to its address: otherwise AddressError."""
    parsed = addresses.check(url)
    try:
        await addresses.resolve(parsed, account_id)
    except AddressError:
        # Counted, because the reason reveals which names the gateway's network has.
        await database.write(
            lambda transaction: count_today(
                transaction, account_id, Counted.REFUSED_HOSTS, day_start_s
            )
        )
        raise
    return await add_endpoint(database, sealer, runtime, account_id, url, day_start_s, check_maker)


@transactional
async def add_endpoint(
    transaction: Transaction,
    sealer: Sealer,
    runtime: Runtime,
    account_id: str,
    url: str,
    day_start_s: int,
    check_maker: MakerCheck | None = None,
) -> EndpointSecret:
    """Adds an endpoint; it counts against the limit of the day that began at `day_start_s`."""
    made_at_s = await common_s(transaction, runtime.now_s())
    made = WebhookEndpoint(runtime.new_id("whk_"), url, made_at_s, None, None)
    secret = new_secret()
    # Locks the account's count, so that concurrent additions see each other.
    await count_today(transaction, account_id, Counted.WEBHOOKS, day_start_s)
    # A name server can take its time, and the maker may have been revoked since.
    if check_maker is not None:
        await check_maker(transaction)
    # Here, not in a sweep over all accounts: only an account that adds endpoints piles them up.
    before_s = made_at_s - _ENDED_KEPT_S
    await transaction.execute(_FORGET, of_account=account_id, before_s=before_s)
    others = await list_endpoints(transaction, account_id)
    if sum(each.ended_at_s is None for each in others) >= ENDPOINTS_MAX:
        raise limit_reached(
            ENDPOINTS_MAX, Phrase("webhooks", "的回调"), Phrase("end one first", "请先停用一个")
        )
    await transaction.execute(
        _ADD,
        account_id=account_id,
        id=made.id,
        url=url,
        sealed_secrets=sealed_secrets(sealer, secrets_context(made.id), [secret]),
        rotated_at_s=None,
        last_number=0,
        made_at_s=made_at_s,
        ended_at_s=None,
    )
    after = {"webhook_id": made.id, "url": url}
    await record_act(transaction, runtime, "webhook add", f"account {account_id}", after=after)
    return EndpointSecret(made, secret)


@transactional
async def rotate_secret(
    transaction: Transaction,
    sealer: Sealer,
    runtime: Runtime,
    account_id: str,
    endpoint_id: str,
    day_start_s: int,
    seen: WebhookEndpoint | None = None,
) -> str | None:
    """The new secret; None if there is no such endpoint. The others sign for another day. The
    rotation counts against the limit of the day that began at `day_start_s`. It is refused if the
    secret was changed since the endpoint was `seen`: who sent a form twice knows one of the two."""
    row = await transaction.fetch_one(_SEALED_LOCKED, of_account=account_id, wanted=endpoint_id)
    if row is None:
        return None
    if seen is not None and row[2] != seen.rotated_at_s:
        raise LedgerError(
            "The secret of webhook {webhook_id} was changed meanwhile.", webhook_id=endpoint_id
        )
    await count_today(transaction, account_id, Counted.SECRETS, day_start_s)
    at_s = await common_s(transaction, runtime.now_s())
    secret = new_secret()
    signing = [secret, *_signing(sealer, endpoint_id, row, at_s)][:SIGNING_MAX]
    sealed = sealed_secrets(sealer, secrets_context(endpoint_id), signing)
    values = {"of_account": account_id, "wanted": endpoint_id}
    await transaction.execute(_ROTATE, **values, new_secrets=sealed, at_s=at_s)
    subject, after = f"account {account_id}", {"webhook_id": endpoint_id}
    await record_act(transaction, runtime, "webhook rotate", subject, after=after)
    return secret


@transactional
async def end_endpoint(
    transaction: Transaction, runtime: Runtime, account_id: str, endpoint_id: str
) -> bool:
    """Ends an endpoint: nothing more is sent to it. False if it had ended or never existed."""
    at_s = await common_s(transaction, runtime.now_s())
    values = {"of_account": account_id, "wanted": endpoint_id, "at_s": at_s}
    if not await transaction.execute(_END, **values):
        return False
    subject, after = f"account {account_id}", {"webhook_id": endpoint_id}
    await record_act(transaction, runtime, "webhook end", subject, after=after)
    return True


class Target(msgspec.Struct, frozen=True):
    """Where a delivery goes, and the keys that sign it."""

    url: str
    keys: list[bytes]


async def find_target(
    reader: Reader, sealer: Sealer, account_id: str, endpoint_id: str, now_s: int
) -> Target | None:
    row = await reader.fetch_one(_SEALED, of_account=account_id, wanted=endpoint_id)
    if row is None:
        return None
    return Target(row[0], list(map(key_of, _signing(sealer, endpoint_id, row, now_s))))


def _signing(sealer: Sealer, endpoint_id: str, row: Row, now_s: int) -> list[str]:
    """The secrets that sign now, the newest first."""
    _, sealed, rotated_at_s = row
    secrets = opened_secrets(sealer, secrets_context(endpoint_id), sealed)
    if rotated_at_s is not None and rotated_at_s + OVERLAP_S <= now_s:
        return secrets[:1]
    return secrets


def secrets_context(endpoint_id: str) -> bytes:
    return msgspec.json.encode(("webhook endpoint", endpoint_id))
