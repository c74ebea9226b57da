"""Coupon claims, and how many of them each hour has."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "coupon_claim",
        sa.Column("sid", sa.String, primary_key=True),
        sa.Column("claim_type", sa.Integer, primary_key=True),
        sa.Column("newest_first", sa.BigInteger, primary_key=True),
        sa.Column("coupon_code", sa.String, primary_key=True),
        sa.Column("coupon_name", sa.String, nullable=False),
        sa.Column("coupon_type", sa.String, nullable=False),
        sa.Column("money_fen", sa.BigInteger, nullable=False),
        sa.Column("min_use_fen", sa.BigInteger, nullable=False),
        sa.Column("begin_at_s", sa.BigInteger, nullable=False),
        sa.Column("end_at_s", sa.BigInteger, nullable=False),
        sa.Column("app_key", sa.String, nullable=False),
        sa.CheckConstraint("claim_type IN (4, 6)", name="coupon_claim_type"),
        sqlite_with_rowid=False,
    )
    op.create_index("coupon_claim_code", "coupon_claim", ["coupon_code"], unique=True)
    op.create_table(
        "coupon_claim_hour",
        sa.Column("sid", sa.String, primary_key=True),
        sa.Column("claim_type", sa.Integer, primary_key=True),
        sa.Column("hour", sa.BigInteger, primary_key=True),
        sa.Column("claims", sa.BigInteger, nullable=False),
        sa.CheckConstraint("claims >= 0", name="coupon_claim_hour_claims"),
        sqlite_with_rowid=False,
    )
