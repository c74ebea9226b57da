"""The tables of carriers: number pools, links to remote carriers, and waybills."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
)

from tollway.store.schema import metadata, partial_index

# `number_format` is a regular expression, or S10. `area_provinces` is a JSON list.
carrier = Table(
    "carrier",
    metadata,
    Column("wp_code", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("number_format", String, nullable=False),
    Column("area_kind", String, nullable=False),
    Column("area_provinces", String, nullable=False),
    CheckConstraint(
        "area_kind = 'all' OR area_kind = 'only' OR area_kind = 'except'", name="carrier_area_kind"
    ),
    sqlite_with_rowid=False,
)

# What a carrier's sorters read, by the receiver's place. An empty city stands for all of a
# province, an empty district for all of a city.
carrier_route = Table(
    "carrier_route",
    metadata,
    Column("wp_code", String, primary_key=True),
    Column("province", String, primary_key=True),
    Column("city", String, primary_key=True),
    Column("district", String, primary_key=True),
    Column("route_code", String, nullable=False),
    Column("hub_name", String, nullable=False),
    Column("hub_code", String, nullable=False),
    sqlite_with_rowid=False,
)

# The pools. A number's row stays when it is taken: its key prevents loading that number again.
# An empty owner_id is the pool that all shops share.
waybill_number = Table(
    "waybill_number",
    metadata,
    Column("wp_code", String, primary_key=True),
    Column("number", String, primary_key=True),
    Column("owner_id", String, nullable=False),
    Column("is_taken", Integer, nullable=False),
    CheckConstraint("is_taken IN (0, 1)", name="waybill_number_is_taken"),
    Index("waybill_number_next", "owner_id", "wp_code", "is_taken", "number"),
    sqlite_with_rowid=False,
)

# While a remote carrier decides, a waybill is pending: it has no number, and its price is held.
# `sealed` is its print data (while it is pending, its label without the number; nothing once its
# receiver is erased), which also shows whether another request is the same. `refusal` is why the
# carrier issued nothing.
waybill = Table(
    "waybill",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("object_id", String, primary_key=True),
    Column("owner_id", String, nullable=False),
    Column("order_sn", String, nullable=False),
    Column("wp_code", String, nullable=False),
    Column("state", String, nullable=False),
    Column("number", String),
    Column("price", BigInteger, nullable=False),
    Column("request_id", String),
    Column("hold_id", String),
    Column("asked_at_s", BigInteger, nullable=False),
    Column("issued_at_s", BigInteger),
    Column("cancelled_at_s", BigInteger),
    Column("refusal", String),
    # A further parcel has the number of the first one of its order.
    Column("parent_number", String),
    # The fields of the request that the receipt warns of.
    Column("doubtful", String),
    # When its label was first written: from then on its receiver stays.
    Column("printed_at_s", BigInteger),
    # Set while a carrier is asked to change the receiver, and until it has confirmed the outcome.
    Column("changing_until_s", BigInteger),
    Column("sealed", LargeBinary, nullable=False),
    CheckConstraint(
        "state = 'issued' OR state = 'pending' OR state = 'refused' OR state = 'cancelled'",
        name="waybill_state",
    ),
    Index("waybill_object", "object_id", unique=True),
    Index("waybill_number_once", "number", "wp_code", unique=True),
    Index("waybill_request", "request_id"),
    # The newest of an order.
    Index("waybill_order", "order_sn", "request_id"),
    # The newest of all carriers.
    Index("waybill_asked", "asked_at_s", "wp_code"),
    # With a rowid, because without one each row of this size would take an extra page in SQLite.
)
# A cancelled or refused waybill frees its key, so only those in force must be unique.
IN_FORCE = "state IN ('pending', 'issued')"
IS_PENDING = "state = 'pending'"
IS_CHANGING = "state = 'issued' AND changing_until_s IS NOT NULL"
partial_index(
    "waybill_natural_key",
    waybill.c.account_id,
    waybill.c.owner_id,
    waybill.c.order_sn,
    waybill.c.wp_code,
    is_unique=True,
    where=IN_FORCE,
)

# The waybills that reconciliation has to check, oldest first.
partial_index(
    "waybill_pending",
    waybill.c.asked_at_s,
    where=IS_PENDING,
)

# Waybills whose carrier has not confirmed a changed receiver.
partial_index(
    "waybill_changing",
    waybill.c.wp_code,
    where=IS_CHANGING,
)


# A carrier with a row here gives its numbers itself. `sealed_secret` signs the messages.
carrier_link = Table(
    "carrier_link",
    metadata,
    Column("wp_code", String, primary_key=True),
    Column("url", String, nullable=False),
    Column("provider_id", String, nullable=False),
    Column("to_code", String, nullable=False),
    Column("sealed_secret", LargeBinary, nullable=False),
    Column("deadline_ms", BigInteger, nullable=False),
    Column("settle_after_s", BigInteger, nullable=False),
    Column("changed_at_s", BigInteger, nullable=False),
    Column("protocol", String, nullable=False),
    Column("template_url", String, nullable=False),
    CheckConstraint("deadline_ms > 0", name="carrier_link_deadline"),
    # Until its deadline a message may still arrive; only then is it known to be lost.
    CheckConstraint("settle_after_s * 1000 > deadline_ms", name="carrier_link_settle_after"),
    sqlite_with_rowid=False,
)
