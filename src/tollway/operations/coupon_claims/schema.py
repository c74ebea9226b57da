"""The tables of coupon claims: the claims, how many each hour has, and the versions of that."""

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

from tollway.store.schema import MONTHS, DividedBy, metadata

# `newest_first` is the time of the claim in seconds, negated: so the order of the key is the order
# of listing (newest first, then code), and a page is one run of neighbours in either engine.
# `updated_ms` is when this version of the claim was made, or else received.
# `ready` is the claim as it is answered, encoded, except its time, which depends on a setting.
coupon_claim = Table(
    "coupon_claim",
    metadata,
    Column("sid", String, primary_key=True),
    Column("claim_type", Integer, primary_key=True),
    Column("newest_first", BigInteger, primary_key=True),
    Column("coupon_code", String, primary_key=True),
    Column("coupon_name", String, nullable=False),
    Column("coupon_type", String, nullable=False),
    Column("money_fen", BigInteger, nullable=False),
    Column("min_use_fen", BigInteger, nullable=False),
    Column("begin_at_s", BigInteger, nullable=False),
    Column("end_at_s", BigInteger, nullable=False),
    Column("app_key", String, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Column("ready", LargeBinary, nullable=False),
    CheckConstraint("claim_type IN (4, 6)", name="coupon_claim_type"),
    Index("coupon_claim_code", "coupon_code", unique=True),
    info={MONTHS: DividedBy("newest_first", -1)},
    sqlite_with_rowid=False,
)

# How many claims an hour has; changed in the same transaction as the claims.
coupon_claim_hour = Table(
    "coupon_claim_hour",
    metadata,
    Column("sid", String, primary_key=True),
    Column("claim_type", Integer, primary_key=True),
    Column("hour", BigInteger, primary_key=True),
    Column("claims", BigInteger, nullable=False),
    CheckConstraint("claims >= 0", name="coupon_claim_hour_claims"),
    # Oldest first: retention finds what it drops without a scan.
    Index("coupon_claim_hour_at", "hour"),
    sqlite_with_rowid=False,
)

# A new version with every change of a list's counts, in the same transaction, and one row for
# changes of all lists at once. Random, not counted: a restored database must not reuse versions.
EVERY_LIST = ("", 0)
coupon_claim_version = Table(
    "coupon_claim_version",
    metadata,
    Column("sid", String, primary_key=True),
    Column("claim_type", Integer, primary_key=True),
    Column("version", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
