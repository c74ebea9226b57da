"""The tables of consent: whose data it is, who may read it, what was read, and what was erased."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, String, Table

from tollway.store.schema import MONTHS, DividedBy, metadata

# A shop, or a user of the marketplace, known to the gateway.
owner = Table(
    "owner",
    metadata,
    Column("kind", String, primary_key=True),
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("shop_code", String),
    Column("login", String, nullable=False, unique=True),
    Column("password_hash", String, nullable=False),
    Column("added_at_s", BigInteger, nullable=False),
    CheckConstraint("kind IN ('shop', 'user')", name="owner_kind"),
    sqlite_with_rowid=False,
)

# A grant stays after its end: its owner sees what was once allowed, and what was read under it.
consent = Table(
    "consent",
    metadata,
    Column("owner_kind", String, primary_key=True),
    Column("owner_id", String, primary_key=True),
    Column("id", String, primary_key=True),
    Column("account_id", String, nullable=False),
    Column("scope", String, nullable=False),
    Column("granted_by", String, nullable=False),
    Column("granted_at_s", BigInteger, nullable=False),
    Column("expires_at_s", BigInteger),
    Column("revoked_at_s", BigInteger),
    # The last time that it was renewed while it was in force.
    Column("extended_at_s", BigInteger),
    Column("extended_by", String),
    CheckConstraint("granted_by IN ('owner', 'operator')", name="consent_granted_by"),
    CheckConstraint("extended_by IN ('owner', 'operator')", name="consent_extended_by"),
    Index("consent_id", "id", unique=True),
    Index("consent_account", "account_id", "granted_at_s", "id"),
    Index("consent_granted", "granted_at_s", "id"),
    sqlite_with_rowid=False,
)

# One row per successful call under a grant. Request ids begin with the time, so the newest reads
# of a grant are its last rows in key order. A replay names the request that it repeats.
consent_use = Table(
    "consent_use",
    metadata,
    Column("owner_kind", String, primary_key=True),
    Column("owner_id", String, primary_key=True),
    Column("consent_id", String, primary_key=True),
    Column("request_id", String, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("operation", String, nullable=False),
    Column("replay_of", String),
    # How many records its answer had; unknown where the operation does not say.
    Column("records", BigInteger),
    info={MONTHS: DividedBy("at_ms", 1000)},
    sqlite_with_rowid=False,
)

# The last time that a shop had its receivers erased, and how many rows are erased so far.
# `waiting` is how many waybills a carrier still needs, once all the rest is erased. Orders with a
# later change number than `last_change` arrived after the request, and stay. A call that began
# before `read_before_ms` may have read orders that still had their receivers.
receiver_erasure = Table(
    "receiver_erasure",
    metadata,
    Column("owner_id", String, primary_key=True),
    Column("asked_at_s", BigInteger, nullable=False),
    Column("asked_by", String, nullable=False),
    Column("last_change", BigInteger, nullable=False),
    Column("finished_at_s", BigInteger),
    Column("waiting", BigInteger),
    Column("orders", BigInteger, nullable=False),
    Column("waybills", BigInteger, nullable=False),
    Column("answers", BigInteger, nullable=False),
    Column("rejected", BigInteger, nullable=False),
    Column("read_before_ms", BigInteger),
    sqlite_with_rowid=False,
)
