"""Every table, once, for both engines.

Times are whole numbers with their unit in the name, days are whole numbers like 20260131, money is
whole fen. The key of every table that grows with traffic starts with the account, the product or
the sid, so that the same schema can be sharded. Rows of such tables are stored in key order
(`sqlite_with_rowid=False`), because a call reads a run of neighbours.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
)

metadata = MetaData()

account = Table(
    "account",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("opened_at_s", BigInteger, nullable=False),
    Column("closed_at_s", BigInteger),
    sqlite_with_rowid=False,
)

token = Table(
    "token",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("account_id", String, nullable=False, index=True),
    Column("kind", String, nullable=False),
    Column("label", String, nullable=False),
    Column("start", String, nullable=False),
    Column("issued_at_s", BigInteger, nullable=False),
    Column("expires_at_s", BigInteger),
    Column("revoked_at_s", BigInteger),
    Column("last_used_at_s", BigInteger),
    Column("client_id", String),
    CheckConstraint("kind IN ('live', 'test')", name="token_kind"),
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

# `amount` is what is available. What was reserved is `held` until it is captured or released, and
# what was charged is `posted`. `entries` counts the entries behind a balance, so that one that goes
# missing is noticed.
balance = Table(
    "balance",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("unit", String, primary_key=True),
    Column("amount", BigInteger, nullable=False),
    Column("held", BigInteger, nullable=False),
    Column("posted", BigInteger, nullable=False),
    Column("entries", BigInteger, nullable=False),
    CheckConstraint("amount >= 0", name="balance_amount"),
    CheckConstraint("held >= 0", name="balance_held"),
    CheckConstraint("posted >= 0", name="balance_posted"),
    sqlite_with_rowid=False,
)

# `amount` is how much more is available afterwards. A hold takes, its release gives back, and a
# capture is a release and a charge in one transaction.
entry = Table(
    "entry",
    metadata,
    Column("account_id", String, primary_key=True),
    Column("unit", String, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("kind", String, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("balance_after", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("operation", String),
    Column("request_id", String),
    Column("token_id", String),
    Column("note", String),
    CheckConstraint(
        "kind IN ('top_up', 'correction', 'charge', 'hold', 'release')", name="entry_kind"
    ),
    Index("entry_request", "request_id"),
    sqlite_with_rowid=False,
)

# One row. What is kept in memory is thrown away when its version moves on.
version = Table(
    "version",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("directory", BigInteger, nullable=False),
    Column("figures", BigInteger, nullable=False),
)

product = Table(
    "product",
    metadata,
    Column("product_id", String, primary_key=True),
    Column("title", String, nullable=False),
    Column("picture_url", String, nullable=False),
    Column("shop_name", String, nullable=False),
    sqlite_with_rowid=False,
)

product_day = Table(
    "product_day",
    metadata,
    Column("product_id", String, primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("visitors", BigInteger, nullable=False),
    Column("buyers", BigInteger, nullable=False),
    Column("payment_fen", BigInteger, nullable=False),
    Column("collections", BigInteger, nullable=False),
    Column("pieces_paid", BigInteger, nullable=False),
    Column("pieces_carted", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# The figures of one day, taken apart: by traffic source, by keyword, by search term.
product_figure = Table(
    "product_figure",
    metadata,
    Column("product_id", String, primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("kind", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("visitors", BigInteger, nullable=False),
    Column("buyers", BigInteger, nullable=False),
    Column("pieces_ordered", BigInteger, nullable=False),
    Column("page_views", BigInteger, nullable=False),
    CheckConstraint("kind IN ('source', 'keyword', 'search')", name="product_figure_kind"),
    sqlite_with_rowid=False,
)

# `newest_first` is the time of the claim in seconds, negated: so the order of the key is the order
# of listing (newest first, then code), and a page is one run of neighbours in either engine.
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
    CheckConstraint("claim_type IN (4, 6)", name="coupon_claim_type"),
    Index("coupon_claim_code", "coupon_code", unique=True),
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
    sqlite_with_rowid=False,
)
