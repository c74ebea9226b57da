"""The tables of product analysis: products, their days, the parts of a day, and those parts as they
are answered."""

from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, LargeBinary, String, Table

from tollway.store.schema import metadata

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

# The figures of one day by traffic source, by keyword, by search term.
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
    CheckConstraint(
        "kind = 'source' OR kind = 'keyword' OR kind = 'search'", name="product_figure_kind"
    ),
    sqlite_with_rowid=False,
)

# The same parts as they are answered: three encoded lists, made in every transaction that changes a
# part.
product_day_parts = Table(
    "product_day_parts",
    metadata,
    Column("product_id", String, primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("sources", LargeBinary, nullable=False),
    Column("keywords", LargeBinary, nullable=False),
    Column("searches", LargeBinary, nullable=False),
)
