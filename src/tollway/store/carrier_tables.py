"""The table of links to remote carriers; the carriers themselves are in `schema.py`."""

from sqlalchemy import BigInteger, CheckConstraint, Column, LargeBinary, String, Table

from tollway.store.schema import metadata

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
    CheckConstraint("deadline_ms > 0", name="carrier_link_deadline"),
    # Until its deadline a message may still be on its way: only later can it be known to be lost.
    CheckConstraint("settle_after_s * 1000 > deadline_ms", name="carrier_link_settle_after"),
    sqlite_with_rowid=False,
)
