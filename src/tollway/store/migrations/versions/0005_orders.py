"""Orders, how many there are, and who pushes them."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    _orders()
    _indexes()
    _counts()
    _pushes()


def _orders() -> None:
    op.create_table(
        "shop_order",
        sa.Column("owner_id", sa.String, primary_key=True),
        sa.Column("newest_first", sa.BigInteger, primary_key=True),
        sa.Column("order_sn", sa.String, primary_key=True),
        sa.Column("updated_ms", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("province", sa.String, nullable=False),
        sa.Column("city", sa.String, nullable=False),
        sa.Column("town", sa.String, nullable=False),
        sa.Column("goods_name", sa.String, nullable=False),
        sa.Column("goods_img", sa.String, nullable=False),
        sa.Column("goods_spec", sa.String, nullable=False),
        sa.Column("goods_count", sa.BigInteger, nullable=False),
        sa.Column("is_pre_sale", sa.Integer, nullable=False),
        sa.Column("last_ship_ms", sa.BigInteger, nullable=False),
        sa.Column("pay_fen", sa.BigInteger, nullable=False),
        sa.Column("remark", sa.String),
        sa.Column("remark_tag", sa.Integer),
        sa.Column("remark_tag_name", sa.String),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.CheckConstraint("status IN (1, 2, 3)", name="shop_order_status"),
        sa.CheckConstraint("remark_tag BETWEEN 1 AND 5", name="shop_order_remark_tag"),
        sqlite_with_rowid=False,
    )


def _indexes() -> None:
    op.create_index("shop_order_sn", "shop_order", ["owner_id", "order_sn"], unique=True)
    listing = ["newest_first", "order_sn"]
    _partial("shop_order_tag", ["owner_id", "remark_tag", *listing], "remark_tag")
    _partial("shop_order_tag_name", ["owner_id", "remark_tag_name", *listing], "remark_tag_name")
    both = ["owner_id", "remark_tag_name", "remark_tag", *listing]
    _partial("shop_order_tag_both", both, "remark_tag_name")
    searched = ["owner_id", *listing, "remark", "remark_tag", "remark_tag_name"]
    _partial("shop_order_remark", searched, "remark")


def _partial(name: str, columns: list[str], present: str) -> None:
    """An index over the orders that have something in one column."""
    where = sa.text(f"{present} IS NOT NULL")
    op.create_index(name, "shop_order", columns, sqlite_where=where, postgresql_where=where)


def _counts() -> None:
    op.create_table(
        "order_count",
        sa.Column("owner_id", sa.String, primary_key=True),
        sa.Column("facet", sa.String, primary_key=True),
        sa.Column("hours", sa.Integer, primary_key=True),
        sa.Column("bucket", sa.BigInteger, primary_key=True),
        sa.Column("orders", sa.BigInteger, nullable=False),
        sa.CheckConstraint("orders >= 0", name="order_count_orders"),
        sqlite_with_rowid=False,
    )


def _pushes() -> None:
    op.create_table(
        "push_source",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("sealed_secrets", sa.LargeBinary, nullable=False),
        sa.Column("added_at_s", sa.BigInteger, nullable=False),
        sa.Column("rotated_at_s", sa.BigInteger),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rejected_record",
        sa.Column("source", sa.String, primary_key=True),
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("received_at_s", sa.BigInteger, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
