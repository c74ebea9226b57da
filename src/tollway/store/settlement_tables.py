"""The tables that belong to a charge besides its entry: what is held, what was answered, what was
not charged.

Apart from `schema.py` for its size alone; they belong to the same metadata.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    LargeBinary,
    String,
    Table,
    func,
    text,
)

from tollway.store.schema import metadata

# Credits set aside for a call whose outcome lies with somebody else. The consent is the one that
# the call was made under, and `key` the Idempotency-Key that it came with.
hold = Table(
    "hold",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("id", String, primary_key=True),
    Column("unit", String, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("operation", String, nullable=False),
    Column("request_id", String, nullable=False),
    Column("token_id", String, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("deadline_at_ms", BigInteger, nullable=False),
    Column("state", String, nullable=False),
    Column("settled_at_ms", BigInteger),
    Column("owner_kind", String),
    Column("owner_id", String),
    Column("consent_id", String),
    Column("key", String),
    CheckConstraint("amount >= 0", name="hold_amount"),
    CheckConstraint("state IN ('held', 'captured', 'released')", name="hold_state"),
    Index("hold_request", "request_id"),
    sqlite_with_rowid=False,
)
IS_HELD = "state = 'held'"
Index(
    "hold_open",
    hold.c.deadline_at_ms,
    sqlite_where=text(IS_HELD),
    postgresql_where=text(IS_HELD),
)

# The answers to requests that came with an Idempotency-Key, sealed, as long as the key counts. An
# empty one is no answer yet: the key is reserved for a request whose outcome lies with somebody
# else.
idempotency_key = Table(
    "idempotency_key",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("request_id", String, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Index("idempotency_key_at", "at_ms"),
    sqlite_with_rowid=False,
)
is_reserved = func.length(idempotency_key.c.sealed) == 0

# What the oldest entries of a balance came to, once they are dropped: the sums of their amounts by
# kind, and the number, balance and time that the last of them had. `waybills` is the part of
# `charge` that was for waybills.
archived_balance = Table(
    "archived_balance",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("unit", String, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("balance_after", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("top_up", BigInteger, nullable=False),
    Column("correction", BigInteger, nullable=False),
    Column("charge", BigInteger, nullable=False),
    Column("hold", BigInteger, nullable=False),
    Column("release", BigInteger, nullable=False),
    Column("waybills", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# The calls of known accounts that were not charged, and why: refused, failed, free or replayed.
refused_call = Table(
    "refused_call",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("request_id", String, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("operation", String, nullable=False),
    Column("code", BigInteger, nullable=False),
    Column("reason", String, nullable=False),
    Column("replay_of", String),
    Index("refused_call_at", "at_ms"),
    sqlite_with_rowid=False,
)
