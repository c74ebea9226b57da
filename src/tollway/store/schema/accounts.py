"""The tables of accounts, and of what they may call.

They need no option of a server, so that a command about accounts does not load its dialect.
"""

from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, String, Table

from tollway.store.schema import metadata

account = Table(
    "account",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("opened_at_s", BigInteger, nullable=False),
    Column("closed_at_s", BigInteger),
    sqlite_with_rowid=False,
)

# An operation without a row is open and has its descriptor's price.
operation_state = Table(
    "operation_state",
    metadata,
    Column("operation", String, primary_key=True),
    Column("is_closed", Integer, nullable=False),
    Column("price", BigInteger),
    CheckConstraint("price >= 0", name="operation_state_price"),
    sqlite_with_rowid=False,
)

# Which account may call which operation. No price or rate here means the common one.
permission = Table(
    "permission",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("operation", String, primary_key=True),
    Column("price", BigInteger),
    Column("rate_limit", BigInteger),
    CheckConstraint("price >= 0", name="permission_price"),
    CheckConstraint("rate_limit >= 1", name="permission_rate_limit"),
    sqlite_with_rowid=False,
)
