"""The tables of orders: the orders themselves, and how many there are by day, hour and facet."""

from functools import lru_cache

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

from tollway.store.schema import MONTHS, WHERE_ON_SERVER, DividedBy, metadata, partial_index

# An index entry of PostgreSQL holds at most 2,704 bytes, so long remarks are left out there. The
# planner uses such an index only if the query states the same condition.
SHORT_REMARK = "length(remark) <= 250"
LONG_REMARK = "length(remark) > 250"

# `newest_first` is the confirm time in milliseconds, negated: so the order of the key is the order
# of listing (newest first, then order number), and a page is one run of neighbours in either
# engine. `change_no` is larger than that of every earlier change of the shop's orders, so a caller
# that reads in its order misses none. `sealed` holds the receiver's name, phone and detailed
# address, and the remark as it was written, and is empty once they are erased; `remark` is the part
# of it that may be shown and searched. `ready` is the order as it is answered, masked and encoded,
# up to the price of the call.
shop_order = Table(
    "shop_order",
    metadata,
    Column("owner_id", String, primary_key=True),
    Column("newest_first", BigInteger, primary_key=True),
    Column("order_sn", String, primary_key=True),
    Column("updated_ms", BigInteger, nullable=False),
    Column("status", Integer, nullable=False),
    Column("province", String, nullable=False),
    Column("city", String, nullable=False),
    Column("town", String, nullable=False),
    Column("goods_name", String, nullable=False),
    Column("goods_img", String, nullable=False),
    Column("goods_spec", String, nullable=False),
    Column("goods_count", BigInteger, nullable=False),
    Column("is_pre_sale", Integer, nullable=False),
    Column("last_ship_ms", BigInteger, nullable=False),
    Column("pay_fen", BigInteger, nullable=False),
    Column("remark", String),
    Column("remark_tag", Integer),
    Column("remark_tag_name", String),
    Column("change_no", BigInteger, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("ready", LargeBinary, nullable=False),
    CheckConstraint("status BETWEEN 1 AND 3", name="shop_order_status"),
    CheckConstraint("remark_tag BETWEEN 1 AND 5", name="shop_order_remark_tag"),
    Index("shop_order_sn", "owner_id", "order_sn", unique=True),
    Index("shop_order_change", "owner_id", "change_no"),
    # One index for each filter by tag. Few orders have a tag, so these are small.
    partial_index(
        "shop_order_tag",
        "owner_id",
        "remark_tag",
        "newest_first",
        "order_sn",
        where="remark_tag IS NOT NULL",
    ),
    partial_index(
        "shop_order_tag_name",
        "owner_id",
        "remark_tag_name",
        "newest_first",
        "order_sn",
        where="remark_tag_name IS NOT NULL",
    ),
    partial_index(
        "shop_order_tag_both",
        "owner_id",
        "remark_tag_name",
        "remark_tag",
        "newest_first",
        "order_sn",
        where="remark_tag_name IS NOT NULL",
    ),
    # A search in remarks reads only this index, and skips orders without a remark.
    partial_index(
        "shop_order_remark",
        "owner_id",
        "newest_first",
        "order_sn",
        "remark",
        "remark_tag",
        "remark_tag_name",
        where="remark IS NOT NULL",
        on_server=SHORT_REMARK,
    ),
    # On PostgreSQL the few long remarks are read from the orders themselves.
    Index(
        "shop_order_long_remark",
        "owner_id",
        "newest_first",
        "order_sn",
        "remark_tag",
        "remark_tag_name",
        info={WHERE_ON_SERVER: LONG_REMARK},
    ).ddl_if(dialect="postgresql"),
    info={MONTHS: DividedBy("newest_first", -1000)},
    sqlite_with_rowid=False,
)

# The rows of all orders by day.
ALL_BY_DAY = "hours = 24 AND facet = ''"

# How many orders of a facet (all, one tag, one tag name, both) a day or an hour has; changed in the
# same transaction as the orders. `hours` is 24 or 1; `bucket` counts such spans since 1970, UTC.
order_count = Table(
    "order_count",
    metadata,
    Column("owner_id", String, primary_key=True),
    Column("facet", String, primary_key=True),
    Column("hours", Integer, primary_key=True),
    Column("bucket", BigInteger, primary_key=True),
    Column("orders", BigInteger, nullable=False),
    CheckConstraint("orders >= 0", name="order_count_orders"),
    # The days of all orders, oldest first: retention finds what it drops without a scan.
    partial_index(
        "order_count_day",
        "bucket",
        "owner_id",
        where=ALL_BY_DAY,
    ),
    sqlite_with_rowid=False,
)

# A new version with every change of a shop's counts, in the same transaction, and one row for
# changes of all shops at once. Random, not counted: a restored database must not reuse versions.
order_version = Table(
    "order_version",
    metadata,
    Column("owner_id", String, primary_key=True),
    Column("version", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# The last change number that a shop's orders got.
order_change = Table(
    "order_change",
    metadata,
    Column("owner_id", String, primary_key=True),
    Column("change_no", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

EVERY_OWNER = ""

HOUR_MS = 3_600_000
DAY_HOURS = 24
DAY_MS = HOUR_MS * DAY_HOURS

ALL = ""


def facet_of(tag: int | None, tag_name: str | None) -> str:
    """The facet that a query with this tag, this name, both or neither lists."""
    if tag is None:
        return ALL if tag_name is None else f"n:{tag_name}"
    return f"t:{tag}" if tag_name is None else f"tn:{tag}:{tag_name}"


@lru_cache(maxsize=1024)
def facets_of(tag: int | None, tag_name: str | None) -> frozenset[str]:
    """Every facet that an order with this tag and name belongs to. Cached, since a shop has few tag
    names."""
    facets = (ALL, facet_of(tag, None), facet_of(None, tag_name), facet_of(tag, tag_name))
    return frozenset(facets)
