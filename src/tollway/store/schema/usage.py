"""The tables of usage: sums of charges by minute, hour and day, and how far they reach."""

from sqlalchemy import BigInteger, Column, Index, String, Table

from tollway.store.schema import metadata

usage = Table(
    "usage",
    metadata,
    Column("span_s", BigInteger, primary_key=True),
    Column("start_s", BigInteger, primary_key=True),
    Column("account_id", String, primary_key=True),
    Column("unit", String, primary_key=True),
    Column("operation", String, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("amount", BigInteger, nullable=False),
    # With the sums: SQLite would read all accounts of the span instead of looking them up.
    Index("usage_account", "account_id", "span_s", "start_s", "calls", "amount"),
    sqlite_with_rowid=False,
)

# The entries of a balance up to `number` are in the sums. `skipped` is what those took that were
# dropped before they could be counted.
usage_cursor = Table(
    "usage_cursor",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("unit", String, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("skipped", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
