"""Owners and their consents; promotion material."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    _consent()
    _promotion_material()


def _consent() -> None:
    op.create_table(
        "owner",
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("shop_code", sa.String),
        sa.Column("login", sa.String, nullable=False, unique=True),
        sa.Column("password_hash", sa.String, nullable=False),
        sa.Column("added_at_s", sa.BigInteger, nullable=False),
        sa.CheckConstraint("kind IN ('shop', 'user')", name="owner_kind"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "consent",
        sa.Column("owner_kind", sa.String, primary_key=True),
        sa.Column("owner_id", sa.String, primary_key=True),
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("account_id", sa.String, nullable=False),
        sa.Column("scope", sa.String, nullable=False),
        sa.Column("granted_by", sa.String, nullable=False),
        sa.Column("granted_at_s", sa.BigInteger, nullable=False),
        sa.Column("expires_at_s", sa.BigInteger),
        sa.Column("revoked_at_s", sa.BigInteger),
        sa.CheckConstraint("granted_by IN ('owner', 'operator')", name="consent_granted_by"),
        sqlite_with_rowid=False,
    )
    op.create_index("consent_id", "consent", ["id"], unique=True)
    op.create_index("consent_account", "consent", ["account_id"])
    op.create_table(
        "consent_use",
        sa.Column("owner_kind", sa.String, primary_key=True),
        sa.Column("owner_id", sa.String, primary_key=True),
        sa.Column("consent_id", sa.String, primary_key=True),
        sa.Column("request_id", sa.String, primary_key=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("operation", sa.String, nullable=False),
        sqlite_with_rowid=False,
    )


def _promotion_material() -> None:
    op.create_table(
        "promotion_material",
        sa.Column("promotion_id", sa.BigInteger, primary_key=True),
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("promotion_type", sa.String, nullable=False),
        sa.Column("condition_type", sa.String, nullable=False),
        sa.Column("discount_type", sa.String, nullable=False),
        sa.Column("total_count", sa.BigInteger, nullable=False),
        sa.Column("remain_count", sa.BigInteger, nullable=False),
        sa.Column("display_start_ms", sa.BigInteger, nullable=False),
        sa.Column("display_end_ms", sa.BigInteger, nullable=False),
        sa.Column("seller_id", sa.String, nullable=False),
        sa.Column("nick", sa.String, nullable=False),
        sa.Column("shop_title", sa.String, nullable=False),
        sa.Column("shop_picture_url", sa.String, nullable=False),
        sa.Column("promotion_url", sa.String, nullable=False),
        sa.Column("paid_coupon_item_id", sa.String, nullable=False),
        sa.Column("paid_coupon_url", sa.String, nullable=False),
        sa.Column("benefits", sa.String, nullable=False),
        sa.Column("items", sa.String, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "promotion_material_display",
        "promotion_material",
        ["promotion_id", "display_start_ms", "id"],
    )
