"""The programs that obtain tokens themselves, and how the tokens of one are found.

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
    text,
)

from tollway.store.schema import metadata, token

client = Table(
    "client",
    metadata,
    Column("id", String, primary_key=True),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("account_id", String, nullable=False, index=True),
    Column("kind", String, nullable=False),
    Column("label", String, nullable=False),
    Column("start", String, nullable=False),
    Column("added_at_s", BigInteger, nullable=False),
    Column("revoked_at_s", BigInteger),
    CheckConstraint("kind IN ('live', 'test')", name="client_kind"),
    sqlite_with_rowid=False,
)

# Most tokens come from the operator, and are in neither.
IS_OBTAINED = "client_id IS NOT NULL"
Index(
    "token_client",
    token.c.client_id,
    token.c.issued_at_s,
    sqlite_where=text(IS_OBTAINED),
    postgresql_where=text(IS_OBTAINED),
)
Index(
    "token_client_expiry",
    token.c.kind,
    token.c.expires_at_s,
    sqlite_where=text(IS_OBTAINED),
    postgresql_where=text(IS_OBTAINED),
)
