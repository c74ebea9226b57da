"""The tables of webhooks: where they go, what waits to be delivered, and alerts."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    LargeBinary,
    String,
    Table,
)

from tollway.store.schema import metadata, partial_index

# Where an account's events go. `last_number` numbers its deliveries in the order of the commits;
# the secrets (the newest, and the one before it) are sealed.
webhook_endpoint = Table(
    "webhook_endpoint",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("id", String, primary_key=True),
    Column("url", String, nullable=False),
    Column("sealed_secrets", LargeBinary, nullable=False),
    Column("rotated_at_s", BigInteger),
    Column("last_number", BigInteger, nullable=False),
    Column("made_at_s", BigInteger, nullable=False),
    Column("ended_at_s", BigInteger),
    sqlite_with_rowid=False,
)

# An event on its way to one endpoint, and afterwards the record of its delivery.
webhook_delivery = Table(
    "webhook_delivery",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("endpoint_id", String, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("event_id", String, nullable=False),
    Column("type", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("body", String, nullable=False),
    Column("state", String, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("next_at_ms", BigInteger, nullable=False),
    Column("status", BigInteger),
    Column("settled_at_ms", BigInteger),
    CheckConstraint(
        "state = 'waiting' OR state = 'delivered' OR state = 'failed'",
        name="webhook_delivery_state",
    ),
    Index("webhook_delivery_event", "account_id", "endpoint_id", "event_id", unique=True),
    sqlite_with_rowid=False,
)
IS_WAITING = "state = 'waiting'"
partial_index(
    "webhook_delivery_due",
    webhook_delivery.c.endpoint_id,
    webhook_delivery.c.next_at_ms,
    where=IS_WAITING,
)
partial_index(
    "webhook_delivery_order",
    webhook_delivery.c.account_id,
    webhook_delivery.c.endpoint_id,
    webhook_delivery.c.subject,
    webhook_delivery.c.number,
    where=IS_WAITING,
)
Index("webhook_delivery_settled", webhook_delivery.c.settled_at_ms)

# The balance below which an account wants to be notified, and whether it has been.
balance_alert = Table(
    "balance_alert",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("unit", String, primary_key=True),
    Column("below", BigInteger, nullable=False),
    Column("fired_at_ms", BigInteger),
    sqlite_with_rowid=False,
)
