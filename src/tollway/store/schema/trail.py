"""The table of the trail: every act of an operator, in a chain of hashes."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, String, Table

from tollway.store.schema import metadata

# Numbered without a gap. `before` and `after` are JSON; `hash` is over the row and the hash before.
# Triggers of the database refuse to change or delete a row.
operator_act = Table(
    "operator_act",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("by", String, nullable=False),
    Column("act", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("before", String),
    Column("after", String),
    Column("hash", LargeBinary, nullable=False),
    Index("operator_act_subject", "subject", "number"),
    sqlite_with_rowid=False,
)
