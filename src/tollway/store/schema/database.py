"""The tables about the database itself: which gateways serve it, which may serve it, with which
keys, and the versions of the data that gateways cache."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, LargeBinary, String, Table

from tollway.store.schema import metadata

# The processes that serve; `knows_schema` is the newest revision that a process knows, `lag_ms` how
# long ago its replica, if it has one, had all that the primary had.
node = Table(
    "node",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("version", String, nullable=False),
    Column("knows_schema", String, nullable=False),
    # The newest key of its key file, and the one that it seals with.
    Column("knows_key", BigInteger, nullable=False),
    Column("seals_with", BigInteger, nullable=False),
    Column("seen_at_ms", BigInteger, nullable=False),
    Column("connections", BigInteger),
    Column("lag_ms", BigInteger),
    sqlite_with_rowid=False,
)

# The oldest revision whose gateways can serve on the schema as it is: one row.
schema_floor = Table(
    "schema_floor",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("revision", String, nullable=False),
    CheckConstraint("id = 1", name="schema_floor_one_row"),
)

# Fingerprints of the keys that the database is used with; they decrypt nothing.
key_check = Table(
    "key_check",
    metadata,
    Column("setting", String, primary_key=True),
    Column("key_id", Integer, primary_key=True, autoincrement=False),
    Column("fingerprint", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# The last run of each occasional job: audits, backups, imports, the pushes of a source. `result` is
# JSON.
last_run = Table(
    "last_run",
    metadata,
    Column("name", String, primary_key=True),
    Column("at_s", BigInteger, nullable=False),
    Column("is_good", Integer, nullable=False),
    Column("result", String, nullable=False),
    sqlite_with_rowid=False,
)

# One row. A gateway throws a cache away when its version changes; of the directory's, only what is
# about the accounts that `latest_changes` names, if it does (store/cache_versions.py).
version = Table(
    "version",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("directory", BigInteger, nullable=False),
    Column("figures", BigInteger, nullable=False),
    Column("material", BigInteger, nullable=False),
    Column("latest_changes", String, nullable=False, server_default=""),
)
