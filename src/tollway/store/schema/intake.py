"""The tables of pushes: who may push, and the records that were rejected."""

from sqlalchemy import BigInteger, Column, LargeBinary, String, Table

from tollway.store.schema import metadata

# Who may push, and for whom: `speaks_for` is JSON. The secrets (the newest, and the one before it)
# are sealed.
push_source = Table(
    "push_source",
    metadata,
    Column("name", String, primary_key=True),
    Column("speaks_for", String, nullable=False),
    Column("sealed_secrets", LargeBinary, nullable=False),
    Column("added_at_s", BigInteger, nullable=False),
    Column("rotated_at_s", BigInteger),
    sqlite_with_rowid=False,
)

# Pushed records that were rejected. Sealed, because they contain personal data like valid ones.
rejected_record = Table(
    "rejected_record",
    metadata,
    Column("source", String, primary_key=True),
    Column("id", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("received_at_s", BigInteger, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
