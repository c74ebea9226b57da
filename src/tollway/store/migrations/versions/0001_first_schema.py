"""The first schema: accounts and their books, product figures."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    _books()
    _figures()
    op.execute("INSERT INTO version (id, directory, figures) VALUES (1, 0, 0)")


def _books() -> None:
    op.create_table(
        "account",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
        sa.Column("opened_at_s", sa.BigInteger, nullable=False),
        sa.Column("closed_at_s", sa.BigInteger),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "token",
        sa.Column("hash", sa.LargeBinary, primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("account_id", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("label", sa.String, nullable=False),
        sa.Column("start", sa.String, nullable=False),
        sa.Column("issued_at_s", sa.BigInteger, nullable=False),
        sa.Column("expires_at_s", sa.BigInteger),
        sa.Column("revoked_at_s", sa.BigInteger),
        sa.Column("last_used_at_s", sa.BigInteger),
        sa.CheckConstraint("kind IN ('live', 'test')", name="token_kind"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_token_account_id", "token", ["account_id"])
    op.create_table(
        "operation_state",
        sa.Column("operation", sa.String, primary_key=True),
        sa.Column("is_closed", sa.Integer, nullable=False),
        sa.Column("price", sa.BigInteger),
        sa.CheckConstraint("price >= 0", name="operation_state_price"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "permission",
        sa.Column("account_id", sa.String, primary_key=True),
        sa.Column("operation", sa.String, primary_key=True),
        sa.Column("price", sa.BigInteger),
        sa.Column("rate_limit", sa.BigInteger),
        sa.CheckConstraint("price >= 0", name="permission_price"),
        sa.CheckConstraint("rate_limit >= 1", name="permission_rate_limit"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "balance",
        sa.Column("account_id", sa.String, primary_key=True),
        sa.Column("unit", sa.String, primary_key=True),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("entries", sa.BigInteger, nullable=False),
        sa.CheckConstraint("amount >= 0", name="balance_amount"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "entry",
        sa.Column("account_id", sa.String, primary_key=True),
        sa.Column("unit", sa.String, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("balance_after", sa.BigInteger, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("operation", sa.String),
        sa.Column("request_id", sa.String),
        sa.Column("token_id", sa.String),
        sa.Column("note", sa.String),
        sa.CheckConstraint("kind IN ('top_up', 'correction', 'charge')", name="entry_kind"),
        sqlite_with_rowid=False,
    )
    op.create_index("entry_request", "entry", ["request_id"])
    op.create_table(
        "version",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("directory", sa.BigInteger, nullable=False),
        sa.Column("figures", sa.BigInteger, nullable=False),
    )


def _figures() -> None:
    op.create_table(
        "product",
        sa.Column("product_id", sa.String, primary_key=True),
        sa.Column("title", sa.String, nullable=False),
        sa.Column("picture_url", sa.String, nullable=False),
        sa.Column("shop_name", sa.String, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "product_day",
        sa.Column("product_id", sa.String, primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sa.Column("visitors", sa.BigInteger, nullable=False),
        sa.Column("buyers", sa.BigInteger, nullable=False),
        sa.Column("payment_fen", sa.BigInteger, nullable=False),
        sa.Column("collections", sa.BigInteger, nullable=False),
        sa.Column("pieces_paid", sa.BigInteger, nullable=False),
        sa.Column("pieces_carted", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "product_figure",
        sa.Column("product_id", sa.String, primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("visitors", sa.BigInteger, nullable=False),
        sa.Column("buyers", sa.BigInteger, nullable=False),
        sa.Column("pieces_ordered", sa.BigInteger, nullable=False),
        sa.Column("page_views", sa.BigInteger, nullable=False),
        sa.CheckConstraint("kind IN ('source', 'keyword', 'search')", name="product_figure_kind"),
        sqlite_with_rowid=False,
    )
